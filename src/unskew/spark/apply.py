"""The user's function on every group of a partition, in one stream of Arrow batches.

Spark's own `applyInPandas` opens an Arrow stream, converts every column and writes a batch for each group, which costs
about a millisecond whatever the size of the group. Here a partition arrives sorted by key; groups are found by
comparing neighbouring rows, a batch is converted once and sliced, and results are converted many at a time.

What a group's frame holds must not depend on its neighbours. Most columns convert value by value, so slicing is the
same as converting the slice. An integer or a boolean becomes another dtype where a null is among them, and nested
values depend on all of the batch: groups with these are converted alone, by PySpark's own code.

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
from pyspark import cloudpickle
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import types as T
from pyspark.sql.conversion import ArrowBatchTransformer, PandasToArrowConversion
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_type
from pyspark.util import fail_on_stopiteration

Rows = tuple[pa.Table, NDArray[np.int64]]
"""Whole groups, one after the other, and where each starts; the last number is the end."""

Call = tuple[tuple[Any, ...], Any]
"""What the user's function is called with: the key and the rows."""

# results wait for others until there are enough of them to make the cost of a batch small; more would only take memory
_BULK_GROUPS = 256
_BULK_ROWS = 10_000
_BULK_BYTES = 4 << 20

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
"""Results of these types may wait: their values cannot change after the function returned, as a list's can."""


@dataclass(frozen=True)
class Settings:
    """The settings of a session that PySpark's conversions look at."""

    timezone: str
    by_name: bool
    safe: bool
    large: bool
    int_to_decimal: bool
    int_extension: bool

    @classmethod
    def of(cls, conf: Callable[[str], str | None]) -> Settings:
        """Read from a session's `conf.get`."""
        pandas = "spark.sql.execution.pythonUDF.pandas."
        names = (
            "spark.sql.legacy.execution.pandas.groupedMap.assignColumnsByName",
            "spark.sql.execution.pandas.convertToArrowArraySafely",
            "spark.sql.execution.arrow.useLargeVarTypes",
            pandas + "intToDecimalCoercionEnabled",
            pandas + "preferIntExtensionDtype",
        )
        return cls(str(conf("spark.sql.session.timeZone")), *(str(conf(n)).lower() == "true" for n in names))


