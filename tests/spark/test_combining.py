"""Which aggregates are left to plain Spark because it combines them before the shuffle, and which are routed."""

from __future__ import annotations

import copy
import os
import uuid
from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

import unskew
from tests.spark.frames import assert_same, exchanges, rows_of, setting
from unskew.spark.combining import combines
from unskew.spark.explained import explained


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> DataFrame:
    return spark.range(0, 400, 1, 2).selectExpr(
        "if(id < 300, 0, id % 7) k", "id v", "cast(id as double) x", "id % 2 p"
    )


COMBINING: dict[str, Callable[[], Column]] = {
    "round of a sum": lambda: F.round(F.sum("x"), 2),
    "cast of a sum": lambda: F.sum("x").cast("string"),
    "sum of an expression": lambda: F.sum(F.coalesce(F.abs("x"), F.lit(0))),
    "max of a struct": lambda: F.max(F.struct("x", "v")),
    "max_by": lambda: F.max_by("v", "x"),
    "approximate percentile": lambda: F.percentile_approx("v", 0.5),
    "sketch": lambda: F.hll_sketch_agg("v"),
    "alias with parentheses": lambda: F.sum("v").alias("collect_list(v)"),
    "distinct": lambda: F.count_distinct("v"),
}
GROWING: dict[str, Callable[[], Column]] = {
    "collect_list": lambda: F.collect_list("v"),
    "collect_set": lambda: F.size(F.collect_set("v")),
    "array_agg": lambda: F.array_agg("v"),
    "string_agg": lambda: F.string_agg(F.col("v").cast("string"), F.lit(",")),
    "percentile": lambda: F.percentile("v", 0.5),
    "median": lambda: F.median("v"),
    "mode": lambda: F.mode("v"),
    "a sum and a list": lambda: F.sum("v") + F.size(F.collect_list("v")),
}


@pytest.mark.connect
def test_what_spark_combines_is_left_to_spark(rows: DataFrame) -> None:
    for name, aggregate in COMBINING.items():
        assert combines(explained(rows.groupBy("k").agg(aggregate()))), name
    for name, aggregate in GROWING.items():
        assert not combines(explained(rows.groupBy("k").agg(aggregate()))), name


def test_a_python_aggregate_does_not_combine(rows: DataFrame) -> None:
    @F.pandas_udf("double")  # type: ignore[call-overload, untyped-decorator]
    def middle(v: pd.Series) -> float:
        return float(v.median())

    assert not combines(explained(rows.groupBy("k").agg(middle("v"))))


def test_many_combining_aggregates_are_combined_at_once(rows: DataFrame) -> None:
    ours = unskew.groupBy(rows, "k").agg(
        *(aggregate().alias(f"a{i}") for i, aggregate in enumerate(COMBINING.values()))
    )
    assert "shufflepartitionidpassthrough" not in exchanges(ours)


@pytest.mark.usefixtures("eager")
def test_a_pivot_decides_as_well(rows: DataFrame) -> None:
    grouped = unskew.groupBy(rows, "k", slots=3)
    lists = grouped.pivot("p", [0, 1]).agg(F.size(F.collect_list("v")))
    assert exchanges(lists) == ["shufflepartitionidpassthrough"]
    assert_same(lists, rows.groupBy("k").pivot("p", [0, 1]).agg(F.size(F.collect_list("v"))))
    assert_same(grouped.pivot("p", [0, 1]).sum("v"), rows.groupBy("k").pivot("p", [0, 1]).sum("v"))
    assert "shufflepartitionidpassthrough" not in exchanges(grouped.pivot("p", [0, 1]).sum("v"))


