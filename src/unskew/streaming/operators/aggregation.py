"""Aggregates whose state can be merged, and several of them side by side.

An aggregate turns a record into a state, several states into one, and a state into a result. Merging is
associative and commutative (sums of floats up to rounding), so records may be aggregated anywhere and in any
order, and parts of a key's state may be merged later, in another slot.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from unskew.core.hashing import as_keys, supported_type
from unskew.streaming.operators.group_columns import Kernel, Part, merge_parts
from unskew.streaming.storage.columns import Index, one_array

if TYPE_CHECKING:
    from pyspark.sql import Column


@dataclass(frozen=True)
class Aggregate(ABC):
    """One aggregate of a column: frozen, and the same in every process that it is pickled to.

    Its state is one or more Arrow columns with one row per key. `merge` of the states of some records is the
    state of all of them, however they were split. `name` is its name in Python, job files and checkpoints: it never
    changes. `spark_function` is its name in Spark SQL; `in_batch` is false if Spark does not have it. `kernels` name
    the plain sum, min or max that merges each state column; an aggregate without kernels overrides `merge`.
    """

    column: str | None
    name: ClassVar[str]
    spark_function: ClassVar[str] = ""
    in_batch: ClassVar[bool] = True
    needs_column: ClassVar[bool] = True
    kernels: ClassVar[tuple[Kernel, ...]] = ()

    def __post_init__(self) -> None:
        if self.column is None and self.needs_column:
            raise ValueError(f"{self.name} needs the name of a column: write unskew.{self.name}('amount')")
        for name in self.inputs:
            if not isinstance(name, str):
                raise ValueError(
                    f"an aggregate takes the name of a column, not {name!r}: "
                    "add an expression to the stream with withColumn first"
                )

    @property
    def inputs(self) -> tuple[str, ...]:
        """The columns it reads."""
        return () if self.column is None else (self.column,)

    @abstractmethod
    def state(self, schema: pa.Schema) -> list[pa.Field]:
        """Its state columns for records of `schema`; a ValueError if its column is missing or of the wrong type."""

    @abstractmethod
    def result(self, schema: pa.Schema) -> pa.DataType:
        """The type of its result for records of `schema`."""

    @abstractmethod
    def unit(self, rows: pa.Table) -> list[pa.Array]:
        """The state of each single record."""

    @abstractmethod
    def final(self, states: Sequence[pa.Array]) -> pa.Array:
        """The result of each state."""

    def merge(self, states: Sequence[pa.Array], ids: Index, groups: int) -> list[pa.Array]:
        """The merged state of each group 0..groups-1; `ids[i]` is the group of state i."""
        return merge_parts(self.parts(states), ids, groups)

    def batch_column(self) -> Column:
        """The same aggregate as a Spark expression, for batch jobs."""
        from pyspark.sql import functions as F

        from unskew.spark.keys import column

        expression: Column = getattr(F, self.spark_function)(*(column(name) for name in self.inputs))
        return expression

    def parts(self, states: Sequence[pa.Array]) -> list[Part]:
        """Its state columns with their kernels, to be merged together with those of other aggregates."""
        source = self.column or ""
        return [Part(kernel, array, source) for kernel, array in zip(self.kernels, states, strict=True)]

    def values(self, rows: pa.Table, t: pa.DataType, column: str | None = None) -> pa.Array:
        """The column of `rows` as one array of type `t`."""
        array = one_array(rows.column(column or self.column))
        return as_keys(array, t) if array.type != t else array


@dataclass(frozen=True)
class Aggregation:
    """Several aggregates over the same records, with their states side by side in one table.

    >>> import numpy as np
    >>> from unskew.streaming.operators.aggregates import count, sum
    >>> rows = pa.table({"user": ["a", "b", "a"], "amount": [1, 5, 3]})
    >>> aggregation = Aggregation({"n": count(), "total": sum("amount")}, rows.schema)
    >>> state = aggregation.partial(rows, np.array([0, 1, 0]), groups=2)
    >>> state.to_pydict()
    {'n.count': [2, 1], 'total.sum': [4, 5]}
    >>> aggregation.final(aggregation.merge(state, np.array([0, 0]), groups=1)).to_pydict()
    {'n': [3], 'total': [9]}
    """

    aggregates: Mapping[str, Aggregate]
    schema: pa.Schema
    state_schema: pa.Schema = field(init=False)
    output_schema: pa.Schema = field(init=False)

    def __post_init__(self) -> None:
        if not self.aggregates:
            raise ValueError("there is nothing to aggregate: name an aggregate, such as n=unskew.count()")
        states, outputs = [], []
        for name, aggregate in self.aggregates.items():
            if not isinstance(aggregate, Aggregate):
                raise ValueError(f"{name} is {aggregate!r}, not an aggregate such as unskew.count()")
            # unique, since the part after the last dot is ours and has no dot in it
            states += [f.with_name(f"{name}.{f.name}") for f in aggregate.state(self.schema)]
            outputs.append(pa.field(name, aggregate.result(self.schema)))
        object.__setattr__(self, "state_schema", pa.schema(states))
        object.__setattr__(self, "output_schema", pa.schema(outputs))

    @property
    def inputs(self) -> tuple[str, ...]:
        """The columns that the aggregates read, each once."""
        return tuple(dict.fromkeys(name for a in self.aggregates.values() for name in a.inputs))

    def partial(self, rows: pa.Table, ids: Index, groups: int) -> pa.Table:
        """The state of each group 0..groups-1 of records; `ids[i]` is the group of record i.

        Every group must occur.
        """
        for name in self.inputs:
            declared = self.schema.field(name)
            if rows.schema.field(name).type != declared.type:
                column = rows[name].cast(declared.type)
                rows = rows.set_column(rows.schema.get_field_index(name), declared, column)
        return self._merge([aggregate.unit(rows) for aggregate in self.aggregates.values()], ids, groups)

    def merge(self, states: pa.Table, ids: Index, groups: int) -> pa.Table:
        """The merged state of each group 0..groups-1 of states; `ids[i]` is the group of state i.

        Every group must occur.
        """
        return self._merge(self._by_aggregate(states), ids, groups)

    def final(self, states: pa.Table) -> pa.Table:
        """The results of the states, one row per state."""
        pairs = zip(self.aggregates.values(), self._by_aggregate(states), strict=True)
        return pa.Table.from_arrays([a.final(columns) for a, columns in pairs], schema=self.output_schema)

    def _by_aggregate(self, states: pa.Table) -> list[list[pa.Array]]:
        columns = iter(one_array(column) for column in states.select(self.state_schema.names).columns)
        return [[next(columns) for _ in a.state(self.schema)] for a in self.aggregates.values()]

    def _merge(self, states: Sequence[Sequence[pa.Array]], ids: Index, groups: int) -> pa.Table:
        pairs = list(zip(self.aggregates.values(), states, strict=True))
        # aggregates with kernels are merged together, so that they can share one group_by
        shared = iter(merge_parts([part for a, s in pairs if a.kernels for part in a.parts(s)], ids, groups))
        merged: list[pa.Array] = []
        for aggregate, columns in pairs:
            if aggregate.kernels:
                merged += [next(shared) for _ in columns]
            else:
                merged += aggregate.merge(columns, ids, groups)
        return pa.Table.from_arrays(merged, schema=self.state_schema)


def checked_type(
    schema: pa.Schema, column: str, what: str, accepts: Callable[[pa.DataType], bool], remedy: str
) -> pa.DataType:
    """The type in which values of a column are stored; a ValueError if it is not supported or not accepted."""
    indices = schema.get_all_field_indices(column)
    if len(indices) != 1:
        problem = "more than one column is" if indices else "no column is"
        raise ValueError(
            f"{what} of column {column!r}: {problem} called that; the columns are {', '.join(schema.names)}"
        )
    t = schema.field(indices[0]).type
    try:
        stored_type = supported_type(t)
    except ValueError:
        stored_type = None
    if stored_type is None or not accepts(stored_type):
        raise ValueError(f"{what} of column {column!r} does not support type {t}: {remedy}")
    return stored_type


def ordered_type(schema: pa.Schema, column: str, what: str) -> pa.DataType:
    """The type of a column whose values have an order, or a ValueError."""
    remedy = (
        "cast the column to a number, string, binary, date, timestamp or boolean, or pick one field of it"
    )
    return checked_type(schema, column, what, lambda t: not pa.types.is_nested(t) and t != pa.null(), remedy)
