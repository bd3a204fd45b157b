"""Everything that unskew uses of PySpark and that is not PySpark's public API: one function per use.

Public is what PySpark's API reference documents. Each function says what it calls and why the public API does not do.
No other module may import such names: `tests/spark/test_public_api_only.py` checks that. Every use has a test in
`tests/spark/versions/test_private.py`, so a Spark that lacks one fails by name.

Each function imports what it calls when it is called: some of these modules are for workers, or are absent where only
PySpark's Connect client is installed, and some are elsewhere in other versions, of which each function says which. The
version is that of the PySpark that runs the function: on a worker it may be another than on a Connect client. Nothing
here may need unskew on the workers: see the last line.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import IO, TYPE_CHECKING, Any, cast

import pyarrow as pa
from pyspark.sql import types as T

if TYPE_CHECKING:
    import pandas as pd
    from pyspark import SparkConf, SparkContext


def _pyspark_is(major: int, minor: int) -> bool:
    """Whether this PySpark has that version or a newer one."""
    import pyspark

    numbers = pyspark.__version__.split(".")
    return (int(numbers[0]), int(numbers[1])) >= (major, minor)


def pickle_by_value(module: ModuleType) -> None:
    """Send the functions of a module to workers whole, not by name: `pyspark.cloudpickle.register_pickle_by_value`.

    By the public API a worker imports the module of a function, so it would have to be installed there.
    """
    from pyspark.cloudpickle import register_pickle_by_value

    register_pickle_by_value(module)  # type: ignore[no-untyped-call]


def context_with_log(conf: SparkConf, log: IO[bytes]) -> SparkContext:
    """A SparkContext in a new JVM that writes its standard error to `log`: `pyspark.java_gateway.launch_gateway`.

    No setting silences the first lines of a JVM; PySpark offers this argument to developers for the purpose.
    """
    from pyspark import SparkContext
    from pyspark.java_gateway import launch_gateway

    gateway = launch_gateway(conf, {"stderr": log})  # type: ignore[no-untyped-call]
    return SparkContext(conf=conf, gateway=gateway)


def to_arrow_schema(schema: T.StructType, timezone: str | None = None) -> pa.Schema:
    """The Arrow schema of Spark rows: `pyspark.sql.pandas.types.to_arrow_schema`.

    The public API converts data, not a schema alone. Before 4.2 the time zone is always UTC.
    """
    from pyspark.sql.pandas import types

    if _pyspark_is(4, 2):
        return types.to_arrow_schema(schema, timezone=timezone)
    fields = types.to_arrow_schema(schema)
    return pa.schema([field.with_type(_in_zone(field.type, timezone)) for field in fields])


def _in_zone(kind: pa.DataType, timezone: str | None) -> pa.DataType:
    """The type with its times in UTC in another time zone."""
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return pa.timestamp(kind.unit, timezone)
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_in_zone(field.type, timezone)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_in_zone(kind.value_type, timezone)))
    if pa.types.is_map(kind):
        item = kind.item_field.with_type(_in_zone(kind.item_type, timezone))
        return pa.map_(_in_zone(kind.key_type, timezone), item)
    return kind


def from_arrow_schema(schema: pa.Schema) -> T.StructType:
    """The Spark schema of Arrow rows: `pyspark.sql.pandas.types.from_arrow_schema`.

    The public API converts data, not a schema alone. Before 4.2 times without a zone are taken for others by default.
    """
    from pyspark.sql.pandas import types

    return types.from_arrow_schema(schema, prefer_timestamp_ntz=True)


def is_remote() -> bool:
    """Whether this is a client of Spark Connect: `pyspark.sql.utils.is_remote`.

    The public API answers only by failing: Connect has no `sparkContext`.
    """
    from pyspark.sql import utils

    return bool(utils.is_remote())


def arrow_fields(schema: T.StructType, *, large: bool) -> pa.Schema:
    """The schema that PySpark compares Arrow results with: `pyspark.sql.pandas.types.to_arrow_type`.

    The public API does this only inside its own operators. `large` is the session's setting for large strings and
    binaries, which there are since 4.0.
    """
    return pa.schema(list(_arrow_struct(schema, large=large)))


def _arrow_struct(schema: T.StructType, *, large: bool) -> pa.StructType:
    from pyspark.sql.pandas.types import to_arrow_type

    if _pyspark_is(4, 2):
        return to_arrow_type(schema, timezone="UTC", prefers_large_types=large)
    return to_arrow_type(schema, prefers_large_types=large) if _pyspark_is(4, 0) else to_arrow_type(schema)


def _serializer(timezone: str, *, safe: bool, by_name: bool, int_to_decimal: bool) -> Any:
    """What converts the groups of `applyInPandas` before 4.2."""
    from pyspark.sql.pandas import serializers as of_any_version

    serializers: Any = of_any_version
    if _pyspark_is(4, 1):
        return serializers.GroupPandasUDFSerializer(timezone, safe, by_name, int_to_decimal)
    return serializers.ArrowStreamPandasUDFSerializer(timezone, safe, by_name)


def to_pandas(
    rows: pa.Table, timezone: str, schema: T.StructType, *, int_extension: bool
) -> list[pd.Series[Any]]:
    """Arrow rows as the pandas columns that a function of `applyInPandas` gets: `ArrowBatchTransformer.to_pandas`.

    The public API makes this conversion only inside its own operators, once per group. Before 4.2 it is
    `arrow_to_pandas` of a serializer, which has no `int_extension`.
    """
    if not _pyspark_is(4, 2):
        serializer = _serializer(timezone, safe=True, by_name=True, int_to_decimal=False)
        position = _pyspark_is(4, 1)
        return [
            serializer.arrow_to_pandas(column, i) if position else serializer.arrow_to_pandas(column)
            for i, column in enumerate(rows.itercolumns())
        ]
    from pyspark.sql.conversion import ArrowBatchTransformer

    columns = ArrowBatchTransformer.to_pandas(rows, timezone, schema, prefer_int_ext_dtype=int_extension)
    return cast("list[pd.Series[Any]]", columns)


def to_arrow(
    frame: pd.DataFrame,
    schema: T.StructType,
    *,
    timezone: str,
    safe: bool,
    cast_values: bool,
    large: bool,
    by_name: bool,
    int_to_decimal: bool,
) -> pa.RecordBatch:
    """The result of a function of `applyInPandas` as Arrow rows: `PandasToArrowConversion.convert`, `flatten_struct`.

    The public API makes this conversion only inside its own operators, once per group. Before 4.2 it is `_create_batch`
    of a serializer; before 4.1 that never casts values, nor makes decimals of whole numbers.
    """
    if not _pyspark_is(4, 2):
        serializer = _serializer(timezone, safe=safe, by_name=by_name, int_to_decimal=int_to_decimal)
        serializer._arrow_cast = cast_values and _pyspark_is(4, 1)
        (structs,) = serializer._create_batch([(frame, _arrow_struct(schema, large=large))]).columns
        return pa.RecordBatch.from_arrays(structs.flatten(), names=schema.names)
    from pyspark.sql.conversion import ArrowBatchTransformer, PandasToArrowConversion

    batch = PandasToArrowConversion.convert(
        [frame],
        T.StructType([T.StructField("_0", schema)]),
        timezone=timezone,
        safecheck=safe,
        arrow_cast=cast_values,
        prefers_large_types=large,
        assign_cols_by_name=by_name,
        int_to_decimal_coercion_enabled=int_to_decimal,
    )
    return ArrowBatchTransformer.flatten_struct(batch)


def enforce_schema(table: pa.Table, schema: pa.Schema, *, by_name: bool) -> pa.Table:
    """The result of a function of `applyInArrow` in the order of the schema: `ArrowBatchTransformer.enforce_schema`.

    The public API does this only inside its own operators; a result that does not fit raises PySpark's own error.
    Before 4.3 that is `pyspark.worker.verify_arrow_result`. On 3.5, which has no `applyInArrow`, it is a copy of it.
    """
    if not _pyspark_is(4, 3):
        columns = list(zip(schema.names, schema.types, strict=True))
        verify: Any = _verify_arrow_result
        if _pyspark_is(4, 0):
            from pyspark.worker import verify_arrow_result as verify
        verify(table, by_name, dict(columns) if by_name else columns)
        return table.select(schema.names) if by_name and table.num_columns else table
    from pyspark.sql.conversion import ArrowBatchTransformer

    return ArrowBatchTransformer.enforce_schema(table, schema, arrow_cast=False, reorder_by_name=by_name)


def _verify_arrow_result(table: pa.Table, by_name: bool, expected: Any) -> None:
    """Refuse an Arrow table with other columns than those expected, as PySpark does since 4.0."""
    if table.num_columns == 0 and table.num_rows == 0:
        return
    found = dict(zip(table.schema.names, table.schema.types, strict=True))
    if by_name:
        missing, extra = sorted(set(expected) - set(found)), sorted(set(found) - set(expected))
        if missing or extra:
            lacks = f" Missing: {', '.join(missing)}." if missing else ""
            surplus = f" Unexpected: {', '.join(extra)}." if extra else ""
            raise _error(
                "Runtime",
                "RESULT_COLUMN_NAMES_MISMATCH",
                f"Column names of the returned data do not match specified schema.{lacks}{surplus}",
            )
        pairs = [(name, expected[name], found[name]) for name in sorted(expected)]
    else:
        pairs = [(*column, kind) for column, kind in zip(expected, table.schema.types, strict=False)]
    wrong = [
        f"column '{name}' (expected {kind}, actual {actual})"
        for name, kind, actual in pairs
        if kind != actual
    ]
    if wrong:
        raise _error(
            "Runtime",
            "RESULT_COLUMN_TYPES_MISMATCH",
            f"Column types of the returned data do not match specified schema. Mismatch: {', '.join(wrong)}.",
        )


def column_count_error(*, expected: int, actual: int) -> Exception:
    """PySpark's error for a result with another number of columns, which not all versions have."""
    text = "Number of columns of the returned data doesn't match specified schema."
    return _error("Runtime", "RESULT_COLUMN_SCHEMA_MISMATCH", f"{text} Expected: {expected} Actual: {actual}")


