"""What EXPLAIN tells about a DataFrame before anything runs."""

from __future__ import annotations

import sys
import threading

import pytest
from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as F

import unskew
from unskew import windows
from unskew.spark.explained import explained, parse_tree

pytestmark = pytest.mark.connect


def test_sizes_and_operators_of_a_join(spark: SparkSession) -> None:
    left = spark.range(1000).withColumn("v", F.lit(1))
    plan = explained(left.hint("merge").join(spark.range(500), "id"))
    assert plan is not None
    join = plan.physical.below(("Project",))
    assert join.name == "SortMergeJoin"
    assert [child.below(("Sort",)).name for child in join.children] == ["Exchange", "Exchange"]
    assert [node.rows for node in plan.logical.walk() if node.name == "Range"] == [1000, 500]


def test_duplicate_column_names_can_be_explained(spark: SparkSession) -> None:
    plan = explained(spark.range(5).select("id", "id"))
    assert plan is not None
    assert plan.physical.below(("Project",)).name == "Range"


def test_a_cached_table_and_a_subquery_are_one_node_of_the_tree(spark: SparkSession) -> None:
    cached = spark.range(7).where("id > 2").cache()
    cached.count()
    filtered = cached.where("id > (SELECT max(id) - 6 FROM range(9))")
    plan = explained(filtered.withColumn("n", F.count("*").over(Window.partitionBy("id"))))
    cached.unpersist()
    assert plan is not None
    names = [node.name for node in plan.physical.walk()]
    assert names[-2:] == ["Filter", "InMemoryTableScan"]
    assert [node.rows for node in plan.logical.walk()][-1] == 4


def test_what_is_cached_stays_cached(spark: SparkSession) -> None:
    cached = spark.range(0, 900, 1, 2).selectExpr("if(id % 3 > 0, 7, id) k", "id v").cache()
    cached.count()
    try:
        plan = explained(cached)
        assert plan is not None
        assert [node.name for node in plan.physical.walk()] == ["InMemoryTableScan"]
        unskew.join(cached, cached.withColumnRenamed("v", "w"), "k", slots=3, planner="split")
        unskew.groupBy(cached, "k", slots=3, planner="keel").agg(F.collect_set("v"))
        unskew.over(cached, "k", orderBy="v", slots=3, planner="keel").withColumns(n=windows.rank())
        assert cached.storageLevel.useMemory
    finally:
        cached.unpersist()


def test_a_dataframe_that_has_run_is_explained_as_before(spark: SparkSession) -> None:
    grouped = spark.range(50).groupBy((F.col("id") % 3).alias("k")).count()
    grouped.collect()
    plan = explained(grouped)
    assert plan is not None
    assert [node.name for node in plan.physical.walk()].count("Exchange") == 1


def test_nothing_is_printed_and_what_other_threads_print_is_not_lost(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    stdout, explaining = sys.stdout, threading.Event()

    def print_until_done() -> None:
        while not explaining.wait(0.0005):
            sys.stdout.write("other\n")
            printed.append("other")

    printed: list[str] = []
    other = threading.Thread(target=print_until_done)
    other.start()
    df = spark.range(5)
    plans = [explained(df) for _ in range(20)]
    explaining.set()
    other.join()
    assert None not in plans
    assert sys.stdout is stdout
    assert capsys.readouterr().out.splitlines() == printed


def test_a_literal_cannot_forge_a_line(spark: SparkSession) -> None:
    forged = F.lit("x\n+- Exchange hashpartitioning(id#0, 4)")
    assert explained(spark.range(5).select("id", F.concat(forged, F.col("id")))) is None


def test_text_that_is_not_one_tree_is_refused() -> None:
    assert parse_tree("Project a\nProject b") is None
    assert parse_tree("Join\n:- Range\n:- Range\n+- Range\n+- Range") is None
    assert parse_tree("") is None
