"""Every form of `on` and every join type, routed by force, against plain Spark; and when a join is left to Spark."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import unskew
from tests.spark.frames import assert_same, exchanges, physical_plan, rows_of, setting
from unskew.spark import join_worth, worth

pytestmark = pytest.mark.connect

REMOTE = bool(os.environ.get("UNSKEW_TEST_REMOTE"))
OURS = "shufflepartitionidpassthrough"
HOWS: list[str | None] = [None, "inner", "cross", "left", "RIGHT_outer", "full", "leftsemi", "left_anti"]
FORCED: dict[str, Any] = {"slots": 3, "planner": "keel", "buckets": 64}


@pytest.fixture(autouse=True)
def shuffled(spark: SparkSession) -> Iterator[None]:
    """Both sides are so small that Spark would broadcast one of them instead of shuffling."""
    with setting(spark, autoBroadcastJoinThreshold="-1"):
        yield


@pytest.fixture(scope="module")
def left(spark: SparkSession) -> DataFrame:
    """Nulls, duplicates, keys that the other side lacks."""
    key = F.when(F.col("id") % 5 > 0, F.col("id") % 7)
    return spark.range(0, 60, 1, 3).select(
        key.cast("int").alias("k"),
        key.cast("string").alias("s"),
        key.cast("double").alias("d"),
        F.col("id").alias("v"),
    )


@pytest.fixture(scope="module")
def right(spark: SparkSession) -> DataFrame:
    key = F.when(F.col("id") % 4 > 0, F.col("id") % 9)
    return spark.range(0, 20, 1, 2).select(
        F.col("id").alias("w"), key.alias("k"), key.cast("string").alias("s"), key.cast("double").alias("d")
    )


FORMS: dict[str, Callable[[DataFrame, DataFrame], Any]] = {
    "a name": lambda a, b: "s",
    "names, one to be cast": lambda a, b: ["s", "k"],
    "a condition, int against long": lambda a, b: a.k == b.k,
    "a list of conditions": lambda a, b: [a.s == b.s, b.d == a.d],
    "a further condition": lambda a, b: (a.k == b.k) & (a.v > b.w),
    "null-safe": lambda a, b: a.s.eqNullSafe(b.s),
    "null-safe, cast, and a plain one": lambda a, b: a.k.eqNullSafe(b.k) & (a.s == b.s),
    "columns of other names": lambda a, b: a.v == b.k,
    "one column twice": lambda a, b: (a.k == b.k) & (a.k == b.w),
}
FULLY_TRIED = ("a name", "a further condition", "null-safe")
FORMS_AND_HOWS = [
    (form, how)
    for form in FORMS
    for how in HOWS
    if form in FULLY_TRIED or how in (None, "full", "leftsemi", "left_anti")
]
NOT_ROUTED: dict[str, Callable[[DataFrame, DataFrame], Any]] = {
    "an expression": lambda a, b: F.lower(a.s) == b.s,
    "no equality": lambda a, b: a.v > b.w,
    "either": lambda a, b: (a.k == b.k) | (a.s == b.s),
    "nothing": lambda a, b: None,
}


def same(ours: DataFrame, plain: DataFrame) -> None:
    """The same schema and rows, of which columns may share a name."""
    assert ours.schema == plain.schema
    names = [f"c{i}" for i in range(len(plain.columns))]
    assert rows_of(ours.toDF(*names)) == rows_of(plain.toDF(*names))


@pytest.mark.connect(every_value=True)
@pytest.mark.parametrize(("form", "how"), FORMS_AND_HOWS)
def test_every_form_is_routed_and_equals_plain_spark(
    left: DataFrame, right: DataFrame, form: str, how: str | None
) -> None:
    on = FORMS[form](left, right)
    ours = unskew.join(left, right, on, how, **FORCED)
    assert exchanges(ours) == [OURS, OURS]
    same(ours, left.join(right, on, how))


@pytest.mark.parametrize("form", NOT_ROUTED)
def test_a_join_without_keys_that_can_be_read_is_plain(left: DataFrame, right: DataFrame, form: str) -> None:
    on = NOT_ROUTED[form](left, right)
    ours = unskew.join(left, right, on, "left", **FORCED)
    assert OURS not in physical_plan(ours)
    same(ours, left.join(right, on, "left"))


@pytest.mark.parametrize("how", ["inner", "full", pytest.param("leftsemi", marks=pytest.mark.thorough)])
def test_a_table_with_itself(left: DataFrame, how: str) -> None:
    part = left.where("v < 40")
    aliased = left.alias("l"), part.alias("r")
    for a, b, on in [
        (left, part, left.k == part.k),
        (left, left, "s"),
        (left, left, left.k == left.k),
        (*aliased, F.col("l.k") == F.col("r.k")),
        (*aliased, F.col("l.k") == F.col("r.v")),
    ]:
        try:
            plain = a.join(b, on, how)
            _ = plain.schema
        except AnalysisException:  # Connect: one column of one DataFrame on both sides
            continue
        ours = unskew.join(a, b, on, how, **FORCED)
        # a column that Connect cannot find below a repartition leaves the join to Spark
        assert REMOTE or exchanges(ours) == [OURS, OURS]
        same(ours, plain)


def test_columns_of_a_side_can_be_used_on_the_result(left: DataFrame, right: DataFrame) -> None:
    for on in (left.k == right.k, "s"):
        for how in ("inner", "left"):
            ours, plain = unskew.join(left, right, on, how, **FORCED), left.join(right, on, how)
            same(
                ours.select(right.k, left.k, left.s, right.w), plain.select(right.k, left.k, left.s, right.w)
            )


@pytest.mark.classic
@pytest.mark.parametrize(
    "name",
    ["a#1", "k#1 AS x", "a]", "a, b", "line\nbreak", "o'clock", "a.b", "${env:HOME}", "${spark.master}"],
)
def test_odd_names_give_the_plain_result(left: DataFrame, right: DataFrame, name: str) -> None:
    a, b = left.withColumnRenamed("k", name), right.withColumnRenamed("k", name)
    quoted = f"`{name}`"
    on = a[quoted] == b[quoted]
    same(unskew.join(a, b, on, "left", **FORCED), a.join(b, on, "left"))
    same(unskew.join(a, b, [name], "left", **FORCED), a.join(b, [name], "left"))


@pytest.mark.classic
def test_a_wide_table(left: DataFrame, right: DataFrame) -> None:
    """Spark's plans leave out columns beyond the 25th."""
    wide = left.select("*", *(F.lit(i).alias(f"x{i}") for i in range(60)))
    on = wide.k == right.k
    ours = unskew.join(wide, right, on, **FORCED)
    assert exchanges(ours) == [OURS, OURS]
    same(ours, wide.join(right, on))


