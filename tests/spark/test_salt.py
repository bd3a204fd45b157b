"""`unskew.salt`: Spark's own operators place the hot keys of a plan, and answer as they do without it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import unskew
from tests.cases import mostly_thorough
from tests.spark.frames import (
    KEYS,
    QUICK_KEYS,
    Frames,
    assert_same,
    exchanges,
    physical_plan,
    rows_of,
    setting,
)
from unskew.core.plan import Plan

SLOTS = 4  # the shuffle partitions of the test session


@pytest.fixture(autouse=True)
def partitions_stay_apart(spark: SparkSession) -> Iterator[None]:
    """Spark neither merges small partitions nor broadcasts small inputs: their numbers are looked at."""
    off = {"adaptive.coalescePartitions.enabled": "false", "autoBroadcastJoinThreshold": "-1"}
    with setting(spark, **off):
        yield


def events(spark: SparkSession, rows: int = 1200, value: str = "v") -> DataFrame:
    """Of every 8 rows two have each of three hot keys; the others have 50 keys."""
    number = F.col("id")
    hot = F.when(number % 8 < 6, F.concat(F.lit("hot"), number % 3))
    return spark.range(rows).select(
        F.coalesce(hot, F.concat(F.lit("k"), number % 50)).alias("k"), number.alias(value)
    )


def salted(plan: Plan, df: DataFrame) -> DataFrame:
    return df.withColumn("salt", unskew.salt(plan, df))


@pytest.fixture(scope="module")
def plan(spark: SparkSession) -> Plan:
    """Every hot key on a slot to which Spark's hash of the key alone does not send it."""
    hashed = events(spark).select("k", F.pmod(F.hash("k"), F.lit(SLOTS)).alias("at")).distinct().collect()
    elsewhere = {row["k"]: (row["at"] + 1) % SLOTS for row in hashed if row["k"].startswith("hot")}
    histogram = unskew.measure(events(spark), "k", buckets=64)
    table = unskew.RoutingTable.build(
        SLOTS, [bucket % SLOTS for bucket in range(64)], list(elsewhere), list(elsewhere.values())
    )
    return Plan(table, histogram)


def misplaced(df: DataFrame, plan: Plan) -> list[str]:
    """The hot keys that are, or were, in another partition than that of their slot."""
    if "at" not in df.columns:
        df = df.withColumn("at", F.spark_partition_id())
    rows = df.where(F.col("k").startswith("hot")).select("k", "at").distinct().collect()
    assert {row["k"] for row in rows} == set(plan.heavy)
    return [row["k"] for row in rows if row["at"] != plan.heavy[row["k"]]]


@pytest.mark.connect
def test_a_group_by_of_spark(spark: SparkSession, plan: Plan) -> None:
    df = events(spark)
    plain = df.groupBy("k").agg(F.sum("v").alias("s"))
    result = salted(plan, df).groupBy("k", "salt").agg(F.sum("v").alias("s"))
    assert set(misplaced(plain, plan)) == set(plan.heavy)
    assert misplaced(result, plan) == []
    assert exchanges(result) == exchanges(plain)
    assert_same(result.drop("salt"), plain)


@pytest.mark.parametrize("how", ["inner", "left", "full", "left_anti"])
def test_a_join_of_spark(spark: SparkSession, plan: Plan, how: str) -> None:
    left, right = events(spark), events(spark, 90, "w").where("k != 'k4'")
    plain = left.join(right, ["k"], how)
    result = salted(plan, left).join(salted(plan, right), ["k", "salt"], how)
    if how != "left_anti":
        assert misplaced(result, plan) == []
    assert exchanges(result) == exchanges(plain)
    assert_same(result.drop("salt"), plain)


def test_the_sides_of_a_join_are_not_filtered_by_the_salt(spark: SparkSession, plan: Plan) -> None:
    """Spark knows that the salt is never null, so that it need not be looked up twice."""
    left, right = events(spark), events(spark, 90, "w")
    assert not salted(plan, left).schema["salt"].nullable
    text = physical_plan(salted(plan, left).join(salted(plan, right), ["k", "salt"]))
    assert [line for line in text.splitlines() if "Filter" in line and "least" in line] == []
    assert len(text) < 6000


def test_drop_duplicates_of_spark(spark: SparkSession, plan: Plan) -> None:
    df = events(spark)
    result = salted(plan, df).dropDuplicates(["k", "salt"])
    assert misplaced(result, plan) == []
    assert_same(result.select("k"), df.select("k").distinct())


def test_sql(spark: SparkSession, plan: Plan) -> None:
    df = events(spark)
    df.createOrReplaceTempView("plain_events")
    salted(plan, df).createOrReplaceTempView("salted_events")
    query = "SELECT k, sort_array(collect_list(v)) AS all FROM {} GROUP BY k{}"
    result = spark.sql(query.format("salted_events", ", salt"))
    assert misplaced(result, plan) == []
    as_text = F.to_json(F.struct("all")).alias("all")
    assert_same(result.select("k", as_text), spark.sql(query.format("plain_events", "")).select("k", as_text))