def _error(kind: str, name: str, text: str) -> Exception:
    """An error of PySpark by the name it has there; the text is ours, since not all versions have the name."""
    from pyspark import errors

    error: Exception = getattr(errors, f"PySpark{kind}Error")(f"[{name}] {text}")
    return error


def _return_type_error(expected: str, actual: object) -> Exception:
    text = f"Return type of the user-defined function should be {expected}, but is {actual}."
    return _error("Type", "UDF_RETURN_TYPE", text)


def verify_frame(result: Any, schema: T.StructType, *, by_name: bool) -> None:
    """Refuse what `applyInPandas` refuses, with its own error: `pyspark.worker.verify_pandas_result`.

    The public API does this only inside its own operators.
    """
    from pyspark.worker import verify_pandas_result

    verify_pandas_result(result, schema, by_name, truncate_return_schema=False)


def verify_table(result: Any) -> pa.Table:
    """Refuse what is not an Arrow table, with PySpark's own error: `pyspark.worker.verify_return_type`.

    The public API does this only inside its own operators. Before 4.3 it is not a function of its own there.
    """
    if not _pyspark_is(4, 3):
        if not isinstance(result, pa.Table):
            raise _return_type_error("pyarrow.Table", type(result).__name__)
        return result
    from pyspark.worker import verify_return_type

    return verify_return_type(result, pa.Table)