@pytest.mark.classic
def test_a_weight_on_one_side_only(left: DataFrame, right: DataFrame) -> None:
    for weight in ("v", "w"):
        same(unskew.join(left, right, "s", weight=weight, **FORCED), left.join(right, "s"))


def test_what_spark_broadcasts_is_left_to_it(spark: SparkSession, left: DataFrame, right: DataFrame) -> None:
    hinted = F.broadcast(right)
    for options in ({}, FORCED):
        assert plan_text(unskew.join(left, hinted, "s", **options)) == plan_text(left.join(hinted, "s"))
    with setting(spark, autoBroadcastJoinThreshold="10MB"):
        assert plan_text(unskew.join(left, right, "s")) == plan_text(left.join(right, "s"))
        forced = unskew.join(left, right, "s", **FORCED)
        assert exchanges(forced) == [OURS, OURS]
        same(forced, left.join(right, "s"))


def test_a_join_left_to_spark_starts_no_job(spark: SparkSession, left: DataFrame, right: DataFrame) -> None:
    fails = left.where(F.when(F.col("v") >= 0, F.raise_error(F.lit("a job ran"))).isNull())
    ours = unskew.join(fails, right, fails.k == right.k, "left")
    assert plan_text(ours) == plan_text(fails.join(right, fails.k == right.k, "left"))


def test_partitioned_input_is_not_shuffled_again(
    spark: SparkSession, left: DataFrame, right: DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worth, "SHORTEST", 0.0)
    with setting(spark, shuffle_partitions="4"):
        partitioned = left.repartition(4, "s")
        ours = unskew.join(partitioned, right, "s", sample=None)
        assert plan_text(ours) == plan_text(partitioned.join(right, "s"))


def plan_text(df: DataFrame) -> str:
    """The physical plan without the numbers that Spark counts up."""
    return re.sub(r"#\d+L?|plan_id=\d+", "", physical_plan(df))


@pytest.mark.classic
@pytest.mark.parametrize("cores", [2, 16])
def test_auto_routes_where_it_pays_on_the_cores_there_are(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, cores: int
) -> None:
    monkeypatch.setattr(worth, "SHORTEST", 0.0)
    monkeypatch.setattr("unskew.spark.join_planning.cores_of", lambda spark: cores)
    keys = F.when(F.col("id") % 2 == 0, F.col("id") % 8).otherwise(F.col("id")).cast("string")
    a = spark.range(0, 8000, 1, 4).select(keys.alias("k"), F.col("id").alias("v"))
    b = spark.range(0, 100, 1, 2).select(F.col("id").cast("string").alias("k"))
    # so little data would all be merged into one task
    with setting(spark, shuffle_partitions="16", adaptive_coalescePartitions_enabled="false"):
        ours = unskew.join(a, b, a.k == b.k, "left", slots=16)
    assert (OURS in physical_plan(ours)) == (cores == 16)


