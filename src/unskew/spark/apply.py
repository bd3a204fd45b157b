"""The user's function on every group of a partition, in one stream of Arrow batches.

Spark's own `applyInPandas` opens an Arrow stream, converts every column and writes a batch for each group, which costs
about a millisecond however small the group. Here a partition arrives sorted by key, `group_streams` cuts it into
groups, and results are converted many at a time.

Nothing here may need unskew on the workers: see the last line.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import types as T

from unskew.spark.group_streams import (
    Call,
    ConversionSettings,
    Layout,
    batch_pieces,
    frame_pieces,
    frames,
    streamed_groups,
    tables,
    whole_groups,
)
from unskew.spark.versions.private import (
    arrow_fields,
    column_count_error,
    enforce_schema,
    fail_on_stop_iteration,
    pickle_by_value,
    to_arrow,
    verify_batches,
    verify_frame,
    verify_table,
)

# Results wait until there are enough to make the cost of a batch per result small; more would only take memory.
_BULK_GROUPS = 256
_BULK_ROWS = 10_000
_BULK_BYTES = 4 << 20
_MOST_BYTES = 1 << 30  # a column of texts has room for twice as much

_BULK_TYPES = (
    T.BooleanType,
    T.ByteType,
    T.ShortType,
    T.IntegerType,
    T.LongType,
    T.FloatType,
    T.DoubleType,
    T.DecimalType,
    T.StringType,
    T.DateType,
    T.TimestampType,
    T.TimestampNTZType,
)
"""Results of these types may wait: their values cannot change after the function has returned, as a list can."""


def in_pandas(
    func: Callable[..., Any],
    arguments: int,
    layout: Layout,
    schema: T.StructType,
    settings: ConversionSettings,
    *,
    in_pieces: bool = False,
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for `mapInArrow` that treats a partition sorted by key as `applyInPandas` treats its groups.

    `func` takes one or two `arguments`, `layout` says where the key columns are, `schema` is that of the results. With
    `in_pieces` the function takes and returns iterators of frames, so that no group is in memory as a whole.
    """

    def apply(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        results: Iterator[Any]
        if in_pieces:
            groups = streamed_groups(batches, layout.keys)
            calls = (frame_pieces(first, pieces, layout, settings) for first, pieces in groups)
            results = (
                frame for frames_of_group in _results(func, arguments, calls) for frame in frames_of_group
            )
        else:
            whole = whole_groups(batches, layout.keys)
            results = _results(
                func, arguments, (call for rows in whole for call in frames(*rows, layout, settings))
            )
        checked = (_checked_frame(result, schema, settings) for result in results)
        return in_bulk(checked, lambda results: _one_batch(results, schema, settings), _copied)

    return apply


def in_arrow(
    func: Callable[..., Any],
    arguments: int,
    layout: Layout,
    schema: T.StructType,
    settings: ConversionSettings,
    *,
    in_pieces: bool = False,
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """As `in_pandas`, for `applyInArrow`."""

    def apply(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        target = arrow_fields(schema, large=settings.large)
        if in_pieces:
            groups = streamed_groups(batches, layout.keys)
            calls = (batch_pieces(first, pieces, layout) for first, pieces in groups)
            checked = (
                _fitting(pa.Table.from_batches([batch]), target, settings)
                for result in _results(func, arguments, calls)
                for batch in verify_batches(result)
            )
        else:
            whole = whole_groups(batches, layout.keys)
            calls = (call for rows in whole for call in tables(*rows, layout))
            checked = (
                _fitting(verify_table(result), target, settings)
                for result in _results(func, arguments, calls)
            )
        return in_bulk(checked, _joined, _copied)

    return apply


def _results(func: Callable[..., Any], arguments: int, calls: Iterator[Call]) -> Iterator[Any]:
    func = fail_on_stop_iteration(func)
    for key, rows in calls:
        yield func(rows) if arguments == 1 else func(key, rows)


def in_bulk(
    results: Iterator[Any], merge: Callable[[list[Any]], Iterable[pa.RecordBatch]], copy: Callable[[Any], Any]
) -> Iterator[pa.RecordBatch]:
    """Merge results, in their order, into batches of a few megabytes.

    How many are merged follows the size of the batches written: one result at first, then twice as many, and half as
    many after too big a batch. A result that waits is copied, since the function may overwrite what it returned.
    """
    waiting: list[Any] = []
    limit, rows, bytes_waiting = 1, 0, 0
    for result in results:
        rows += _rows(result)
        bytes_waiting += _size(result)
        if len(waiting) + 1 < limit and rows < _BULK_ROWS and bytes_waiting < _BULK_BYTES:
            waiting.append(copy(result))
            continue
        waiting.append(result)
        size = 0
        for batch in merge(waiting):
            size += batch.nbytes
            yield batch
        limit = min(2 * limit, _BULK_GROUPS) if size < _BULK_BYTES / 2 else max(limit // 2, 1)
        waiting, rows, bytes_waiting = [], 0, 0
    if waiting:
        yield from merge(waiting)


def _size(result: Any) -> int:
    """About how many bytes a result takes; of texts in a frame, all are taken to be as long as the first."""
    if not isinstance(result, pd.DataFrame):
        return int(result.nbytes)
    size = 0
    for i in range(result.shape[1] if len(result) else 0):
        first = result.iat[0, i]
        size += (len(first) if isinstance(first, str | bytes) else 8) * len(result)
    return size


def _copied(result: Any) -> Any:
    if isinstance(result, pd.DataFrame):
        return result.copy()
    arrays = [
        pa.concat_arrays(column.chunks if isinstance(column, pa.ChunkedArray) else [column])
        if len(column)
        else pa.array([], column.type)
        for column in result.columns
    ]
    return type(result).from_arrays(arrays, names=result.schema.names)


def _checked_frame(result: Any, schema: T.StructType, settings: ConversionSettings) -> Any:
    """The result with its columns in the order of the schema, or already converted if it cannot wait for others."""
    names = schema.names
    if type(result) is not pd.DataFrame or list(result.columns) != names:
        verify_frame(result, schema, by_name=settings.by_name)
    simple = (
        type(result) is pd.DataFrame
        and len(result.columns) == len(names) == len(set(names))
        and all(type(field.dataType) in _BULK_TYPES for field in schema.fields)
    )
    if not simple:
        return _converted(result, schema, settings)
    if (
        settings.by_name
        and list(result.columns) != names
        and any(isinstance(name, str) for name in result.columns)
    ):
        return result[names]
    return result


def _converted(
    frame: Any, schema: T.StructType, settings: ConversionSettings, *, cast: bool = True
) -> pa.RecordBatch:
    """A result converted by PySpark's own code."""
    return to_arrow(
        frame,
        schema,
        timezone=settings.timezone,
        safe=settings.safe,
        cast_values=cast,
        large=settings.large,
        by_name=settings.by_name,
        int_to_decimal=settings.int_to_decimal,
    )


def _one_batch(
    results: list[Any], schema: T.StructType, settings: ConversionSettings
) -> Iterator[pa.RecordBatch]:
    """Convert results together: those of one layout at once, so that no group changes the dtype of another."""
    layouts: dict[tuple[Any, ...], list[int]] = {}
    for i, result in enumerate(results):
        layout = tuple(result.dtypes) if isinstance(result, pd.DataFrame) else ("converted",)
        layouts.setdefault(layout, []).append(i)
    batches: list[pa.RecordBatch] = []
    for layout, members in layouts.items():
        batches += _of_one_layout([results[i] for i in members], layout, schema, settings)
    order = np.concatenate([np.repeat(m, [_rows(results[i]) for i in m]) for m in layouts.values()])
    joined = list(_joined(batches))
    if len(layouts) == 1 or len(joined) > 1:
        yield from joined
    else:
        yield joined[0].take(pa.array(np.argsort(order, kind="stable")))


def _of_one_layout(
    results: list[Any], layout: tuple[Any, ...], schema: T.StructType, settings: ConversionSettings
) -> list[pa.RecordBatch]:
    if layout == ("converted",):
        return results
    if len(results) > 1 and all(isinstance(dtype, np.dtype | pd.DatetimeTZDtype) for dtype in layout):
        named = [r if list(r.columns) == schema.names else r.set_axis(schema.names, axis=1) for r in results]
        try:
            # Without the cast: it is tried when a value does not fit its type, and then on all values at once.
            return [_converted(pd.concat(named, ignore_index=True), schema, settings, cast=False)]
        except Exception:  # noqa: BLE001 (each group is then converted alone, and that reports what is wrong)
            pass
    return [_converted(result, schema, settings) for result in results]


def _rows(result: Any) -> int:
    return len(result) if isinstance(result, pd.DataFrame) else int(result.num_rows)


def _fitting(result: pa.Table, target: pa.Schema, settings: ConversionSettings) -> pa.Table:
    """The result with its columns in the order of the schema; one that does not fit is refused."""
    table = enforce_schema(result, target, by_name=settings.by_name)
    # Spark would stop with an error that does not name the cause.
    if table.num_columns == 0 and table.num_rows:
        raise column_count_error(expected=len(target), actual=0)
    return table.rename_columns(target.names) if table.num_columns else table


def _joined(results: list[Any]) -> Iterable[pa.RecordBatch]:
    """Arrow results with the same columns in one batch; a single result is passed on as it is."""
    results = [result for result in results if result.num_columns]
    if len(results) < 2 or sum(result.nbytes for result in results) > _MOST_BYTES:
        return [
            batch
            for result in results
            for batch in (result.to_batches() if isinstance(result, pa.Table) else [result])
        ]
    columns = [
        pa.concat_arrays([chunk for result in results for chunk in _chunks(result.column(i))])
        for i in range(results[0].num_columns)
    ]
    return [pa.RecordBatch.from_arrays(columns, names=results[0].schema.names)]


def _chunks(column: Any) -> list[pa.Array]:
    if isinstance(column, pa.ChunkedArray):
        return column.chunks or [pa.array([], column.type)]
    return [column]


# Workers get these functions themselves, not their names, so that unskew is needed on the driver only.
pickle_by_value(sys.modules[__name__])