def verify_batches(result: Any) -> Iterator[pa.RecordBatch]:
    """Refuse what is not an iterator of record batches, with PySpark's own error: `pyspark.worker.verify_return_type`.

    The public API does this only inside its own operators. Before 4.3 it is not a function of its own there.
    """
    if not _pyspark_is(4, 3):
        return _checked_batches(result)
    from pyspark.worker import verify_return_type

    return cast("Iterator[pa.RecordBatch]", verify_return_type(result, Iterator[pa.RecordBatch]))


def _checked_batches(result: Any) -> Iterator[pa.RecordBatch]:
    label = "iterator of pyarrow.RecordBatch"
    if not isinstance(result, Iterator):
        raise _return_type_error(label, type(result).__name__)

    def checked(batch: Any) -> pa.RecordBatch:
        if not isinstance(batch, pa.RecordBatch):
            raise _return_type_error(label, f"iterator of {type(batch).__name__}")
        return batch

    return map(checked, result)


def fail_on_stop_iteration(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with StopIteration made an error: `pyspark.util.fail_on_stopiteration`.

    Raised in a loop over groups it would end the loop and lose the others. PySpark's own operators wrap functions
    like this, and the text of the error is to be the same.
    """
    from pyspark.util import fail_on_stopiteration

    return fail_on_stopiteration(function)


# Workers get these functions themselves, not their names, so that unskew is needed on the driver only.
pickle_by_value(sys.modules[__name__])
