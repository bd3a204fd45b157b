"""The user's function as PySpark sees it: its arguments and type hints, and wrappers that hide our slot from it."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, get_type_hints


def argument_count(func: Callable[..., Any]) -> int:
    """How many arguments the function takes; PySpark passes the key only to functions that have one more."""
    return len(inspect.getfullargspec(func).args)


def takes_batches(func: Callable[..., Any]) -> bool:
    """Whether the function takes the batches of a group one after the other: PySpark judges by its type hints."""
    annotations = inspect.getfullargspec(func).annotations
    try:
        hints = f"{annotations} {get_type_hints(func)}"
    except (NameError, TypeError):
        # A name cannot be resolved, or it is a callable object: PySpark goes by the text as well.
        hints = str(annotations)
    return "Iterator" in hints


def without_slot(func: Callable[..., Any], inputs: int, *, last: bool = False) -> Callable[..., Any]:
    """The user's function, called with a key from which our slot, its first part or its `last`, is removed.

    A function that takes no key is returned as it is.
    """
    if argument_count(func) != inputs + 1:
        return func
    return _disguised(lambda key, *rows: func(key[:-1] if last else key[1:], *rows), func)


def without_column(func: Callable[..., Any], inputs: int, name: str) -> Callable[..., Any]:
    """The user's function on rows without our slot column; rows are its last `inputs` arguments."""

    def cleaned(rows: Any) -> Any:
        # an Arrow table, else a pandas DataFrame, else an iterator of one of them
        if hasattr(rows, "drop_columns"):
            return rows.drop_columns([name])
        return rows.drop(columns=[name]) if hasattr(rows, "columns") else map(cleaned, rows)

    def call(*arguments: Any) -> Any:
        return func(*arguments[:-inputs], *map(cleaned, arguments[-inputs:]))

    return _disguised(call, func)


def _disguised(inner: Callable[..., Any], func: Callable[..., Any]) -> Callable[..., Any]:
    """`inner` with the number of arguments, type hints and name of `func`: PySpark inspects all of them."""
    count = argument_count(func)
    if count == 1:
        return functools.wraps(func)(lambda a: inner(a))
    if count == 2:
        return functools.wraps(func)(lambda a, b: inner(a, b))
    return functools.wraps(func)(lambda a, b, c: inner(a, b, c))
