"""Window functions on pieces of a key: what is computed on a piece, what of the rest of the key, and the two together.

A piece sees a range of its key's rows that reaches as far as its functions look (`over_layout`). A function over that
range is right but for the rows before and behind it, of which a few figures suffice:

    row_number, rank, dense_rank     + the number of rows or of different order values before
    ntile, percent_rank, cume_dist   from these and the number of all rows
    lag, lead, bounded frames        nothing: all that they look at is in the range
    sum, count, min, max, mean       combined with those of all rows before or behind, where the frame is unbounded
    first, last                      the first or last row of the key, where the frame is unbounded on that side
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from pyspark.sql import functions as F
from pyspark.sql import types as T

from unskew.core.window_functions import AGGREGATES, OFFSETS, Frame, WindowFunction
from unskew.spark.keys import column
from unskew.spark.over_layout import Reach
from unskew.spark.row_order import is_collated

if TYPE_CHECKING:
    from pyspark.sql import Column, WindowSpec

Side = Literal["before", "after", "all"]

_MOST_DIGITS, _DIGITS_OF_A_SUM, _KEPT_SCALE = 38, 10, 6
"""Of decimals: the most digits, those that a sum has more than its summands, those always kept behind the point."""


@dataclass(frozen=True, eq=False)
class Call:
    """One function of one `withColumns`: its result column, its argument, its frame (None if it has none), its type."""

    name: str
    function: WindowFunction
    argument: Column | None
    argument_type: T.DataType | None
    frame: Frame | None

    def obstacle(self, *, ansi: bool) -> str | None:
        """Why this function cannot be computed from pieces of a key; `ansi` says whether overflow is an error."""
        function, frame = self.function, self.frame
        if frame is None:
            return None
        unbounded = frame.start is None or frame.end is None
        if function.name in ("first", "last") and unbounded:
            if function.ignores_nulls:
                return f"{self.name}: {function.name} of a long frame that ignores nulls depends on all rows between"
            if frame.kind == "range" and ((frame.end or 0) < 0 or (frame.start or 0) > 0):
                return f"{self.name}: the frame of {function.name} may end anywhere before the row"
        if function.name in ("min", "max") and unbounded and is_collated(self.argument_type or T.NullType()):
            return f"{self.name}: of strings that are equal under a collation, plain Spark takes the first"
        if function.name == "mean" and unbounded and not _is_divisible(self.argument_type):
            return f"{self.name}: the mean of {_text(self.argument_type)} is rounded from the whole sum"
        if function.name == "sum" and unbounded and isinstance(self.argument_type, T.DecimalType):
            return self._obstacle_of_decimals(self.argument_type, ansi=ansi)
        return None

    def _obstacle_of_decimals(self, kind: T.DecimalType, *, ansi: bool) -> str | None:
        """Why sums of pieces cannot be added up: only if the sum may have more digits than Spark's decimals."""
        digits = kind.precision + _DIGITS_OF_A_SUM
        if digits < _MOST_DIGITS:
            return None
        if digits > _MOST_DIGITS and not ansi:
            return f"{self.name}: a sum of {_text(kind)} that is null may be one of no rows or one that is too large"
        # Spark makes room for one more digit before the point by dropping one of more than six behind it
        if self.frame is not None and not self.frame.is_whole and kind.scale > _KEPT_SCALE:
            return f"{self.name}: Spark rounds the sum of two decimals as long as those of {_text(kind)}"
        return None

    @property
    def reach(self) -> Reach:
        """How far it looks beyond a piece."""
        if self.function.name in OFFSETS:
            back = self.function.number if self.function.name == "lag" else -self.function.number
            return Reach(max(back, 0), max(-back, 0))
        if self.frame is None:
            return Reach()
        if self.frame.kind == "rows":
            return Reach(self.frame.before, self.frame.after)
        return Reach(range_before=self.frame.before, range_after=self.frame.after)

    @property
    def needs_summary(self) -> bool:
        """Whether it needs figures of rows that its piece does not see, which are read a second time for that."""
        if self.frame is None:
            return self.function.name not in OFFSETS
        return self.frame.start is None or self.frame.end is None

    @property
    def counts_rows(self) -> bool:
        """Whether its result depends on the order of rows that have equal order values."""
        if self.frame is not None:
            return self.frame.kind == "rows" and not self.frame.is_whole
        return self.function.name in ("row_number", "ntile", *OFFSETS)

    @property
    def needs_edge(self) -> bool:
        """Whether it needs the first or last row of the key."""
        if self.frame is None:
            return False
        return (self.function.name == "first" and self.frame.start is None) or (
            self.function.name == "last" and self.frame.end is None
        )

    def plain(self, window: WindowSpec) -> Column:
        """The function of Spark over a window that is ordered, where there is an order."""
        return self.applied(self.function.name).over(self.framed(window))

    def framed(self, window: WindowSpec) -> WindowSpec:
        """The window with the frame."""
        if self.frame is None:
            return window
        low = -(2**63) if self.frame.start is None else self.frame.start
        high = 2**63 - 1 if self.frame.end is None else self.frame.end
        between = window.rowsBetween if self.frame.kind == "rows" else window.rangeBetween
        return between(low, high)

    def applied(self, name: str) -> Column:
        """The function of that name of the argument."""
        if self.argument is None:
            if name == "count":
                return F.count(F.lit(1))
            if name == "ntile":
                return F.ntile(self.function.number)
            no_argument: Column = getattr(F, name)()
            return no_argument
        if name in OFFSETS:
            look: Callable[..., Column] = getattr(F, name)
            return look(self.argument, self.function.number, self.function.default)
        if name in ("first", "last"):
            edge: Callable[..., Column] = getattr(F, name)
            return edge(self.argument, ignorenulls=self.function.ignores_nulls)
        value: Column = getattr(F, name)(self.argument)
        return value


