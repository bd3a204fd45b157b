"""Rows placed for a function on groups, and sorted by key.

From here `apply` runs the user's function on a partition as one stream of Arrow batches.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.sql import Window
from pyspark.sql import functions as F

from unskew.spark.apply import in_arrow, in_pandas
from unskew.spark.explained import Explained
from unskew.spark.group_streams import ConversionSettings, Layout
from unskew.spark.keys import KeyColumns, column, free_name
from unskew.spark.user_function import argument_count, takes_batches
from unskew.spark.versions.grouped import has_group_iterators
from unskew.spark.versions.settings_since import setting_or_none
from unskew.spark.worth import operator_of, own_exchanges

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType


def placed_by_spark(rows: DataFrame, keys: KeyColumns, spark_plan: Explained | None) -> DataFrame:
    """The rows where Spark would have them for this key: where they are, if `spark_plan` needs no shuffle."""
    if spark_plan is None or own_exchanges(operator_of(spark_plan.physical)):
        return rows.repartition(*keys.columns())
    return kept_in_place(rows, keys)


def kept_in_place(rows: DataFrame, keys: KeyColumns, *slot: Column) -> DataFrame:
    """The rows where they are, which is together by key (and by slot); a hidden column is added.

    Nothing else would tell Spark that the groups must stay whole: it may split a partition of a skewed join.
    """
    by_key = Window.partitionBy(*slot, *keys.columns()).orderBy(*keys.columns())
    return rows.select("*", F.row_number().over(by_key).alias(free_name("__row", rows.columns)))


def apply_by_partition(
    placed: DataFrame,
    user_columns: list[str],
    keys: KeyColumns,
    method: str,
    func: Callable[..., Any],
    schema: StructType | str,
    result_schema: StructType,
) -> DataFrame:
    """One Arrow stream per partition of placed rows; `result_schema` is `schema` as Spark has parsed it."""
    apply = in_pandas if method == "applyInPandas" else in_arrow
    settings = ConversionSettings.of(partial(setting_or_none, placed.sparkSession))
    ordered, layout = _in_order(placed, user_columns, keys)
    in_pieces = takes_batches(func) and has_group_iterators(placed.sparkSession)
    run = apply(func, argument_count(func), layout, result_schema, settings, in_pieces=in_pieces)
    return ordered.mapInArrow(run, schema)


def _in_order(rows: DataFrame, user_columns: list[str], keys: KeyColumns) -> tuple[DataFrame, Layout]:
    """The rows sorted by key within their partitions; an expression is added as a hidden column."""
    positions = keys.positions(rows)
    names, order, hidden = list(rows.columns), [], []
    for i, expr in enumerate(keys.exprs):
        if positions[i] is None:
            positions[i] = len(names)
            names.append(free_name("__key", names))
            hidden.append(expr.alias(names[-1]))
            order.append(column(names[-1]))
        else:
            order.append(expr)
    ordered = (rows.select("*", *hidden) if hidden else rows).sortWithinPartitions(*order)
    if len(set(names)) < len(names):
        ordered = ordered.toDF(*(f"c{i}" for i in range(len(names))))
    return ordered, Layout(tuple(at for at in positions if at is not None), tuple(user_columns))
