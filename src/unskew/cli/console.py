"""What the commands print: results on standard output, progress and errors on standard error."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn, Protocol

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from unskew.core.addresses import Address, local_path
from unskew.report.text import inert


class Step(Protocol):
    """Reports what the command is doing; the detail is shown in terminals only."""

    def __call__(self, action: str, detail: str = "") -> None:
        """Report that this begins."""


@contextmanager
def progress() -> Iterator[Step]:
    """What is being done, on standard error: a spinner in a terminal, one line per step elsewhere."""
    console = Console(stderr=True)
    if not console.is_terminal:
        last = ""

        def print_step(action: str, detail: str = "") -> None:  # noqa: ARG001
            nonlocal last
            if action != last:
                last = action
                console.print(Text(f"unskew: {inert(action)} …"), soft_wrap=True)

        yield print_step
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("")
        yield lambda action, detail="": bar.update(task, description=inert(action + detail))


@contextmanager
def plain_errors() -> Iterator[None]:
    """Print a user's mistake, or an error of Spark's, as one line on standard error, and exit with code 2."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.startswith("unskew"):
            raise
        _fail(str(error))
    except (ValueError, OSError, RuntimeError) as error:
        _fail(first_line(error))
    except Exception as error:
        # PySpark may be missing, so its exceptions are recognised by their module
        if type(error).__module__.partition(".")[0] not in ("pyspark", "py4j", "grpc"):
            raise
        _fail(first_line(error))


def _fail(message: str) -> NoReturn:
    console = Console(stderr=True)
    console.print(Text.assemble(("error", "bold red"), f": {inert(message)}"), soft_wrap=True)
    raise typer.Exit(2)


def first_line(error: Exception) -> str:
    """The line of an error that says what is wrong."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if len(lines) > 1 and lines[0].startswith("An error occurred while calling"):
        # py4j's own first line: Java's message is in the next one
        lines = lines[1:]
    return _JAVA_CLASS.sub("", lines[0], count=1) if lines else type(error).__name__


_JAVA_CLASS = re.compile(r'(?:^: |Exception in thread "[^"]*" )*(?:[a-z]\w*\.)+[A-Z]\w*(?:Exception|Error): ')


def check_target(address: Address, option: str, *, creates_folder: bool = False) -> None:
    """Refuse, before minutes of work, a local file that could not be written after them."""
    path = local_path(address)
    if path is None:
        return
    if path.is_dir():
        raise ValueError(f"{option} {path}: that is a folder: name a file in it")
    if any(parent.exists() and not parent.is_dir() for parent in path.absolute().parents):
        raise ValueError(f"{option} {path}: a part of the path is a file, not a folder")
    if not creates_folder and not path.absolute().parent.is_dir():
        raise ValueError(f"{option} {path}: there is no folder {path.absolute().parent}: create it first")


def print_json(figures: Mapping[str, Any]) -> None:
    """Print the figures as JSON on standard output."""
    sys.stdout.write(json.dumps(figures, indent=2, allow_nan=False) + "\n")