@dataclass(frozen=True, eq=False)
class Total:
    """A figure of an interval of a key's rows, how those of several intervals are merged, and which are needed."""

    name: str
    of_rows: Column
    merged: Callable[[Column], Column]
    sides: tuple[Side, ...]

    def columns(self) -> Iterator[tuple[Side, str]]:
        """The names of its columns in the summary of a piece."""
        for side in self.sides:
            yield side, f"{self.name}_{side}"


@dataclass(frozen=True, eq=False)
class Part:
    """What one function takes: values on the piece by name, figures of the rest of the key, and the result from both.

    `on_hot` is the result for rows of hot keys; None if that is the plain function on the piece.
    """

    call: Call
    on_piece: dict[str, Column]
    totals: list[Total] = field(default_factory=list)
    on_hot: Column | None = None

    @property
    def plain_name(self) -> str:
        """The name of the plain function on the piece."""
        return next(iter(self.on_piece))


ROWS, DISTINCT, EDGE = "__u_rows", "__u_distinct", "__u_edge"


def part_of(call: Call, number: int, window: WindowSpec, order: Column, result_type: T.DataType) -> Part:
    """How a function is computed on pieces; `window` is that of a piece, `order` all order values as one."""
    plain = f"__u_{number}"
    name = call.function.name
    on_piece = {plain: call.plain(window)}
    if name in OFFSETS:
        return Part(call, on_piece)
    if name not in AGGREGATES:
        return _rank(call, plain, window, order, result_type)
    frame = call.frame
    assert frame is not None
    sides = _sides(frame)
    if not sides:
        return Part(call, on_piece)
    if name in ("first", "last"):
        return _edge(call, number, on_piece) if call.needs_edge else Part(call, on_piece)
    if name == "mean":
        return _mean(call, plain, window, sides, result_type)
    merged = F.sum if name in ("sum", "count") else getattr(F, name)
    total = Total(plain, call.applied(name), merged, sides)
    parts = [F.col(total_name) for _, total_name in total.columns()]
    if not frame.is_whole:
        parts.append(F.col(plain))
    return Part(call, on_piece, [total], _combined(name, parts, result_type))


def _sides(frame: Frame) -> tuple[Side, ...]:
    """Of which rows beyond a piece an aggregate over this frame needs the figures."""
    if frame.is_whole:
        return ("all",)
    if frame.start is None:
        return ("before",)
    return ("after",) if frame.end is None else ()


