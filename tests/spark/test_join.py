"""`join` against that of plain Spark, on random rows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
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

pytestmark = pytest.mark.connect

JOINS = ["inner", "left", "right_outer", "full", "left_semi", "anti"]


@pytest.fixture(autouse=True)
def shuffled(spark: SparkSession) -> Iterator[None]:
    """Both sides are so small that Spark would broadcast one of them instead of shuffling."""
    with setting(spark, autoBroadcastJoinThreshold="-1"):
        yield


def sides(frames: Frames, names: list[str]) -> tuple[DataFrame, DataFrame]:
    left = frames.left.where("v < 120").select("w", *names, "v")
    return left, frames.right.select(F.col("v").alias("u"), *reversed(names), "w")


@pytest.mark.parametrize("how", JOINS)
def test_every_join_type_with_nulls_on_both_sides(frames: Frames, how: str) -> None:
    left, right = sides(frames, ["string", "int"])
    ours = unskew.join(left, right, ["string", "int"], how, plan=frames.plans["composite"])
    assert exchanges(ours) == ["shufflepartitionidpassthrough"] * 2
    assert_same(ours, left.join(right, ["string", "int"], how))


@pytest.mark.parametrize("kind", mostly_thorough([kind for kind in KEYS if kind != "composite"], QUICK_KEYS))
def test_a_full_join_by_every_kind_of_key(frames: Frames, kind: str) -> None:
    left, right = sides(frames, KEYS[kind])
    ours = unskew.join(left, right, KEYS[kind], "full", plan=frames.plans[kind])
    assert_same(ours, left.join(right, KEYS[kind], "full"))


def test_a_join_measures_both_sides_without_nulls_but_with_nan(frames: Frames) -> None:
    left, right = sides(frames, ["double"])
    ours = unskew.join(left, right, "double", slots=3, planner="keel", buckets=64)
    assert_same(ours, left.join(right, "double"))
    assert exchanges(ours) == ["shufflepartitionidpassthrough"] * 2


def test_what_a_join_plans_for(frames: Frames, monkeypatch: pytest.MonkeyPatch) -> None:
    planned = []
    make = unskew.Plan.make.__func__
    monkeypatch.setattr(
        unskew.Plan,
        "make",
        classmethod(lambda cls, h, *rest, **more: planned.append(h) or make(cls, h, *rest, **more)),
    )
    left, right = sides(frames, ["double"])
    unskew.join(left, right, "double", slots=3, planner="keel", buckets=64)
    counts = [
        {str(key): n for key, n in df.where("double is not null").groupBy("double").count().collect()}
        for df in (left, right)
    ]
    rows = {key: [side.get(key, 0) for side in counts] for key in {*counts[0], *counts[1]}}
    expected = {key: float(n + m + n * m) for key, (n, m) in rows.items()}
    assert {str(key): n for key, n in planned[0].top(100)} == expected
    assert "nan" in expected


@pytest.mark.parametrize("name", ["__slot", "slot", "a.b", "a b", "ba`ck", "UPPER"])
def test_no_name_of_the_users_gets_in_the_way(frames: Frames, name: str) -> None:
    left, right = sides(frames, ["string"])
    left, right = left.withColumnRenamed("string", name), right.withColumnRenamed("string", name)
    left, right = left.withColumnRenamed("v", "__slot_"), right.withColumnRenamed("u", "__SLOT__")
    ours = unskew.join(left, right, name, "left", plan=frames.plans["string"])
    assert_same(ours, left.join(right, [name], "left"))


@pytest.mark.since("4.0", "variants")
def test_columns_that_share_a_name_or_cannot_be_hashed(frames: Frames) -> None:
    left, right = sides(frames, ["string"])
    left = left.select("*", "v", F.col("v").alias("V"), F.create_map("v", "w").alias("m"))
    right = right.select("*", "w", F.parse_json(F.lit("[1]")).cast("variant").alias("x")).drop("x")
    ours = unskew.join(left, right, "string", "left", plan=frames.plans["string"])
    plain = left.join(right, ["string"], "left")
    assert ours.columns == plain.columns
    distinct_names = [f"c{i}" for i in range(len(plain.columns))]
    assert_same(
        ours.toDF(*distinct_names).withColumn("c5", F.map_entries("c5")),
        plain.toDF(*distinct_names).withColumn("c5", F.map_entries("c5")),
    )


def test_a_join_by_nothing_but_a_struct(frames: Frames) -> None:
    left, right = frames.left.where("v < 50").select("struct"), frames.right.select("struct")
    ours = unskew.join(left, right, "struct", "full", plan=frames.plans["struct"])
    assert_same(ours, left.join(right, "struct", "full"))


def test_a_table_with_itself_and_columns_by_their_frame(frames: Frames) -> None:
    left, right = sides(frames, ["string"])
    ours = unskew.join(left, right, "string", plan=frames.plans["string"]).select(left["w"], right["w"], "v")
    assert_same(
        ours.toDF("a", "b", "c"),
        left.join(right, "string").select(left["w"], right["w"], "v").toDF("a", "b", "c"),
    )
    twin = left.where("v < 20")
    assert rows_of(unskew.join(twin, twin, "string", plan=frames.plans["string"])) == rows_of(
        twin.join(twin, "string")
    )


@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_slot_i_is_joined_in_partition_i(frames: Frames, adaptive: str) -> None:
    left, right = sides(frames, ["string"])
    plan = frames.plans["string"]
    with setting(
        frames.spark,
        adaptive_enabled=adaptive,
        # AQE would split and merge all partitions that it may.
        adaptive_skewJoin_skewedPartitionThresholdInBytes="1",
        adaptive_skewJoin_skewedPartitionFactor="1",
        adaptive_advisoryPartitionSizeInBytes="100",
    ):
        joined = unskew.join(left, right, "string", plan=plan)
        rows = joined.select("string", F.spark_partition_id().alias("at")).toArrow()
    assert rows["at"].to_pylist() == plan.table.slot_of(rows["string"]).tolist()
    assert len(set(rows["at"].to_pylist())) == 3


def test_rows_without_a_key_are_spread(spark: SparkSession) -> None:
    left = spark.range(0, 3000, 1, 2).select(
        F.expr("if(id < 5, id, null)").alias("k"), F.col("id").alias("v")
    )
    right = spark.range(0, 10, 1, 2).select(F.col("id").alias("k"))
    joined = unskew.join(left, right, "k", "left", slots=4, planner="keel", buckets=64)
    sizes = np.bincount(joined.select(F.spark_partition_id().alias("at")).toArrow()["at"].to_numpy())
    assert len(sizes) == 4
    assert sizes.max() < 1.2 * sizes.mean()


def test_auto_leaves_a_join_to_spark_if_hashing_is_as_good(spark: SparkSession) -> None:
    even = spark.range(0, 4000, 1, 2).select((F.col("id") % 2000).alias("k"))
    ours = unskew.join(even, even.distinct(), "k", slots=2)
    assert "shufflepartitionidpassthrough" not in physical_plan(ours)