def in_pandas(
    func: Callable[..., Any], arguments: int, keys: Sequence[int], schema: T.StructType, settings: Settings
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for `mapInArrow` that does with a partition sorted by key what `applyInPandas` does with `func`.

    `func` has one or two `arguments`, `keys` are the positions of the key columns, `schema` is that of the results.
    """

    def apply(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        calls = (call for rows in whole_groups(batches, keys) for call in frames(*rows, keys, settings))
        checked = (_checked_frame(r, schema, settings) for r in _results(func, arguments, calls))
        return in_bulk(checked, lambda results: _one_batch(results, schema, settings), _copied)

    return apply


def in_arrow(
    func: Callable[..., Any], arguments: int, keys: Sequence[int], schema: T.StructType, settings: Settings
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """As `in_pandas`, for `applyInArrow`."""

    def apply(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        target = pa.schema(list(to_arrow_type(schema, timezone="UTC", prefers_large_types=settings.large)))
        calls = (call for rows in whole_groups(batches, keys) for call in tables(*rows, keys))
        checked = (_checked_table(r, target, settings) for r in _results(func, arguments, calls))
        return in_bulk(checked, _joined, _copied)

    return apply


def whole_groups(batches: Iterable[pa.RecordBatch], keys: Sequence[int]) -> Iterator[Rows]:
    """Cut rows that are sorted by key into whole groups.

    Holds one batch, and the group in progress where that began in an earlier one.
    """
    pending: list[pa.RecordBatch] = []
    for batch in batches:
        if batch.num_rows == 0:
            continue
        starts = group_starts([batch.column(k) for k in keys])
        if pending and not _goes_on(pending[-1], batch, keys):
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


def group_starts(keys: Sequence[pa.Array]) -> NDArray[np.int64]:
    """The rows, but the first, whose key differs from the row before: as Spark groups, null = null, NaN = NaN, -0 = 0.

    >>> group_starts([pa.array([0.0, -0.0, float("nan"), float("nan"), None, None])]).tolist()
    [2, 4]
    """
    changed = np.zeros(max(len(keys[0]) - 1, 0), bool)
    for key in keys:
        changed |= _changes(key)
    return np.flatnonzero(changed) + 1


def _changes(values: pa.Array) -> NDArray[np.bool_]:
    """For each row but the first, whether its value differs from the one before."""
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


def _goes_on(before: pa.RecordBatch, after: pa.RecordBatch, keys: Sequence[int]) -> bool:
    """Whether the first row of `after` is of the group of the last row of `before`."""
    rows = (pa.concat_arrays([before.column(k)[-1:], after.column(k)[:1]]) for k in keys)
    return not len(group_starts(list(rows)))


def _numpy(booleans: pa.Array) -> NDArray[np.bool_]:
    values: NDArray[np.bool_] = booleans.to_numpy(zero_copy_only=False)
    return values


def tables(rows: pa.Table, starts: NDArray[np.int64], keys: Sequence[int]) -> Iterator[Call]:
    """The key (Arrow scalars) and the Arrow table of each group."""
    rows = pa.Table.from_arrays(rows.columns, names=rows.schema.names)  # PySpark's are all nullable, too
    columns = [rows.column(k) for k in keys]
    for start, end in pairwise(starts.tolist()):
        yield tuple(column[start] for column in columns), rows.slice(start, end - start)


def frames(
    rows: pa.Table, starts: NDArray[np.int64], keys: Sequence[int], settings: Settings
) -> Iterator[Call]:
    """The key and the DataFrame of each group, as PySpark would convert the group alone; no two share memory."""
    schema = from_arrow_schema(rows.schema)
    alone = np.full(len(starts) - 1, len(starts) == 2 or not all(map(_by_value, rows.schema.types)))
    if not alone.all():
        filled, nulls = _without_nulls(rows)
        alone = np.logical_or.reduceat(nulls, starts[:-1])
        series = _series(filled, schema, settings)
        all_rows = pd.concat(series, axis=1)
    for (start, end), is_alone in zip(pairwise(starts.tolist()), alone.tolist(), strict=True):
        if is_alone:
            own = _series(rows.slice(start, end - start), schema, settings)
            yield tuple(own[k].iloc[0] for k in keys), pd.concat(own, axis=1)
        else:
            # reset_index copies, so what the function does to the frame stays in it
            yield tuple(series[k].iloc[start] for k in keys), all_rows.iloc[start:end].reset_index(drop=True)


def _series(rows: pa.Table, schema: T.StructType, settings: Settings) -> list[pd.Series[Any]]:
    series: list[Any] = ArrowBatchTransformer.to_pandas(
        rows, settings.timezone, schema, prefer_int_ext_dtype=settings.int_extension
    )
    return series


def _by_value(kind: pa.DataType) -> bool:
    """Whether values of that type are converted to pandas one by one, nulls in a column of integers aside."""
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
    """The rows with nulls of integers and booleans filled, and which rows had some."""
    nulls = np.zeros(rows.num_rows, bool)
    for i, kind in enumerate(rows.schema.types):
        column = rows.column(i)
        if column.null_count and _changes_with_null(kind):
            nulls |= _numpy(column.is_null())
            rows = rows.set_column(i, rows.schema.field(i), column.fill_null(pa.scalar(0).cast(kind)))
    return rows, nulls


def _results(func: Callable[..., Any], arguments: int, calls: Iterator[Call]) -> Iterator[Any]:
    func = fail_on_stopiteration(func)
    for key, rows in calls:
        yield func(rows) if arguments == 1 else func(key, rows)


def in_bulk(
    results: Iterator[Any], merge: Callable[[list[Any]], Iterable[pa.RecordBatch]], copy: Callable[[Any], Any]
) -> Iterator[pa.RecordBatch]:
    """Merge results, in their order, into batches of a few megabytes.

    How many are merged is learnt from the size of what was written: one at first, twice as many next, and half as
    many after too big a batch. A result that waits is copied, since the function may write over what it returned.
    """
    waiting: list[Any] = []
    limit, rows = 1, 0
    for result in results:
        rows += _rows(result)
        if len(waiting) + 1 < limit and rows < _BULK_ROWS:
            waiting.append(copy(result))
            continue
        waiting.append(result)
        size = 0
        for batch in merge(waiting):
            size += batch.nbytes
            yield batch
        limit = min(2 * limit, _BULK_GROUPS) if size < _BULK_BYTES / 2 else max(limit // 2, 1)
        waiting, rows = [], 0
    if waiting:
        yield from merge(waiting)


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


def _checked_frame(result: Any, schema: T.StructType, settings: Settings) -> Any:
    """The result with its columns in the order of the schema, or converted, where it cannot wait for others."""
    from pyspark.worker import verify_pandas_result

    names = schema.names
    if type(result) is not pd.DataFrame or list(result.columns) != names:
        verify_pandas_result(result, schema, settings.by_name, truncate_return_schema=False)
    simple = (
        type(result) is pd.DataFrame
        and len(result.columns) == len(names) == len(set(names))
        and all(type(field.dataType) in _BULK_TYPES for field in schema.fields)
    )
    if not simple:
        return _converted(result, schema, settings)
    if settings.by_name and list(result.columns) != names and any(isinstance(n, str) for n in result.columns):
        return result[names]
    return result


def _converted(frame: Any, schema: T.StructType, settings: Settings, *, cast: bool = True) -> pa.RecordBatch:
    """A result converted by PySpark's own code."""
    batch = PandasToArrowConversion.convert(
        [frame],
        T.StructType([T.StructField("_0", schema)]),
        timezone=settings.timezone,
        safecheck=settings.safe,
        arrow_cast=cast,
        prefers_large_types=settings.large,
        assign_cols_by_name=settings.by_name,
        int_to_decimal_coercion_enabled=settings.int_to_decimal,
    )
    return ArrowBatchTransformer.flatten_struct(batch)


def _one_batch(results: list[Any], schema: T.StructType, settings: Settings) -> Iterator[pa.RecordBatch]:
    """Convert results together: those of one layout at once, so that no dtype is changed by another group's."""
    layouts: dict[tuple[Any, ...], list[int]] = {}
    for i, result in enumerate(results):
        layout = tuple(result.dtypes) if isinstance(result, pd.DataFrame) else ("converted",)
        layouts.setdefault(layout, []).append(i)
    batches: list[pa.RecordBatch] = []
    for layout, members in layouts.items():
        batches += _of_one_layout([results[i] for i in members], layout, schema, settings)
    order = np.concatenate([np.repeat(m, [_rows(results[i]) for i in m]) for m in layouts.values()])
    for batch in _joined(batches):
        yield batch if len(layouts) == 1 else batch.take(pa.array(np.argsort(order, kind="stable")))


def _of_one_layout(
    results: list[Any], layout: tuple[Any, ...], schema: T.StructType, settings: Settings
) -> list[pa.RecordBatch]:
    if layout == ("converted",):
        return results
    if len(results) > 1 and all(isinstance(dtype, np.dtype | pd.DatetimeTZDtype) for dtype in layout):
        named = [r if list(r.columns) == schema.names else r.set_axis(schema.names, axis=1) for r in results]
        try:
            # without the cast: that is tried where a value does not fit the type, and then for all values at once
            return [_converted(pd.concat(named, ignore_index=True), schema, settings, cast=False)]
        except Exception:  # noqa: BLE001 (whatever it is, a group's own conversion decides, and says what is wrong)
            pass
    return [_converted(result, schema, settings) for result in results]


def _rows(result: Any) -> int:
    return len(result) if isinstance(result, pd.DataFrame) else int(result.num_rows)


def _checked_table(result: Any, target: pa.Schema, settings: Settings) -> pa.Table:
    from pyspark.worker import verify_return_type

    table = ArrowBatchTransformer.enforce_schema(
        verify_return_type(result, pa.Table), target, arrow_cast=False, reorder_by_name=settings.by_name
    )
    if table.num_columns == 0 and table.num_rows:  # which would stop the JVM without a word about it
        counts = {"expected": str(len(target)), "actual": "0"}
        raise PySparkRuntimeError(errorClass="RESULT_COLUMN_SCHEMA_MISMATCH", messageParameters=counts)
    return table.rename_columns(target.names) if table.num_columns else table


def _joined(results: list[Any]) -> Iterable[pa.RecordBatch]:
    """Arrow results with the same columns in one batch; one alone is passed on as it is."""
    results = [result for result in results if result.num_columns]
    if len(results) < 2:
        return [b for r in results for b in (r.to_batches() if isinstance(r, pa.Table) else [r])]
    columns = [
        pa.concat_arrays([chunk for r in results for chunk in _chunks(r.column(i))])
        for i in range(results[0].num_columns)
    ]
    return [pa.RecordBatch.from_arrays(columns, names=results[0].schema.names)]


def _chunks(column: Any) -> list[pa.Array]:
    if isinstance(column, pa.ChunkedArray):
        return column.chunks or [pa.array([], column.type)]
    return [column]


# Workers get these functions themselves, not their names, so that unskew is needed on the driver only.
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]
