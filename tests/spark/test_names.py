"""Names of columns that Spark's SQL text cannot hold, although its columns can."""

from __future__ import annotations

import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import unskew
from tests.spark.frames import assert_same, exchanges, setting
from unskew.spark.keys import names_in_text

pytestmark = pytest.mark.connect

VARIABLES = ["${env:HOME}", "${system:user.name}", "a ${spark.master} b"]
PATTERNS = ["a(b", "a.b", "a_*b", "(.*)"]
SLOTS = 3


def rows(spark: SparkSession, name: str) -> DataFrame:
    """A key of that name, hot for half of the rows, beside columns with names like it."""
    key = F.when(F.col("id") % 2 == 0, "hot").otherwise(F.concat(F.lit("k"), F.col("id") % 7))
    ids = spark.range(0, 500, 1, 3)
    return ids.select(key.alias(name), "id", F.lit("y").alias(f"{name} ${{more}}"), F.lit("z").alias("aab"))


def counted(group: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame({"key": [str(group.iloc[0, 0])], "n": [len(group)]})


def check(df: DataFrame, name: str) -> None:
    quoted = F.col(f"`{name}`")
    plain = {tuple(row) for row in df.groupBy(quoted).count().collect()}
    assert unskew.measure(df, name).total == 500
    assert {tuple(row) for row in unskew.groupBy(df, name, slots=SLOTS).agg(F.count("id")).collect()} == plain
    if "." not in name:  # PySpark itself takes a dot for that of a path there
        placed = unskew.groupBy(df, name, slots=SLOTS, planner="keel")
        result = placed.applyInPandas(counted, "key string, n long")
        assert {tuple(row) for row in result.collect()} == plain
    few = df.where("id < 9").select(quoted, F.col("id").alias("n"))
    joined = unskew.join(df, few, name, "left", slots=SLOTS, planner="keel")
    assert_same(joined, df.join(few, [name], "left"))
    window, over = unskew.window(df, name, slots=SLOTS, planner="keel")
    assert window.select(F.count("id").over(over).alias("n")).where("n > 200").count() == 250


@pytest.mark.parametrize("name", VARIABLES)
def test_a_name_that_spark_would_replace(spark: SparkSession, name: str) -> None:
    df = rows(spark, name)
    assert names_in_text(df, [name, "aab"]) == {"aab"}
    check(df, name)


@pytest.mark.parametrize("name", PATTERNS)
def test_a_name_that_spark_would_take_for_a_pattern(spark: SparkSession, name: str) -> None:
    df = rows(spark, name)
    assert names_in_text(df, [name]) == {name}
    with setting(spark, parser_quotedRegexColumnNames="true"):
        assert names_in_text(df, [name, "aab"]) == {"aab"}
        check(df, name)


def test_null_keys_are_spread_whatever_the_other_columns_are_called(spark: SparkSession) -> None:
    df = rows(spark, "${key}").select("id", F.expr("if(id > 9, null, 'b') as k"), "`${key}`")
    shuffled = df.repartition(3)  # in an order that may change, so that rows are dealt by what they hold
    other = spark.createDataFrame([("a", 1)], "k string, w int")
    with setting(spark, autoBroadcastJoinThreshold="-1"):
        joined = unskew.join(shuffled, other, "k", "left", slots=SLOTS, planner="keel")
        assert len(exchanges(joined)) == 3
        assert joined.count() == 500


def test_a_weight_of_any_name(spark: SparkSession) -> None:
    df = rows(spark, "k").withColumn("${w}", F.lit(2.0))
    assert unskew.measure(df, "k", weight="${w}").total == 1000
    small = spark.createDataFrame([("hot", 1)], "k string, v int")
    with setting(spark, autoBroadcastJoinThreshold="-1"):
        joined = unskew.join(df, small, "k", slots=SLOTS, planner="keel", weight="${w}")
        assert joined.count() == 250
