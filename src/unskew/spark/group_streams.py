"""The groups of a partition, cut from its stream of Arrow batches: the arguments of the user's function.

Rows arrive sorted by key: groups are told apart by comparing neighbouring rows, and a batch is converted once and then
sliced.

A group's frame must not depend on its neighbours. Most columns convert value by value, so slicing a converted batch
equals converting a slice. A column of integers or booleans gets another dtype if it has a null, and nested
values depend on the whole batch: groups with these are converted alone, by PySpark's own code.

Nothing here may need unskew on the workers: see the last line.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import types as T

from unskew.spark.versions.private import from_arrow_schema, pickle_by_value, to_pandas

Rows = tuple[pa.Table, NDArray[np.int64]]
"""Whole groups, one after the other, and where each starts; the last number is the end."""

Call = tuple[tuple[Any, ...], Any]
"""The arguments of the user's function: the key and the rows."""


@dataclass(frozen=True)
class ConversionSettings:
    """The settings of a session that PySpark's conversions depend on."""

    timezone: str
    by_name: bool
    safe: bool
    large: bool
    int_to_decimal: bool
    int_extension: bool

    @classmethod
    def of(cls, conf: Callable[[str], str | None]) -> ConversionSettings:
        """Read by a function that gives the value of a setting, or None if this version of Spark does not have it."""
        pandas = "spark.sql.execution.pythonUDF.pandas."
        names = (
            "spark.sql.legacy.execution.pandas.groupedMap.assignColumnsByName",
            "spark.sql.execution.pandas.convertToArrowArraySafely",
            "spark.sql.execution.arrow.useLargeVarTypes",
            pandas + "intToDecimalCoercionEnabled",
            pandas + "preferIntExtensionDtype",
        )
        return cls(
            str(conf("spark.sql.session.timeZone")), *(str(conf(name)).lower() == "true" for name in names)
        )


@dataclass(frozen=True)
class Layout:
    """Where the key columns are in a stream. The first columns are the user's, and his function sees their `names`.

    Other columns are keys that are no columns of the user's. A stream cannot have two columns of one name.
    """

    keys: tuple[int, ...]
    names: tuple[str, ...]

    @property
    def width(self) -> int:
        """How many columns the user's function sees."""
        return len(self.names)

    def visible(self, rows: pa.Table) -> pa.Table:
        """The rows as the user's function sees them."""
        rows = rows if rows.num_columns == self.width else rows.select(list(range(self.width)))
        return rows if tuple(rows.schema.names) == self.names else rows.rename_columns(list(self.names))

    def joined(self, columns: list[pd.Series[Any]]) -> pd.DataFrame:
        """The columns as the frame that the user's function sees."""
        frame = pd.concat(columns[: self.width], axis=1)
        return frame if tuple(frame.columns) == self.names else frame.set_axis(list(self.names), axis=1)


def whole_groups(batches: Iterable[pa.RecordBatch], keys: Sequence[int]) -> Iterator[Rows]:
    """Cut rows that are sorted by key into whole groups.

    Holds one batch, and the group in progress if that began in an earlier batch.
    """
    pending: list[pa.RecordBatch] = []
    for batch in batches:
        if batch.num_rows == 0:
            continue
        starts = group_starts([batch.column(k) for k in keys])
        if pending and not _continues(pending[-1], batch, keys):
            starts = np.concatenate([[0], starts])
        if len(starts) == 0:
            pending.append(batch)
            continue
        if pending or starts[0] > 0:
            head = [*pending, batch.slice(0, starts[0])] if starts[0] > 0 else pending
            group = pa.Table.from_batches(head)
            yield group, np.array([0, group.num_rows])
        if len(starts) > 1:
            between = batch.slice(starts[0], starts[-1] - starts[0])
            yield pa.Table.from_batches([between]), starts - starts[0]
        pending = [batch.slice(starts[-1])]
    if pending:
        group = pa.Table.from_batches(pending)
        yield group, np.array([0, group.num_rows])