def _rank(call: Call, plain: str, window: WindowSpec, order: Column, result_type: T.DataType) -> Part:
    name = call.function.name
    on_piece = {plain: call.plain(window)}
    before, every = F.coalesce(F.col(f"{ROWS}_before"), F.lit(0)), F.col(f"{ROWS}_all")
    rows = Total(ROWS, F.count(F.lit(1)), F.sum, ("before", "all"))
    if name in ("row_number", "rank"):
        return Part(call, on_piece, [rows], (F.col(plain) + before).cast(result_type))
    if name == "dense_rank":
        distinct = Total(DISTINCT, F.count_distinct(order), F.sum, ("before",))
        values_before = F.coalesce(F.col(f"{DISTINCT}_before"), F.lit(0))
        return Part(call, on_piece, [rows, distinct], (F.col(plain) + values_before).cast(result_type))
    local = f"{plain}_n"
    place = F.col(local) + before
    if name == "ntile":
        on_piece[local] = F.row_number().over(window)
        parts = F.lit(call.function.number)
        small, larger = F.floor(every / parts), every % parts
        in_larger = larger * (small + 1)
        tile = F.when(place <= in_larger, F.ceil(place / (small + 1))).otherwise(
            larger + F.ceil((place - in_larger) / F.greatest(small, F.lit(1)))
        )
        return Part(call, on_piece, [rows], tile.cast(result_type))
    if name == "percent_rank":
        on_piece[local] = F.rank().over(window)
        share = F.when(every > 1, (place - 1).cast("double") / (every - 1).cast("double")).otherwise(
            F.lit(0.0)
        )
        return Part(call, on_piece, [rows], share)
    on_piece[local] = F.count(F.lit(1)).over(window.rangeBetween(-(2**63), 0))
    return Part(call, on_piece, [rows], place.cast("double") / every.cast("double"))


def _mean(
    call: Call, plain: str, window: WindowSpec, sides: tuple[Side, ...], result_type: T.DataType
) -> Part:
    assert call.argument is not None
    framed = call.framed(window)
    summand = call.argument.cast("double")
    on_piece = {plain: call.plain(window)}
    totals = [
        Total(f"{plain}_s", F.sum(summand), F.sum, sides),
        Total(f"{plain}_c", F.count(call.argument), F.sum, sides),
    ]
    sums, counts = ([F.col(name) for _, name in total.columns()] for total in totals)
    if sides != ("all",):
        on_piece |= {
            f"{plain}_s": F.sum(summand).over(framed),
            f"{plain}_c": F.count(call.argument).over(framed),
        }
        sums.append(F.col(f"{plain}_s"))
        counts.append(F.col(f"{plain}_c"))
    rows = _combined("count", counts, T.LongType())
    whole = _combined("sum", sums, None)
    return Part(call, on_piece, totals, F.when(rows > 0, whole / rows.cast("double")).cast(result_type))


def _edge(call: Call, number: int, on_piece: dict[str, Column]) -> Part:
    """The first or last value of the key, unless the piece sees that row itself."""
    side: Side = "before" if call.function.name == "first" else "after"
    rows = Total(ROWS, F.count(F.lit(1)), F.sum, ("before", "after", "all"))
    elsewhere = F.coalesce(F.col(f"{ROWS}_{side}"), F.lit(0)) > 0
    value = F.when(elsewhere, F.col(f"{EDGE}_{number}")).otherwise(F.col(next(iter(on_piece))))
    return Part(call, on_piece, [rows], value)


def _combined(name: str, parts: list[Column], result_type: T.DataType | None) -> Column:
    if name == "count":
        total = F.lit(0)
        for part in parts:
            total = total + F.coalesce(part, F.lit(0))
    elif name == "sum":
        # The sum of sums has more digits than the result, and for those of two such decimals Spark drops the last one.
        summands = parts if result_type is None else [part.cast(result_type) for part in parts]
        total = summands[0]
        for part in summands[1:]:
            total = F.coalesce(total + part, total, part)
    elif len(parts) == 1:
        total = parts[0]
    else:
        total = (F.least if name == "min" else F.greatest)(*parts)
    return total if result_type is None else total.cast(result_type)


def argument_of(function: WindowFunction, columns: list[str]) -> Column | None:
    """The column that a function is of."""
    if isinstance(function.column, str):
        return column(function.column) if function.column in columns else F.col(function.column)
    argument: Column | None = function.column
    return argument


def _is_divisible(kind: T.DataType | None) -> bool:
    """Whether a mean is the plain quotient of sum and count; Spark rounds that of decimals in its own way."""
    return isinstance(kind, T.NumericType) and not isinstance(kind, T.DecimalType)


def _text(kind: T.DataType | None) -> str:
    return "nothing" if kind is None else kind.simpleString()
