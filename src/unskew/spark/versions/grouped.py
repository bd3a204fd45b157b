"""Functions on groups: which of PySpark's methods a version has, and whether partitions can be streamed to them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from unskew.spark.versions.running import version_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, GroupedData, SparkSession
    from pyspark.sql.types import StructType

_log = logging.getLogger("unskew")


def streams_partitions(spark: SparkSession) -> bool:
    """Whether `unskew.spark.apply` works: it needs conversions that are not public, and are known from 3.5 to 4.3."""
    return version_of(spark).is_known and _converts()


def has_group_iterators(spark: SparkSession) -> bool:
    """Whether a function whose type hints say so gets the batches of a group one after the other: since 4.1."""
    return version_of(spark).has_group_iterators


def planned(
    groups: GroupedData, spark: SparkSession, method: str, func: Callable[..., Any], schema: StructType | str
) -> DataFrame:
    """The result of PySpark's own method, to read its plan and schema; on 3.5 that of the other one of the two."""
    if method == "applyInArrow" and not version_of(spark).has_grouped_arrow:
        method = "applyInPandas"
    result: DataFrame = getattr(groups, method)(func, schema)
    return result


def check_method(spark: SparkSession, method: str) -> None:
    """Refuse `applyInArrow` where only PySpark's own method can do it and this version has none: on 3.5."""
    if method == "applyInArrow" and not version_of(spark).has_grouped_arrow:
        raise ValueError(
            f"applyInArrow needs Spark 4.0 or newer here, and this session runs {version_of(spark)}: use applyInPandas"
        )


@lru_cache(maxsize=1)
def _converts() -> bool:
    """Whether the conversions of this PySpark are those that its version has; vendors may change them."""
    import pyarrow as pa
    from pyspark.sql import types as T

    from unskew.spark.versions import private

    schema = T.StructType([T.StructField("x", T.LongType())])
    try:
        table = pa.table({"x": [1]})
        (column,) = private.to_pandas(
            table, "UTC", private.from_arrow_schema(table.schema), int_extension=False
        )
        batch = private.to_arrow(
            column.to_frame("x"),
            schema,
            timezone="UTC",
            safe=True,
            cast_values=True,
            large=False,
            by_name=True,
            int_to_decimal=False,
        )
        fields = private.arrow_fields(schema, large=False)
        private.enforce_schema(private.verify_table(table), fields, by_name=True)
        private.verify_frame(column.to_frame("x"), schema, by_name=True)
        return bool(batch.num_rows == 1)
    except (AttributeError, ImportError, TypeError) as error:
        _log.warning(
            "PySpark's own operators run the functions on groups: its conversions differ (%s)", error
        )
        return False
