"""A mistake of the user's, or of Spark's, as one line on standard error and exit code 2."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import typer
from rich.console import Console
from rich.text import Text

from unskew.report.labels import inert


@contextmanager
def plain_errors() -> Iterator[None]:
    """Tell what went wrong in one line instead of a traceback; what is a fault of unskew's stays one."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.startswith("unskew"):
            raise
        _fail(str(error))
    except (ValueError, OSError, RuntimeError) as error:
        _fail(_first_line(error))
    except Exception as error:
        # PySpark may be missing, so its exceptions are told by where they come from
        if type(error).__module__.partition(".")[0] not in ("pyspark", "py4j", "grpc"):
            raise
        _fail(_first_line(error))


def _fail(message: str) -> NoReturn:
    console = Console(stderr=True)
    console.print(Text.assemble(("error", "bold red"), f": {inert(message)}"), soft_wrap=True)
    raise typer.Exit(2)


def _first_line(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if len(lines) > 1 and lines[0].startswith("An error occurred while calling"):
        lines = lines[1:]  # py4j's own first line; Java's message is in the next one
    return _JAVA_CLASS.sub("", lines[0], count=1) if lines else type(error).__name__


_JAVA_CLASS = re.compile(r'(?:^: |Exception in thread "[^"]*" )*(?:[a-z]\w*\.)+[A-Z]\w*(?:Exception|Error): ')