@pytest.mark.parametrize("kind", mostly_thorough(list(KEYS), QUICK_KEYS))
def test_every_kind_of_key(frames: Frames, spark: SparkSession, kind: str) -> None:
    """Nulls, NaN and -0.0 among them: each value on its slot, and the groups of plain Spark."""
    plan, names = frames.plans[kind], KEYS[kind]
    with setting(spark, **{"shuffle.partitions": str(plan.slots), "ansi.enabled": "true"}):
        slotted = plan.apply(frames.left, *names).select(*names, "v", "slot")
        heavy = unskew.salt(plan, slotted, *names)
        result = slotted.withColumn("salt", heavy).groupBy(*names, "salt")
        placed = result.agg(F.min("slot").alias("slot"), F.count("v").alias("n"))
        assert placed.where("salt != 0").where(F.spark_partition_id() != F.col("slot")).count() == 0
        assert placed.where("salt != 0").count() > 0
        plain = frames.left.groupBy(*names).agg(F.count("v").alias("n"))
        assert rows_of(placed.drop("salt", "slot")) == rows_of(plain)


def stream_of(df: DataFrame, folder: Path) -> DataFrame:
    """The rows as a stream of several files, one per batch."""
    df.repartition(3).write.parquet(str(folder))
    return df.sparkSession.readStream.schema(df.schema).option("maxFilesPerTrigger", 1).parquet(str(folder))


def emitted(stream: DataFrame) -> DataFrame:
    """What the query has emitted when it has read everything, and the partition that emitted each row as `at`."""
    name = f"rows_{uuid4().hex}"
    writer = stream.withColumn("at", F.spark_partition_id()).writeStream.format("memory").queryName(name)
    writer.outputMode("append").trigger(availableNow=True).start().awaitTermination()
    return stream.sparkSession.table(name)


def test_drop_duplicates_of_a_stream(spark: SparkSession, plan: Plan, tmp_path: Path) -> None:
    df = events(spark)
    stream = stream_of(df, tmp_path / "events")
    result = emitted(salted(plan, stream).dropDuplicates(["k", "salt"]))
    assert misplaced(result, plan) == []
    assert_same(result.select("k"), df.select("k").distinct())


def test_a_join_of_two_streams(spark: SparkSession, plan: Plan, tmp_path: Path) -> None:
    left, right = events(spark, 300), events(spark, 90, "w")
    streams = stream_of(left, tmp_path / "left"), stream_of(right, tmp_path / "right")
    result = emitted(salted(plan, streams[0]).join(salted(plan, streams[1]), ["k", "salt"]))
    assert misplaced(result, plan) == []
    assert rows_of(result.drop("salt", "at")) == rows_of(left.join(right, "k"))


def test_a_plan_without_heavy_keys_has_no_salt(spark: SparkSession) -> None:
    df = events(spark)
    plan = unskew.plan(unskew.measure(df, "k"), slots=SLOTS, planner="hash")
    assert {row["salt"] for row in salted(plan, df).collect()} == {0}


@pytest.mark.connect
def test_what_is_refused_before_any_job(spark: SparkSession, plan: Plan, doomed: DataFrame) -> None:
    keyed = doomed.withColumn("k", F.col("string"))
    refused = {
        "the plan is for 4 slots, but spark.sql.shuffle.partitions is 5": {"shuffle.partitions": "5"},
        "4 slots, but spark.sql.adaptive.coalescePartitions.initialPartitionNum is 9": {
            "adaptive.coalescePartitions.enabled": "true",
            "adaptive.coalescePartitions.initialPartitionNum": "9",
        },
    }
    for message, settings in refused.items():
        with setting(spark, **settings), pytest.raises(ValueError, match=re.escape(message)):
            unskew.salt(plan, keyed)
    with pytest.raises(ValueError, match="the plan is for string keys, but the key here is int64"):
        unskew.salt(plan, doomed, "long")
    with pytest.raises(ValueError, match="there is no column 'k'"):
        unskew.salt(plan, doomed)
    with pytest.raises(ValueError, match="a Spark DataFrame is needed"):
        unskew.salt(plan, "k")  # type: ignore[arg-type]
    with pytest.raises(
        ValueError, match=r"plan is what unskew\.plan or unskew\.load returns, not a RoutingTable"
    ):
        unskew.salt(plan.table, keyed)  # type: ignore[arg-type]
    split = Plan(
        unskew.RoutingTable.build(SLOTS, [0, 1, 2, 3], pa.array(["hot0"]), [[0, 1]]), plan.histogram, "pkg"
    )
    with pytest.raises(ValueError, match="the plan of planner 'pkg' splits keys over several slots"):
        unskew.salt(split, keyed)


@pytest.mark.since("4.0", "collations")
def test_a_collated_key_is_refused(spark: SparkSession, plan: Plan, doomed: DataFrame) -> None:
    collated = doomed.withColumn("k", F.collate("string", "UTF8_LCASE"))
    with pytest.raises(ValueError, match="has the collation UTF8_LCASE"):
        unskew.salt(plan, collated)
