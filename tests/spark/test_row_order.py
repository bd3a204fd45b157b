"""What may be other rows or other values when it is read again: it is never split by what an earlier reading showed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from unskew.spark.explained import explained
from unskew.spark.row_order import may_differ


def of_a_database(spark: SparkSession) -> DataFrame:
    """A table of another process, as far as Spark knows: here a database in Spark's own memory."""
    return (
        spark.read.format("jdbc")
        .option("url", "jdbc:derby:memory:unskew;create=true")
        .option("driver", "org.apache.derby.iapi.jdbc.AutoloadedDriver")
        .option("query", "select * from sysibm.sysdummy1")
        .load()
    )


CHANGING: dict[str, Callable[[SparkSession], DataFrame]] = {
    "random numbers": lambda spark: spark.range(5).select(F.rand()),
    "random text": lambda spark: spark.range(5).select(F.expr("randstr(4)")),
    "any rows": lambda spark: spark.range(5).offset(2),
    "values as they come": lambda spark: spark.range(5).groupBy(F.col("id") % 2).agg(F.collect_list("id")),
    "any of several": lambda spark: spark.range(5).groupBy(F.col("id") % 2).agg(F.max_by("id", F.lit(1))),
    "a script": lambda spark: spark.sql("select transform(id) using 'cat' as (a string) from range(5)"),
    "a database": of_a_database,
}


@pytest.mark.since("4.0", "randstr")
@pytest.mark.parametrize("case", CHANGING)
def test_what_may_change_between_two_readings(spark: SparkSession, case: str) -> None:
    plan = explained(CHANGING[case](spark))
    assert plan is not None
    assert may_differ(plan.logical)


def test_what_stays_the_same(spark: SparkSession) -> None:
    rows = spark.range(5).selectExpr("id % 2 as k", "xxhash64(id) as v").groupBy("k").agg(F.max("v"))
    plan = explained(rows.join(spark.range(3).withColumnRenamed("id", "k"), "k"))
    assert plan is not None
    assert not may_differ(plan.logical)
