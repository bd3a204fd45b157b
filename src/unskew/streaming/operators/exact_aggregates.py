"""Exact aggregates of a column: counts, sums, extremes, moments, and the first and last value.

The semantics are Spark SQL's. Nulls are skipped; the sum, minimum, maximum or mean of no values is null. NaN is larger
than any other number. How to add an aggregate: see `aggregates`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from unskew.streaming.operators.aggregation import Aggregate, checked_type, ordered_type
from unskew.streaming.operators.group_columns import Kernel, winners
from unskew.streaming.storage.columns import Index, one_array, valid

if TYPE_CHECKING:
    from pyspark.sql import Column


def _number_type(schema: pa.Schema, column: str, what: str) -> pa.DataType:
    def is_number(t: pa.DataType) -> bool:
        return bool(pa.types.is_signed_integer(t) or pa.types.is_floating(t) or pa.types.is_decimal(t))

    return checked_type(
        schema, column, what, is_number, "cast the column to a number, such as double or bigint"
    )


@dataclass(frozen=True)
class Count(Aggregate):
    """The number of records, or with a column the number of its values that are not null."""

    column: str | None = None
    name: ClassVar[str] = "count"
    spark_function: ClassVar[str] = "count"
    needs_column: ClassVar[bool] = False
    kernels: ClassVar[tuple[Kernel, ...]] = ("sum",)

    def state(self, schema: pa.Schema) -> list[pa.Field]:
        for name in self.inputs:
            if len(schema.get_all_field_indices(name)) != 1:  # the values may be of any type
                checked_type(schema, name, "count", lambda _: True, "")
        return [pa.field("count", pa.int64())]

    def result(self, schema: pa.Schema) -> pa.DataType:
        return self.state(schema)[0].type

    def unit(self, rows: pa.Table) -> list[pa.Array]:
        if self.column is None:
            return [pa.array(np.ones(rows.num_rows, np.int64))]
        return [pa.array(valid(one_array(rows.column(self.column))).astype(np.int64))]

    def final(self, states: Sequence[pa.Array]) -> pa.Array:
        return states[0]

    def batch_column(self) -> Column:
        """The number of rows, or of values that are not null."""
        from pyspark.sql import functions as F

        return F.count(F.lit(1)) if self.column is None else super().batch_column()


@dataclass(frozen=True)
class Sum(Aggregate):
    """The sum of a column: int64 of integers, double of floats, decimal(38, s) of decimals of scale s.

    A sum that does not fit raises an ArithmeticError that names the column, even if only a partial sum does not fit
    and later records would have brought it back into range.
    """

    name: ClassVar[str] = "sum"
    spark_function: ClassVar[str] = "sum"
    kernels: ClassVar[tuple[Kernel, ...]] = ("sum",)

    def state(self, schema: pa.Schema) -> list[pa.Field]:
        return [pa.field("sum", self.result(schema))]

    def result(self, schema: pa.Schema) -> pa.DataType:
        assert self.column is not None
        t = _number_type(schema, self.column, "sum")
        if pa.types.is_decimal(t):
            return pa.decimal128(38, t.scale)
        return pa.float64() if pa.types.is_floating(t) else pa.int64()

    def unit(self, rows: pa.Table) -> list[pa.Array]:
        return [self.values(rows, self.result(rows.schema))]

    def final(self, states: Sequence[pa.Array]) -> pa.Array:
        return states[0]


@dataclass(frozen=True)
class _Extreme(Aggregate):
    def state(self, schema: pa.Schema) -> list[pa.Field]:
        return [pa.field(self.name, self.result(schema))]

    def result(self, schema: pa.Schema) -> pa.DataType:
        assert self.column is not None
        return ordered_type(schema, self.column, self.name)

    def unit(self, rows: pa.Table) -> list[pa.Array]:
        return [self.values(rows, self.result(rows.schema))]

    def final(self, states: Sequence[pa.Array]) -> pa.Array:
        return states[0]


@dataclass(frozen=True)
class Min(_Extreme):
    """The smallest value of a column of numbers, strings, binaries, dates, timestamps or booleans.

    NaN is larger than any number, so it is the minimum only if all values are NaN; -0.0 is below 0.0.
    """

    name: ClassVar[str] = "min"
    spark_function: ClassVar[str] = "min"
    kernels: ClassVar[tuple[Kernel, ...]] = ("min",)


@dataclass(frozen=True)
class Max(_Extreme):
    """The largest value of a column of numbers, strings, binaries, dates, timestamps or booleans.

    NaN is larger than any number, so it is the maximum wherever it occurs; 0.0 is above -0.0.
    """

    name: ClassVar[str] = "max"
    spark_function: ClassVar[str] = "max"
    kernels: ClassVar[tuple[Kernel, ...]] = ("max",)


@dataclass(frozen=True)
class Mean(Aggregate):
    """The mean of a column: a double, or of decimals of scale s a decimal(38, s + 4), rounded half up.

    Integers are summed as doubles, as Spark's `avg` does, so they cannot overflow.
    """

    name: ClassVar[str] = "mean"
    spark_function: ClassVar[str] = "mean"
    kernels: ClassVar[tuple[Kernel, ...]] = ("sum", "sum")

    def state(self, schema: pa.Schema) -> list[pa.Field]:
        assert self.column is not None
        t = _number_type(schema, self.column, "mean")
        total = pa.decimal128(38, t.scale) if pa.types.is_decimal(t) else pa.float64()
        return [pa.field("sum", total), pa.field("count", pa.int64())]

    def result(self, schema: pa.Schema) -> pa.DataType:
        return _mean_type(self.state(schema)[0].type)

    def unit(self, rows: pa.Table) -> list[pa.Array]:
        total = self.state(rows.schema)[0].type
        array = one_array(rows.column(self.column))
        # not `values`: integers beyond 2^53 are rounded here, not refused
        totals = array.cast(total, safe=False) if total == pa.float64() else self.values(rows, total)
        return [totals, pa.array(valid(array).astype(np.int64))]

    def final(self, states: Sequence[pa.Array]) -> pa.Array:
        total, counts = states
        counts = pc.if_else(pc.equal(counts, 0), None, counts)
        if pa.types.is_floating(total.type):
            return pc.divide(total, counts.cast(pa.float64(), safe=False))
        result = _mean_type(total.type)
        # in 256 bits the quotient has 20 more digits than the sum, so that rounding it once is enough
        wide = total.cast(pa.decimal256(38, total.type.scale))
        quotient = pc.divide(wide, counts.cast(pa.decimal256(19, 0)))
        try:
            return pc.round(quotient, result.scale, round_mode="half_towards_infinity").cast(result)
        except pa.ArrowInvalid as error:
            raise ArithmeticError(
                f"the mean of column {self.column!r} does not fit {result}: cast the column to double"
            ) from error


def _mean_type(total: pa.DataType) -> pa.DataType:
    if not pa.types.is_decimal(total):
        return pa.float64()
    return pa.decimal128(38, 38 if total.scale > 34 else total.scale + 4)


@dataclass(frozen=True)
class Variance(Aggregate):
    """The sample variance of a column, a double; null for fewer than two values, like Spark's `var_samp`.

    Merged by the squared distances to the means, after Chan, Golub and LeVeque (1979), so that a large
    mean does not swallow a small variance.
    """

    name: ClassVar[str] = "variance"
    spark_function: ClassVar[str] = "var_samp"

    def state(self, schema: pa.Schema) -> list[pa.Field]:
        assert self.column is not None
        _number_type(schema, self.column, "variance")
        columns = {"count": pa.int64(), "mean": pa.float64(), "squares": pa.float64()}
        return [pa.field(name, t) for name, t in columns.items()]

    def result(self, schema: pa.Schema) -> pa.DataType:
        return self.state(schema)[1].type

    def unit(self, rows: pa.Table) -> list[pa.Array]:
        array = one_array(rows.column(self.column))
        numbers = array.cast(pa.float64(), safe=False).fill_null(0.0).to_numpy()
        # the distance of an infinity or NaN to itself is not 0
        squares = np.where(np.isfinite(numbers), 0.0, np.nan)
        return [pa.array(valid(array).astype(np.int64)), pa.array(numbers), pa.array(squares)]

    def merge(self, states: Sequence[pa.Array], ids: Index, groups: int) -> list[pa.Array]:
        counts, means, squares = (state.to_numpy() for state in states)
        filled = counts > 0
        counts, means, squares, ids = counts[filled], means[filled], squares[filled], ids[filled]
        total = _sum_by_group(ids, counts, groups, np.int64)
        with np.errstate(invalid="ignore", over="ignore"):  # infinities end as NaN, as in Spark
            mean = _sum_by_group(ids, means * (counts / total[ids]), groups)
            merged = _sum_by_group(ids, squares + counts * (means - mean[ids]) ** 2, groups)
        return [pa.array(total), pa.array(mean), pa.array(merged)]

    def final(self, states: Sequence[pa.Array]) -> pa.Array:
        counts, _, squares = (state.to_numpy() for state in states)
        return pa.array(squares / np.maximum(counts - 1, 1), mask=counts < 2)


def _sum_by_group(ids: Index, numbers: NDArray[Any], groups: int, dtype: type = np.float64) -> NDArray[Any]:
    total: NDArray[Any] = np.zeros(groups, dtype)
    np.add.at(total, ids, numbers)
    return total


@dataclass(frozen=True)
class _Edge(Aggregate):
    by: str = "time"
    takes_largest: ClassVar[bool]

    @property
    def inputs(self) -> tuple[str, ...]:
        assert self.column is not None
        return (self.column, self.by)

    def state(self, schema: pa.Schema) -> list[pa.Field]:
        return [
            pa.field("by", ordered_type(schema, self.by, f"{self.name} by the order")),
            pa.field("value", self.result(schema)),
        ]

    def result(self, schema: pa.Schema) -> pa.DataType:
        assert self.column is not None
        return ordered_type(schema, self.column, self.name)

    def unit(self, rows: pa.Table) -> list[pa.Array]:
        by, value = self.state(rows.schema)
        return [self.values(rows, by.type, self.by), self.values(rows, value.type)]

    def merge(self, states: Sequence[pa.Array], ids: Index, groups: int) -> list[pa.Array]:
        by, values = states
        rows = winners(by, values, ids, groups, last=self.takes_largest)
        return [by.take(rows), values.take(rows)]

    def final(self, states: Sequence[pa.Array]) -> pa.Array:
        return states[1]


@dataclass(frozen=True)
class First(_Edge):
    """The value of `column` in the record with the smallest `by`, which may be null, like Spark's `min_by`.

    Records without `by` are ignored. Of several records with that `by` the smallest value is taken (and
    null only if there is no other), so the order in which records arrive does not matter.
    """

    name: ClassVar[str] = "first"
    spark_function: ClassVar[str] = "min_by"
    takes_largest = False


@dataclass(frozen=True)
class Last(_Edge):
    """The value of `column` in the record with the largest `by`, which may be null, like Spark's `max_by`.

    Records without `by` are ignored. Of several records with that `by` the largest value is taken (and
    null only if there is no other), so the order in which records arrive does not matter.
    """

    name: ClassVar[str] = "last"
    spark_function: ClassVar[str] = "max_by"
    takes_largest = True
