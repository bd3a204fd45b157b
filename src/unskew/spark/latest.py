"""`latest`: the last row of every key in one combining aggregate, however many rows a key has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.errors import PySparkException
from pyspark.sql import Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from unskew.spark.keys import Key, check_batch, column, free_name, grouping_columns
from unskew.spark.over_order import OrderBy, OrderColumn, order_columns

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def latest(df: DataFrame, key: Key, orderBy: OrderBy) -> DataFrame:
    """The last row of every key in the given order, with all columns of `df`; of rows that tie, any one.

    `unskew.latest(df, "user", orderBy="at")` has the rows that `row_number()` over the reverse order numbers 1. Each
    task keeps one row per key and shuffles nothing else, so no key is too hot. It measures nothing and starts no job.

    >>> clicks = spark.createDataFrame([("ann", 2), ("ann", 4), ("bob", 3)], "user string, n int")
    >>> unskew.latest(clicks, "user", orderBy="n").orderBy("user").show()
    +----+---+
    |user|  n|
    +----+---+
    | ann|  4|
    | bob|  3|
    +----+---+
    """
    check_batch(df)
    keys = grouping_columns(df, key)
    order = order_columns(df, orderBy)
    if not order:
        raise ValueError("latest needs an order: latest(df, 'user', orderBy='at')")
    names = [name.lower() for name in df.columns]
    ascending = {each.ascending for each in order}
    # A struct is compared column by column in one direction.
    if len(ascending) > 1 or any(each.value is None for each in order) or len(set(names)) < len(names):
        return _by_row_number(df, keys.columns(), order)
    place = F.struct(*(part for i, each in enumerate(order) for part in _comparable(each, i)))
    row = F.struct(*(column(name) for name in df.columns))
    pick = F.max_by if ascending == {True} else F.min_by
    picked = df.groupBy(*(expr.alias(f"k{i}") for i, expr in enumerate(keys.columns()))).agg(
        pick(row, place).alias("row")
    )
    if not all(each.nullable for each in df.schema.fields):
        # No key is without a row, but of what an aggregate picks Spark does not know that it is never null.
        picked = picked.select(F.explode(F.array_compact(F.array("row"))).alias("row"))
    return picked.select(*(_taken(each) for each in df.schema.fields))


def _comparable(order: OrderColumn, number: int) -> list[Column]:
    """The column as parts of a struct, in which nulls come first; ascending, whatever its direction."""
    assert order.value is not None
    value = order.value.alias(f"o{number}")
    if order.nulls_first == order.ascending:
        return [value]
    return [order.value.isNull().alias(f"n{number}"), value]


def _taken(described: T.StructField) -> Column:
    value = column("row").getField(described.name)
    return (
        value.alias(described.name, metadata=described.metadata)
        if described.metadata
        else value.alias(described.name)
    )


def _by_row_number(df: DataFrame, keys: list[Column], order: list[OrderColumn]) -> DataFrame:
    """The same by plain Spark, which also limits the rows of each key before the shuffle."""
    number = free_name("n", df.columns)
    backwards = Window.partitionBy(*keys).orderBy(*(_reversed(each) for each in order))
    try:
        numbered = df.select("*", F.row_number().over(backwards).alias(number))
    except PySparkException as error:
        raise ValueError(f"the rows cannot be ordered: {str(error).splitlines()[0]}") from error
    return numbered.where(F.col(number) == 1).drop(number)


def _reversed(order: OrderColumn) -> Column:
    if order.value is None:
        raise ValueError(
            "the direction of an order column that is an expression cannot be reversed: add it with withColumn first"
        )
    ways = {
        (True, True): order.value.desc_nulls_last,
        (True, False): order.value.desc_nulls_first,
        (False, True): order.value.asc_nulls_last,
        (False, False): order.value.asc_nulls_first,
    }
    return ways[order.ascending, order.nulls_first]()