@pytest.mark.skipif(bool(os.environ.get("UNSKEW_TEST_REMOTE")), reason="Connect has no status tracker")
@pytest.mark.parametrize("column", ["p", "word", "maybe"])
def test_the_values_of_a_pivot_are_looked_up_once(spark: SparkSession, rows: DataFrame, column: str) -> None:
    """Under a plan as in plain Spark: not a second time in the rows that were shuffled for the pivot."""
    rows = rows.selectExpr("*", "concat('w', p) word", "nullif(p, 0) maybe")
    plan = unskew.plan(unskew.measure(rows, "k", sample=None), slots=3, planner="keel")
    context = spark.sparkContext

    def pivoted(groups: Any) -> tuple[DataFrame, int]:
        context.setJobGroup(group := uuid.uuid4().hex, "pivot")
        result = groups.pivot(column).agg(F.size(F.collect_list("v")))
        return result, len(context.statusTracker().getJobIdsForGroup(group))

    try:
        (ours, jobs), (plain, plain_jobs) = (
            pivoted(unskew.groupBy(rows, "k", plan=plan)),
            pivoted(rows.groupBy("k")),
        )
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)
    assert_same(ours, plain)
    assert exchanges(ours) == ["shufflepartitionidpassthrough"]
    assert jobs <= plain_jobs


def test_a_pivot_can_be_copied_and_runs_nothing_when_looked_at(rows: DataFrame) -> None:
    pivoted = unskew.groupBy(rows, "k").pivot("p")
    assert copy.copy(pivoted).pivot_col == "p"
    assert not hasattr(pivoted, "_repr_html_")


def test_rows_that_are_already_together_are_not_shuffled_again(rows: DataFrame) -> None:
    placed = rows.repartition(3, "k")
    forced: dict[str, Any] = {"slots": 3}
    same = unskew.groupBy(placed, "k", **forced)
    result = same.applyInPandas(lambda group: group, rows.schema)
    assert exchanges(result) == ["hashpartitioning"]
    assert_same(result, rows)
    lists = same.agg(F.sort_array(F.collect_list("v")))
    assert exchanges(lists) == ["hashpartitioning"]
    assert_same(lists, rows.groupBy("k").agg(F.sort_array(F.collect_list("v"))))
    frame, over = unskew.window(placed, "k", **forced)
    assert exchanges(frame.select(F.count("*").over(over).alias("n"))) == ["hashpartitioning"]


def test_groups_of_a_skewed_join_stay_whole(rows: DataFrame) -> None:
    """Spark splits the big partition of a skewed join unless an operator needs it whole."""
    small = rows.sparkSession.range(7).withColumnRenamed("id", "k")
    with setting(
        rows.sparkSession,
        autoBroadcastJoinThreshold="-1",
        adaptive_skewJoin_skewedPartitionThresholdInBytes="1b",
        adaptive_skewJoin_skewedPartitionFactor="1.0",
        adaptive_advisoryPartitionSizeInBytes="100b",
    ):
        joined = rows.join(small, "k")
        result = unskew.groupBy(joined, "k").applyInPandas(
            lambda group: pd.DataFrame({"k": group["k"].head(1), "n": [len(group)]}), "k long, n long"
        )
        assert rows_of(result) == rows_of(joined.groupBy("k").count())
        assert len(exchanges(result)) == 2


def test_where_spark_wants_all_keys_it_does_the_work(rows: DataFrame) -> None:
    with setting(rows.sparkSession, requireAllClusterKeysForDistribution="true"):
        ours = unskew.groupBy(rows, "k", planner="keel", slots=3).agg(F.collect_list("v"))
        assert exchanges(ours) == ["hashpartitioning"]


def test_every_method_of_grouped_data_is_there() -> None:
    from pyspark.sql import GroupedData

    public = {name for name in dir(GroupedData) if not name.startswith("_")}
    assert public - {"session", "df"} <= set(dir(unskew.Grouped))


def test_what_is_no_histogram_cannot_be_planned(rows: DataFrame) -> None:
    with pytest.raises(ValueError, match=r"histogram is what unskew\.measure returns, not a .*DataFrame"):
        unskew.plan(rows, 3)  # type: ignore[arg-type]


def test_an_observation_without_a_job_says_so(rows: DataFrame) -> None:
    observed = unskew.observe(rows, "k")
    with pytest.raises(ValueError, match=r"no job on the observed DataFrame has ended within 0\.1 s"):
        observed.wait(0.1)
    observed.df.count()
    assert observed.wait(60).records == 400
