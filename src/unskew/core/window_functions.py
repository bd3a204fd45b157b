"""The functions of a window whose hot keys may be cut: what each is called, of which column, over which frame."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

RANKS = frozenset(("row_number", "rank", "dense_rank", "ntile", "percent_rank", "cume_dist"))
OFFSETS = frozenset(("lag", "lead"))
AGGREGATES = frozenset(("sum", "count", "min", "max", "mean", "first", "last"))

_UNBOUNDED = 2**63 - 1


@dataclass(frozen=True)
class Frame:
    """The rows around a row that an aggregate covers; None is unbounded, 0 the row itself (of RANGE: and its ties)."""

    kind: Literal["rows", "range"]
    start: int | None
    end: int | None

    @classmethod
    def between(cls, kind: Literal["rows", "range"], start: int, end: int) -> Frame:
        """The frame as PySpark writes it, where `Window.unboundedPreceding` is a very small number."""
        for bound in (start, end):
            if isinstance(bound, bool) or not isinstance(bound, int):
                raise ValueError(f"a bound of a frame is a whole number, not {bound!r}")
        if start > end:
            raise ValueError(f"a frame from {start} to {end} has no rows: the start comes first")
        return cls(
            kind, None if start <= -_UNBOUNDED else start, None if end >= _UNBOUNDED else end
        ).checked()

    def checked(self) -> Frame:
        """Refuse a frame that starts after the last row or ends before the first."""
        if self.start is not None and self.start >= _UNBOUNDED:
            raise ValueError(
                "a frame cannot start at Window.unboundedFollowing: use unboundedPreceding or a number"
            )
        if self.end is not None and self.end <= -_UNBOUNDED:
            raise ValueError(
                "a frame cannot end at Window.unboundedPreceding: use unboundedFollowing or a number"
            )
        return self

    @property
    def is_whole(self) -> bool:
        """Whether it covers all rows of the key."""
        return self.start is None and self.end is None

    @property
    def before(self) -> int:
        """How far back it reaches, as far as that is bounded; never negative."""
        return max(0, *(-bound for bound in (self.start, self.end) if bound is not None), 0)

    @property
    def after(self) -> int:
        """How far ahead it reaches, as far as that is bounded; never negative."""
        return max(0, *(bound for bound in (self.start, self.end) if bound is not None), 0)


@dataclass(frozen=True, eq=False)
class WindowFunction:
    """A function over a window, such as `unskew.windows.sum("amount")`.

    `column` is the name of a column, an expression of Spark or None. An aggregate covers the frame of the window unless
    `rowsBetween` or `rangeBetween` gives it one of its own.
    """

    name: str
    column: Any = None
    number: int = 1
    default: Any = None
    ignores_nulls: bool = False
    frame: Frame | None = None

    def rowsBetween(self, start: int, end: int) -> WindowFunction:
        """The aggregate over the rows from `start` to `end`, counted from the current row as in PySpark."""
        return self._framed(Frame.between("rows", start, end))

    def rangeBetween(self, start: int, end: int) -> WindowFunction:
        """The aggregate over the rows whose order value is `start` to `end` from the current one, as in PySpark."""
        return self._framed(Frame.between("range", start, end))

    def _framed(self, frame: Frame) -> WindowFunction:
        if self.name not in AGGREGATES:
            raise ValueError(
                f"{self.name} has a frame of its own: leave rowsBetween and rangeBetween to aggregates"
            )
        return replace(self, frame=frame)