@pytest.mark.classic
def test_auto_leaves_skew_to_aqe_where_aqe_splits_it(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worth, "SHORTEST", 0.0)
    monkeypatch.setattr(join_worth, "ROUTED_COST", 0.5)
    a = spark.range(0, 4000, 1, 4).select(F.expr("if(id % 2 = 0, 'hot', string(id))").alias("k"))
    small = spark.range(0, 50, 1, 2).select(F.col("id").cast("string").alias("k"))
    for how, routed in (("inner", False), ("left", False), ("right", True), ("full", True)):
        with setting(spark, adaptive_skewJoin_skewedPartitionThresholdInBytes="1KB", shuffle_partitions="64"):
            assert (OURS in physical_plan(unskew.join(a, small, "k", how))) == routed, how


@pytest.mark.classic
@pytest.mark.parametrize("behind_a_shuffle", [False, True])
@pytest.mark.parametrize("kind", ["equal", "nested"])
def test_null_keys_are_spread_whatever_the_rows_hold(
    spark: SparkSession, kind: str, behind_a_shuffle: bool
) -> None:
    slots = 4
    other = F.lit(1) if kind == "equal" else F.array(F.struct(F.create_map(F.lit("a"), F.lit("b"))))
    rows = spark.range(0, 20_000, 1, 2 * slots).select(
        F.expr("if(id % 10 = 0, id % 50, null)").alias("k"), other.alias("o")
    )
    if behind_a_shuffle:
        rows = rows.repartition(2 * slots)
    small = spark.range(0, 50, 1, 2).select(F.col("id").alias("k"))
    joined = unskew.join(rows, small, "k", "left", slots=slots, planner="keel", buckets=64)
    sizes = np.bincount(joined.select(F.spark_partition_id().alias("at")).toArrow()["at"].to_numpy())
    assert sizes.sum() == 20_000
    assert len(sizes) == slots
    assert sizes.max() <= (2.0 if behind_a_shuffle else 1.1) * sizes.mean()


@pytest.mark.classic
@pytest.mark.parametrize("how", ["inner", "right"])
def test_rows_that_a_condition_excludes_are_not_cast(spark: SparkSession, how: str) -> None:
    texts = spark.createDataFrame(
        [("1", "num", 1), ("abc", "text", 2), ("2", "num", 3)], "k string, kind string, v int"
    )
    numbers = spark.createDataFrame([(None, 10), (1, 20), (3, 30)], "k int, w int")
    condition = (texts.kind == "num") & (texts.k == numbers.k)
    with setting(spark, autoBroadcastJoinThreshold="-1"):
        ours = unskew.join(texts, numbers, condition, how, planner="keel", slots=3)
        assert_same(ours, texts.join(numbers, condition, how))


@pytest.mark.classic
def test_without_ansi_a_text_is_cast_as_plain_spark_does(spark: SparkSession) -> None:
    texts = spark.createDataFrame([("1.5", 1), ("abc", 2), ("2", 3)], "k string, v int")
    numbers = spark.createDataFrame([(1, 20), (2, 30)], "k int, w int")
    with setting(spark, autoBroadcastJoinThreshold="-1", ansi_enabled="false"):
        ours = unskew.join(texts, numbers, texts.k == numbers.k, planner="keel", slots=3)
        assert_same(ours, texts.join(numbers, texts.k == numbers.k))


@pytest.mark.classic
@pytest.mark.parametrize("how", ["inner", "full"])
def test_char_keys_of_different_lengths_match_as_in_plain_spark(
    spark: SparkSession, tmp_path: Path, how: str
) -> None:
    """Spark pads the shorter key before it compares the two, so equal keys have different hashes as they are read."""
    for name, length in (("short", 3), ("long", 5)):
        spark.sql(
            f"CREATE TABLE {name} (k CHAR({length}), {name} INT) USING parquet LOCATION '{tmp_path / name}'"
        )
        spark.sql(f"INSERT INTO {name} SELECT id % 4, id FROM range({7 * length})")
    try:
        short, long = spark.table("short"), spark.table("long")
        assert short.join(long, "k").count() > 100
        for forced in (FORCED, {"slots": 3, "planner": "split", "most_copied": 5.0}):
            assert_same(unskew.join(short, long, "k", how, **forced), short.join(long, "k", how))
    finally:
        spark.sql("DROP TABLE short")
        spark.sql("DROP TABLE long")
