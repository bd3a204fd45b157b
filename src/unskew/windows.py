"""The functions that `unskew.over` computes, under the names of `pyspark.sql.functions`.

`unskew.over` has to see which function it computes, which a PySpark Column does not tell. A column is given by name or
as an expression. An aggregate takes a frame of its own: `windows.sum("amount").rowsBetween(-6, 0)`.

>>> from unskew import windows
>>> windows.lag("page", 2).name
'lag'
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from unskew.core.window_functions import WindowFunction

if TYPE_CHECKING:
    from pyspark.sql import Column

__all__ = [
    "WindowFunction",
    "avg",
    "count",
    "cume_dist",
    "dense_rank",
    "first",
    "lag",
    "last",
    "lead",
    "max",
    "mean",
    "min",
    "ntile",
    "percent_rank",
    "rank",
    "row_number",
    "sum",
]

_Column: TypeAlias = "str | Column"


def row_number() -> WindowFunction:
    """The number of the row in the order of its key, from 1; rows with equal order values are in any order."""
    return WindowFunction("row_number")


def rank() -> WindowFunction:
    """One more than the number of rows that come before, so that ties leave gaps."""
    return WindowFunction("rank")


def dense_rank() -> WindowFunction:
    """One more than the number of different order values that come before."""
    return WindowFunction("dense_rank")


def percent_rank() -> WindowFunction:
    """(rank - 1) / (rows - 1)."""
    return WindowFunction("percent_rank")


def cume_dist() -> WindowFunction:
    """The share of the rows that come before or tie."""
    return WindowFunction("cume_dist")


def ntile(n: int) -> WindowFunction:
    """Which of n parts of nearly equal size the row is in, from 1."""
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise ValueError(f"ntile needs the number of parts, 1 or more, not {n!r}")
    return WindowFunction("ntile", number=n)


def lag(column: _Column, offset: int = 1, default: Any = None) -> WindowFunction:
    """The value `offset` rows before; `default` where there is no such row."""
    return WindowFunction("lag", column, _offset(offset), default)


def lead(column: _Column, offset: int = 1, default: Any = None) -> WindowFunction:
    """The value `offset` rows after; `default` where there is no such row."""
    return WindowFunction("lead", column, _offset(offset), default)


def sum(column: _Column) -> WindowFunction:
    """The sum over the frame; floating-point numbers are added in another order than plain Spark adds them."""
    return WindowFunction("sum", column)


def count(column: _Column = "*") -> WindowFunction:
    """The number of rows in the frame, or of values that are not null."""
    return WindowFunction("count", None if isinstance(column, str) and column == "*" else column)


def min(column: _Column) -> WindowFunction:
    """The smallest value in the frame."""
    return WindowFunction("min", column)


def max(column: _Column) -> WindowFunction:
    """The largest value in the frame."""
    return WindowFunction("max", column)


def mean(column: _Column) -> WindowFunction:
    """The mean of the values in the frame that are not null."""
    return WindowFunction("mean", column)


avg = mean


def first(column: _Column, ignorenulls: bool = False) -> WindowFunction:
    """The value of the first row of the frame, or of the first that is not null."""
    return WindowFunction("first", column, ignores_nulls=ignorenulls)


def last(column: _Column, ignorenulls: bool = False) -> WindowFunction:
    """The value of the last row of the frame, or of the last that is not null."""
    return WindowFunction("last", column, ignores_nulls=ignorenulls)


def _offset(offset: int) -> int:
    if isinstance(offset, bool) or not isinstance(offset, int):
        raise ValueError(f"the offset of lag and lead is a number of rows, not {offset!r}")
    return offset
