"""Everything that unskew uses of PySpark and that is not PySpark's public API: one function per use.

Public is what PySpark's API reference documents. Each function says what it calls and why the public API does not do.
No other module may import such names: `tests/spark/test_public_api_only.py` checks that. Every use has a test in
`tests/spark/versions/test_private.py`, so a Spark that lacks one fails by name.

Each function imports what it calls when it is called: some of these modules are for workers, or are absent where only
PySpark's Connect client is installed. Nothing here may need unskew on the workers: see the last line.
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

    The public API converts data, not a schema alone.
    """
    from pyspark.sql.pandas import types

    return types.to_arrow_schema(schema, timezone=timezone)


def from_arrow_schema(schema: pa.Schema) -> T.StructType:
    """The Spark schema of Arrow rows: `pyspark.sql.pandas.types.from_arrow_schema`.

    The public API converts data, not a schema alone.
    """
    from pyspark.sql.pandas import types

    return types.from_arrow_schema(schema)


def is_remote() -> bool:
    """Whether this is a client of Spark Connect: `pyspark.sql.utils.is_remote`.

    The public API answers only by failing: Connect has no `sparkContext`.
    """
    from pyspark.sql import utils

    return bool(utils.is_remote())


def arrow_fields(schema: T.StructType, *, large: bool) -> pa.Schema:
    """The schema that PySpark compares Arrow results with: `pyspark.sql.pandas.types.to_arrow_type`.

    The public API does this only inside its own operators. `large` is the session's setting for large strings and
    binaries.
    """
    from pyspark.sql.pandas.types import to_arrow_type

    return pa.schema(list(to_arrow_type(schema, timezone="UTC", prefers_large_types=large)))


def to_pandas(
    rows: pa.Table, timezone: str, schema: T.StructType, *, int_extension: bool
) -> list[pd.Series[Any]]:
    """Arrow rows as the pandas columns that a function of `applyInPandas` gets: `ArrowBatchTransformer.to_pandas`.

    The public API makes this conversion only inside its own operators, once per group.
    """
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

    The public API makes this conversion only inside its own operators, once per group.
    """
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
    """
    from pyspark.sql.conversion import ArrowBatchTransformer

    return ArrowBatchTransformer.enforce_schema(table, schema, arrow_cast=False, reorder_by_name=by_name)


def verify_frame(result: Any, schema: T.StructType, *, by_name: bool) -> None:
    """Refuse what `applyInPandas` refuses, with its own error: `pyspark.worker.verify_pandas_result`.

    The public API does this only inside its own operators.
    """
    from pyspark.worker import verify_pandas_result

    verify_pandas_result(result, schema, by_name, truncate_return_schema=False)


def verify_table(result: Any) -> pa.Table:
    """Refuse what is not an Arrow table, with PySpark's own error: `pyspark.worker.verify_return_type`.

    The public API does this only inside its own operators.
    """
    from pyspark.worker import verify_return_type

    return verify_return_type(result, pa.Table)


def verify_batches(result: Any) -> Iterator[pa.RecordBatch]:
    """Refuse what is not an iterator of record batches, with PySpark's own error: `pyspark.worker.verify_return_type`.

    The public API does this only inside its own operators.
    """
    from pyspark.worker import verify_return_type

    return cast("Iterator[pa.RecordBatch]", verify_return_type(result, Iterator[pa.RecordBatch]))


def fail_on_stop_iteration(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with StopIteration made an error: `pyspark.util.fail_on_stopiteration`.

    Raised in a loop over groups it would end the loop and lose the others. PySpark's own operators wrap functions
    like this, and the text of the error is to be the same.
    """
    from pyspark.util import fail_on_stopiteration

    return fail_on_stopiteration(function)


# Workers get these functions themselves, not their names, so that unskew is needed on the driver only.
pickle_by_value(sys.modules[__name__])
