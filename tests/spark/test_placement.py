"""Rows that were placed by a plan are not shuffled again by an operator on the same key."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

import unskew
from tests.spark.frames import Frames, assert_same, exchanges, physical_plan, setting

pytestmark = pytest.mark.connect

SLOT = "shufflepartitionidpassthrough"


@pytest.fixture
def numbered(frames: Frames) -> tuple[DataFrame, DataFrame]:
    """The rows with a window function, under a plan and by plain Spark."""
    rows, by_key = unskew.window(frames.left, "string", plan=frames.plans["string"])
    routed = rows.select("string", "v", F.row_number().over(by_key.orderBy("v")).alias("n"))
    plain_window = Window.partitionBy("string").orderBy("v")
    plain = frames.left.select("string", "v", F.row_number().over(plain_window).alias("n"))
    return routed, plain


def totals(rows: Any) -> Any:
    return rows.groupby("string", dropna=False, as_index=False)["n"].sum()


def test_a_window_then_an_aggregate(numbered: tuple[DataFrame, DataFrame]) -> None:
    routed, plain = numbered
    for function in (F.collect_set("n"), F.max("n")):
        result = unskew.groupBy(routed, "string").agg(function.alias("x"))
        assert exchanges(result) == [SLOT]
        assert_same(
            result.select("string", F.to_json(F.struct("x"))),
            plain.groupBy("string").agg(function.alias("x")).select("string", F.to_json(F.struct("x"))),
        )
    assert exchanges(unskew.groupBy(routed, "string").count()) == [SLOT]


def test_a_window_then_a_function(numbered: tuple[DataFrame, DataFrame]) -> None:
    routed, plain = numbered
    result = unskew.groupBy(routed, "string").applyInPandas(totals, "string string, n long")
    assert exchanges(result) == [SLOT]
    assert_same(result, plain.groupBy("string").applyInPandas(totals, "string string, n long"))


def test_two_windows_over_one_key_shuffle_once(numbered: tuple[DataFrame, DataFrame]) -> None:
    routed, plain = numbered
    again, by_key = unskew.window(routed, "string")
    assert again is routed
    result = again.withColumn("m", F.max("n").over(by_key))
    assert exchanges(result) == [SLOT]
    assert_same(result, plain.withColumn("m", F.max("n").over(Window.partitionBy("string"))))


def test_two_functions_in_one_select_sort_once(frames: Frames) -> None:
    rows, by_key = unskew.window(frames.left, "string", plan=frames.plans["string"])
    ordered = by_key.orderBy("v")
    both = rows.select(F.row_number().over(ordered).alias("n"), F.sum("v").over(ordered).alias("s"))
    assert physical_plan(both).count("Sort [") == 1


def test_the_plan_that_was_asked_for_is_the_one_that_counts(
    frames: Frames, numbered: tuple[DataFrame, DataFrame]
) -> None:
    routed, plain = numbered
    same = unskew.groupBy(routed, "string", plan=frames.plans["string"]).agg(F.collect_set("n"))
    assert exchanges(same) == [SLOT]
    other = unskew.plan(frames.measured["string"], slots=2)
    moved = unskew.groupBy(routed, "string", plan=other).agg(F.max("n"))
    assert exchanges(moved) == [SLOT, SLOT]
    assert_same(moved, plain.groupBy("string").agg(F.max("n")))


def test_another_key_is_shuffled(numbered: tuple[DataFrame, DataFrame]) -> None:
    routed, plain = numbered
    result = unskew.groupBy(routed, "n").agg(F.sum("v"))
    assert len(exchanges(result)) == 2
    assert_same(result, plain.groupBy("n").agg(F.sum("v")))


@pytest.fixture
def joined(frames: Frames) -> Iterator[tuple[DataFrame, DataFrame]]:
    """A join under a plan, and by plain Spark."""
    left, right = frames.left.select("string", "v"), frames.right.select("string", F.lit(1).alias("w"))
    with setting(left.sparkSession, autoBroadcastJoinThreshold="-1"):
        yield (
            unskew.join(left, right, "string", plan=frames.plans["string"]),
            left.join(right, "string"),
        )


def test_a_join_then_an_aggregate_or_a_function(joined: tuple[DataFrame, DataFrame]) -> None:
    routed, plain = joined
    assert exchanges(routed) == [SLOT, SLOT]
    for ours in (unskew.groupBy(routed, "string").count(), unskew.groupBy(routed, "string").agg(F.max("v"))):
        assert exchanges(ours) == [SLOT, SLOT]
    assert_same(unskew.groupBy(routed, "string").agg(F.max("v")), plain.groupBy("string").agg(F.max("v")))

    def sums(rows: Any) -> Any:
        assert list(rows.columns) == ["string", "v", "w"]
        return rows.groupby("string", dropna=False, as_index=False)[["v", "w"]].sum()

    result = unskew.groupBy(routed, "string").applyInPandas(sums, "string string, v long, w long")
    assert exchanges(result) == [SLOT, SLOT]
    assert_same(result, plain.groupBy("string").applyInPandas(sums, "string string, v long, w long"))


def test_a_join_then_an_aggregate_of_its_own_columns(joined: tuple[DataFrame, DataFrame]) -> None:
    """A column may be bound to the result of the join, which Connect does not find in the rows with their slots."""
    routed, plain = joined
    assert_same(
        unskew.groupBy(routed, "string").agg(F.max(routed.v), F.max(routed["w"])),
        plain.groupBy("string").agg(F.max(plain.v), F.max(plain["w"])),
    )


def test_a_join_then_another_key_or_plan_is_shuffled(
    frames: Frames, joined: tuple[DataFrame, DataFrame]
) -> None:
    routed, plain = joined
    other = unskew.plan(frames.measured["string"], slots=2)
    for ours, theirs in (
        (unskew.groupBy(routed, "v"), plain.groupBy("v")),
        (unskew.groupBy(routed, "string", plan=other), plain.groupBy("string")),
        (unskew.groupBy(routed.where("v > 3"), "string"), plain.where("v > 3").groupBy("string")),
    ):
        result = ours.agg(F.max("w"))
        assert len(exchanges(result)) == 3
        assert_same(result, theirs.agg(F.max("w")))


def test_a_cached_join_is_read_from_its_cache(joined: tuple[DataFrame, DataFrame]) -> None:
    routed, plain = joined
    routed.cache()
    try:
        result = unskew.groupBy(routed, "string").agg(F.max("v"))
        assert "InMemoryTableScan" in physical_plan(result)
        assert_same(result, plain.groupBy("string").agg(F.max("v")))
    finally:
        routed.unpersist()


def test_null_keys_that_a_join_has_spread_are_still_one_group(spark: SparkSession) -> None:
    left = spark.range(400).selectExpr("if(id % 2 = 0, null, id % 5) k", "id v")
    right = spark.range(3).selectExpr("id k", "id w")
    with setting(spark, autoBroadcastJoinThreshold="-1"):
        routed = unskew.join(left, right, "k", "left", planner="keel", slots=4)
        assert_same(unskew.groupBy(routed, "k").count(), left.join(right, "k", "left").groupBy("k").count())