def streamed_groups(
    batches: Iterable[pa.RecordBatch], keys: Sequence[int]
) -> Iterator[tuple[pa.RecordBatch, Iterator[pa.RecordBatch]]]:
    """Cut rows that are sorted by key into groups: the first piece of each, and all its pieces as they arrive.

    Holds two batches, however large a group is. What is left of a group is skipped when the next one is asked for.
    """
    pieces = _pieces(batches, keys)
    upcoming = next(pieces, None)

    def rest_of_group(piece: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        nonlocal upcoming
        yield piece
        while upcoming is not None and upcoming[1]:
            following = upcoming[0]
            upcoming = next(pieces, None)
            yield following

    while upcoming is not None:
        first = upcoming[0]
        upcoming = next(pieces, None)
        group = rest_of_group(first)
        yield first, group
        for _ in group:
            pass


def _pieces(batches: Iterable[pa.RecordBatch], keys: Sequence[int]) -> Iterator[tuple[pa.RecordBatch, bool]]:
    """The part of each group that is in one batch, and whether it continues the group of the piece before."""
    before: pa.RecordBatch | None = None
    for batch in batches:
        if batch.num_rows == 0:
            continue
        continues = before is not None and _continues(before, batch, keys)
        starts = [0, *group_starts([batch.column(k) for k in keys]).tolist(), batch.num_rows]
        for start, end in pairwise(starts):
            yield batch.slice(start, end - start), continues and start == 0
        before = batch


def group_starts(keys: Sequence[pa.Array]) -> NDArray[np.int64]:
    """The rows after the first whose key differs from the row before; as Spark groups, null = null, NaN = NaN, -0 = 0.

    >>> group_starts([pa.array([0.0, -0.0, float("nan"), float("nan"), None, None])]).tolist()
    [2, 4]
    """
    changed = np.zeros(max(len(keys[0]) - 1, 0), bool)
    for key in keys:
        changed |= _changes(key)
    return np.flatnonzero(changed) + 1


def _changes(values: pa.Array) -> NDArray[np.bool_]:
    """For each row after the first, whether its value differs from the one before."""
    changed = np.zeros(max(len(values) - 1, 0), bool)
    if len(changed) == 0 or pa.types.is_null(values.type):
        return changed
    if values.null_count:
        valid = _numpy(values.is_valid())
        changed |= valid[1:] != valid[:-1]
    if pa.types.is_struct(values.type):
        for part in values.flatten():
            changed |= _changes(part)
        return changed
    after, before = values[1:], values[:-1]
    differs = pc.not_equal(after, before)
    if pa.types.is_floating(values.type):
        differs = pc.and_not(differs, pc.and_(pc.is_nan(after), pc.is_nan(before)))
    changed |= _numpy(pc.fill_null(differs, False))
    return changed


def _continues(before: pa.RecordBatch, after: pa.RecordBatch, keys: Sequence[int]) -> bool:
    """Whether the first row of `after` belongs to the group of the last row of `before`."""
    rows = (pa.concat_arrays([before.column(k)[-1:], after.column(k)[:1]]) for k in keys)
    return not len(group_starts(list(rows)))


def _numpy(booleans: pa.Array) -> NDArray[np.bool_]:
    values: NDArray[np.bool_] = booleans.to_numpy(zero_copy_only=False)
    return values


def tables(rows: pa.Table, starts: NDArray[np.int64], layout: Layout) -> Iterator[Call]:
    """The key (Arrow scalars) and the Arrow table of each group."""
    # all columns nullable, as PySpark's are
    rows = pa.Table.from_arrays(rows.columns, names=rows.schema.names)
    columns = [rows.column(k) for k in layout.keys]
    rows = layout.visible(rows)
    for start, end in pairwise(starts.tolist()):
        yield tuple(column[start] for column in columns), rows.slice(start, end - start)


def frames(
    rows: pa.Table, starts: NDArray[np.int64], layout: Layout, settings: ConversionSettings
) -> Iterator[Call]:
    """The key and the DataFrame of each group, as PySpark would convert the group alone; no two share memory."""
    schema = from_arrow_schema(rows.schema)
    alone = np.full(len(starts) - 1, len(starts) == 2 or not all(map(_by_value, rows.schema.types)))
    if not alone.all():
        filled, nulls = _without_nulls(rows)
        alone = np.logical_or.reduceat(nulls, starts[:-1])
        series = _series(filled, schema, settings)
        all_rows = layout.joined(series)
    for (start, end), is_alone in zip(pairwise(starts.tolist()), alone.tolist(), strict=True):
        if is_alone:
            group = _series(rows.slice(start, end - start), schema, settings)
            yield tuple(group[k].iloc[0] for k in layout.keys), layout.joined(group)
        else:
            # reset_index copies, so changes that the function makes stay in this frame
            yield (
                tuple(series[k].iloc[start] for k in layout.keys),
                all_rows.iloc[start:end].reset_index(drop=True),
            )


def frame_pieces(
    first: pa.RecordBatch, pieces: Iterator[pa.RecordBatch], layout: Layout, settings: ConversionSettings
) -> Call:
    """The key of a group and the frames of its pieces, each converted when it is asked for."""

    def series(piece: pa.RecordBatch) -> list[pd.Series[Any]]:
        rows = pa.Table.from_batches([piece])
        return _series(rows, from_arrow_schema(rows.schema), settings)

    key = tuple(columns.iloc[0] for columns in _at(series(first.slice(0, 1)), layout.keys))
    return key, (layout.joined(series(piece)) for piece in pieces)


def batch_pieces(first: pa.RecordBatch, pieces: Iterator[pa.RecordBatch], layout: Layout) -> Call:
    """The key of a group (Arrow scalars) and its pieces as record batches."""

    def visible(piece: pa.RecordBatch) -> pa.RecordBatch:
        columns = piece.columns[: layout.width]
        return pa.RecordBatch.from_arrays(columns, names=list(layout.names))

    return tuple(first.column(k)[0] for k in layout.keys), map(visible, pieces)


def _at(columns: list[Any], positions: Sequence[int]) -> list[Any]:
    return [columns[position] for position in positions]


def _series(rows: pa.Table, schema: T.StructType, settings: ConversionSettings) -> list[pd.Series[Any]]:
    return to_pandas(rows, settings.timezone, schema, int_extension=settings.int_extension)


def _by_value(kind: pa.DataType) -> bool:
    """Whether values of this type are converted to pandas one by one, apart from nulls among integers."""
    types = pa.types
    tests = (
        _changes_with_null,
        types.is_floating,
        types.is_string,
        types.is_large_string,
        types.is_binary,
        types.is_large_binary,
        types.is_decimal,
        types.is_date,
        types.is_timestamp,
        types.is_null,
    )
    return any(test(kind) for test in tests)


def _changes_with_null(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_boolean(kind))


def _without_nulls(rows: pa.Table) -> tuple[pa.Table, NDArray[np.bool_]]:
    """The rows with nulls among integers and booleans filled, and which rows had any."""
    nulls = np.zeros(rows.num_rows, bool)
    for i, kind in enumerate(rows.schema.types):
        column = rows.column(i)
        if column.null_count and _changes_with_null(kind):
            nulls |= _numpy(column.is_null())
            rows = rows.set_column(i, rows.schema.field(i), column.fill_null(pa.scalar(0).cast(kind)))
    return rows, nulls


# Workers get these functions themselves, not their names, so that unskew is needed on the driver only.
pickle_by_value(sys.modules[__name__])
