"""The order of a window: its columns, their directions, and how rows are compared with constants in that order.

A hot key is cut at constants: a row is in a piece by comparing its order values with them, in the JVM, in the order
that the window sorts by. Whatever the constants are, rows with equal order values are then in one piece, and no row of
a piece sorts before a row of an earlier one. That is all that a result needs to be right; how even the pieces are
depends on the constants.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Context
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from pyspark.sql import types as T

from unskew.spark.keys import column, field
from unskew.spark.versions.types import is_calendar_interval, is_variant

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

OrderBy: TypeAlias = "str | Column | Sequence[str | Column]"
"""One order column or several: names, or Columns with or without a direction such as `.desc()`."""

Values: TypeAlias = tuple[Any, ...]
"""A constant for each of the first order columns: a place in the order, before all rows that sort after it."""

LONGEST = 64
"""Characters of a text that a constant has: the cuts need not be longer."""

_DIRECTION = re.compile(r"^Column<'(.*) (ASC|DESC) NULLS (FIRST|LAST)'>$", re.DOTALL)

_OPERATOR = re.compile(r"(?<![\w`])([^\w\s(),.'`\"]+)\(")
"""An operator as the text of a Column has it, such as + in +(a, 1); SQL reads it back in backticks only."""

_EXACT = Context(prec=80)
"""Decimals of Spark with one whole number added."""

_WHOLE_NUMBERS = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)
_COMPARED = (
    *_WHOLE_NUMBERS,
    T.FloatType,
    T.DoubleType,
    T.DecimalType,
    T.BooleanType,
    T.BinaryType,
    T.DateType,
    T.TimestampType,
    T.TimestampNTZType,
)


@dataclass(frozen=True)
class OrderColumn:
    """One column of the order: what is compared (None if only Spark knows), in which direction, and its type."""

    sort: Column
    value: Column | None
    ascending: bool
    nulls_first: bool
    type: T.DataType

    @property
    def is_cuttable(self) -> bool:
        """Whether it can be compared with constants in the same order as Spark sorts it."""
        if self.value is None:
            return False
        if isinstance(self.type, T.StringType):
            return getattr(self.type, "collation", "UTF8_BINARY") in (None, "UTF8_BINARY")
        return isinstance(self.type, _COMPARED)

    def shortened(self) -> Column:
        """As much of it as a constant has."""
        assert self.value is not None
        if isinstance(self.type, T.StringType | T.BinaryType):
            return F.substring(self.value, 1, LONGEST)
        return self.value

    def sampled(self) -> Column:
        """What is measured of it: of a text the bytes, which need not be valid UTF-8."""
        return self.shortened().cast("binary") if isinstance(self.type, T.StringType) else self.shortened()

    def before(self, constant: Any) -> Column:
        """Whether a row sorts before the constant; never null."""
        assert self.value is not None
        if constant is None:
            return F.lit(False) if self.nulls_first else self.value.isNotNull()
        literal = self._literal(constant)
        sorts_before = self.value < literal if self.ascending else self.value > literal
        return F.coalesce(sorts_before, F.lit(self.nulls_first))

    def ties(self, constant: Any) -> Column:
        """Whether a row has the constant; never null."""
        assert self.value is not None
        return self.value.isNull() if constant is None else self.value.eqNullSafe(self._literal(constant))

    def codes(self, values: pa.Array) -> NDArray[np.int64]:
        """Numbers in the order of the measured values, equal for equal ones."""
        constants = [None if value is None else _comparable(value) for value in self.constants(values)]
        distinct = sorted({each for each in constants if each is not None})
        if not self.ascending:
            distinct.reverse()
        code = {value: i for i, value in enumerate(distinct)}
        null = -1 if self.nulls_first else len(distinct)
        return np.array([null if each is None else code[each] for each in constants], np.int64)

    def constants(self, values: pa.Array) -> list[Any]:
        """The measured values as Python constants: text in bytes, dates in days, times in microseconds."""
        if isinstance(self.type, T.DateType):
            values = values.cast(pa.int32())
        elif isinstance(self.type, T.TimestampType | T.TimestampNTZType):
            values = values.cast(pa.int64())
        constants: list[Any] = values.to_pylist()
        return constants

    def is_shortened(self, constants: Sequence[Any]) -> bool:
        """Whether a constant may be the beginning of a longer text, so that no row may tie with it."""
        return any(isinstance(each, bytes) and len(each) >= LONGEST for each in constants)

    def shifted(self, constant: Any, distance: int) -> Any:
        """The constant, moved by that much in the direction of the order as RANGE frames are, or a bit more.

        An OverflowError if no value of the type is that large or that small.
        """
        if constant is None or (isinstance(constant, float) and not math.isfinite(constant)):
            return constant
        step = distance if self.ascending else -distance
        if isinstance(self.type, T.FloatType | T.DoubleType):
            # a frame is computed with rounding, a float's with more of it
            slack = 1e-6 * (abs(constant) + abs(step))
            return constant + step + (slack if step > 0 else -slack)
        if isinstance(self.type, T.DecimalType):
            # Python's own context has 28 digits, Spark 38
            moved = _EXACT.add(constant, step)
            if moved.copy_abs() >= _EXACT.power(10, self.type.precision - self.type.scale):
                raise OverflowError
            return moved
        moved = constant + step
        bits = 31 if isinstance(self.type, T.DateType) else 63
        if not -(2**bits) <= moved < 2**bits:
            raise OverflowError
        return moved

    def _literal(self, constant: Any) -> Column:
        if isinstance(self.type, T.DateType):
            return F.date_from_unix_date(F.lit(constant))
        if isinstance(self.type, T.TimestampType):
            return F.timestamp_micros(F.lit(constant))
        if isinstance(self.type, T.TimestampNTZType):
            return F.lit(str(np.datetime64(constant, "us"))).cast("timestamp_ntz")
        if isinstance(self.type, T.StringType):
            return F.lit(constant).cast("string")
        return F.lit(constant)


def order_columns(df: DataFrame, order_by: OrderBy) -> list[OrderColumn]:
    """The order columns, resolved by Spark; a ValueError for what is unknown or has no order. No Spark job runs."""
    from pyspark.sql import Column

    given = [order_by] if isinstance(order_by, str | Column) else list(order_by)
    columns = []
    for each in given:
        if isinstance(each, str):
            columns.append(_order_column(df, _named(df, each), each))
        elif isinstance(each, Column):
            columns.append(_order_column(df, each, str(each)[8:-2]))
        else:
            raise ValueError(f"an order column is a name or a Column, not {each!r}")
    return columns


def compare(order: Sequence[OrderColumn], left: Values, right: Values) -> int:
    """-1, 0 or 1, as `left` comes before, with or after `right`; a shorter place comes before all that it begins."""
    for each, a, b in zip(order, left, right, strict=False):
        if a is None or b is None:
            if (a is None) != (b is None):
                return -1 if (a is None) == each.nulls_first else 1
            continue
        x, y = _comparable(a), _comparable(b)
        if x != y:
            return -1 if (x < y) == each.ascending else 1
    return (len(left) > len(right)) - (len(left) < len(right))


def before(order: Sequence[OrderColumn], place: Values) -> Column:
    """Whether a row sorts before a place, compared column by column; never null."""
    *firsts, last = zip(order, place, strict=False)
    sorts_before = last[0].before(last[1])
    for each, constant in reversed(firsts):
        sorts_before = each.before(constant) | (each.ties(constant) & sorts_before)
    return sorts_before


def _named(df: DataFrame, name: str) -> Column:
    if set(".`") & set(name):
        return F.col(name)
    return column(field(df, name).name)


def _order_column(df: DataFrame, given: Column, name: str) -> OrderColumn:
    direction = _DIRECTION.match(str(given))
    try:
        _ = df.orderBy(given).schema
        value: Column | None
        if direction is None:
            value, kind = given, df.select(given).schema[0].dataType
        else:
            value, kind = _without_direction(df, given, direction)
    except PySparkException as error:
        line = str(error).splitlines()[0] if str(error) else type(error).__name__
        if "INVALID_ORDERING_TYPE" in line or ("order" in line.lower() and "type" in line.lower()):
            line = f"its type has no order: {line}"
        raise ValueError(
            f"the window cannot be ordered by {name}: {line}; the columns are {', '.join(df.columns)}"
        ) from error
    if not _has_order(kind):
        raise ValueError(
            f"the window cannot be ordered by {name}: the type {kind.simpleString()} has no order; use a column of a "
            "simple type, or turn it into one first"
        )
    if direction is None:
        return OrderColumn(given.asc_nulls_first(), _if_fixed(df, value), True, True, kind)
    ascending, nulls_first = direction[2] == "ASC", direction[3] == "FIRST"
    return OrderColumn(given, _if_fixed(df, value), ascending, nulls_first, kind)


def _without_direction(
    df: DataFrame, given: Column, direction: re.Match[str]
) -> tuple[Column | None, T.DataType]:
    """What a Column with a direction sorts by, read from its text and checked against Spark's own reading of it.

    PySpark does not tell. Text that cannot be read back leaves the column to plain Spark.
    """
    text = direction[1]
    suffix = f"{direction[2].lower()}_nulls_{direction[3].lower()}"
    wanted = df.orderBy(given)
    candidates = [column(text)] if text in df.columns else _expressions(text)
    for value in candidates:
        try:
            if df.orderBy(getattr(value, suffix)()).sameSemantics(wanted):
                return value, df.select(value).schema[0].dataType
        except PySparkException:
            continue
    return None, T.NullType()


def _expressions(text: str) -> list[Column]:
    """What the text of a Column may stand for."""
    expressions = []
    called = _OPERATOR.sub(r"`\1`(", text)
    for read, source in ((F.expr, called), *(() if "(" in text else ((F.col, text),))):
        try:
            expressions.append(read(source))
        except PySparkException:
            continue
    return expressions


def _if_fixed(df: DataFrame, value: Column | None) -> Column | None:
    """The value, unless it is not the same whenever it is computed."""
    if value is None:
        return None
    try:
        # Spark refuses an aggregate of a random number in the analysis, and tells nothing about it elsewhere.
        _ = df.agg(F.count(value)).schema
    except PySparkException:
        return None
    return value


def _has_order(kind: T.DataType) -> bool:
    if isinstance(kind, T.ArrayType):
        return _has_order(kind.elementType)
    if isinstance(kind, T.StructType):
        return all(_has_order(each.dataType) for each in kind.fields)
    return not (isinstance(kind, T.MapType) or is_calendar_interval(kind) or is_variant(kind))


def _comparable(value: Any) -> Any:
    """A value that Python compares as Spark does: NaN after all numbers."""
    if isinstance(value, float):
        return (1, 0.0) if value != value else (0, value)
    return value
