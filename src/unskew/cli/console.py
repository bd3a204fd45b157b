"""How the commands talk: results on standard output, progress and mistakes on standard error."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn, Protocol

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from unskew.report.text import inert


class Step(Protocol):
    """Tell what is being done; the detail is for terminals only."""

    def __call__(self, what: str, detail: str = "") -> None:
        """Say that this begins."""


@contextmanager
def progress() -> Iterator[Step]:
    """What is being done, on standard error: a spinner in a terminal, a line a step elsewhere."""
    console = Console(stderr=True)
    if not console.is_terminal:
        told: list[str] = []

        def tell(what: str, detail: str = "") -> None:  # noqa: ARG001
            if what not in told[-1:]:
                told.append(what)
                console.print(Text(f"unskew: {inert(what)} …"), soft_wrap=True)

        yield tell
        return
    look = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*look, console=console, transient=True) as bar:
        task = bar.add_task("")
        yield lambda what, detail="": bar.update(task, description=inert(what + detail))


@contextmanager
def plain_errors() -> Iterator[None]:
    """A mistake of the user's, or of Spark's, as one line on standard error and exit code 2."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.startswith("unskew"):
            raise
        _fail(str(error))
    except (ValueError, OSError, RuntimeError) as error:
        _fail(first_line(error))
    except Exception as error:
        # PySpark may be missing, so its exceptions are told by where they come from
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
        lines = lines[1:]  # py4j's own first line; Java's message is in the next one
    return _JAVA_CLASS.sub("", lines[0], count=1) if lines else type(error).__name__


_JAVA_CLASS = re.compile(r'(?:^: |Exception in thread "[^"]*" )*(?:[a-z]\w*\.)+[A-Z]\w*(?:Exception|Error): ')


def check_target(path: Path, option: str) -> None:
    """Refuse before minutes of work what could not be written after them."""
    if path.is_dir():
        raise ValueError(f"{option} {path}: that is a folder: name a file in it")
    if any(parent.exists() and not parent.is_dir() for parent in path.absolute().parents):
        raise ValueError(f"{option} {path}: a part of the path is a file, not a folder")
    if option == "--out" and not path.absolute().parent.is_dir():
        raise ValueError(f"{option} {path}: there is no folder {path.absolute().parent}: create it first")


def print_json(figures: Mapping[str, Any]) -> None:
    """The figures as JSON on standard output."""
    sys.stdout.write(json.dumps(figures, indent=2, allow_nan=False) + "\n")
