"""Calls as users write them, for a type checker only: `test_typing` runs mypy on this file."""

from __future__ import annotations

import pandas as pd
from pyspark.sql import DataFrame, WindowSpec
from typing_extensions import assert_type

import unskew


def keys_are_taken_one_way(df: DataFrame) -> None:
    """One name, several names, or one list."""
    assert_type(unskew.groupBy(df, "a"), unskew.Grouped)
    assert_type(unskew.groupBy(df, "a", "b", slots=4), unskew.Grouped)
    assert_type(unskew.groupBy(df, ["a", "b"]), unskew.Grouped)
    assert_type(unskew.groupBy(df, key="a"), unskew.Grouped)
    assert_type(unskew.window(df, "a", "b"), tuple[DataFrame, WindowSpec])
    assert_type(unskew.window(df, ["a", "b"]), tuple[DataFrame, WindowSpec])
    assert_type(unskew.over(df, "a", orderBy=["b", "c"]), unskew.Over)
    total = unskew.windows.sum("c").rowsBetween(-6, 0)
    assert_type(unskew.over(df, ["a", "b"], "c").withColumns(total=total), DataFrame)
    assert_type(unskew.latest(df, "a", orderBy="b"), DataFrame)
    assert_type(unskew.repartition(df, "a", "b", rows_per_file=10), DataFrame)
    assert_type(unskew.measure(df, "a", "b"), unskew.Histogram)
    assert_type(unskew.measure(df, ["a", "b"], sample=None), unskew.Histogram)
    assert_type(unskew.observe(df, "a", "b"), unskew.Observed)
    assert_type(unskew.observe(df, ("a", "b")).histogram, unskew.Histogram)
    assert_type(unskew.diagnose(df, "a", "b", then=["c"]), unskew.Diagnosis)
    with unskew.attach(df.sparkSession, every=1) as hints:
        assert_type(hints.findings, tuple[unskew.Finding, ...])
    assert_type(unskew.samples.flights(df.sparkSession), DataFrame)
    assert_type(unskew.join(df, df, on=["a", "b"]), DataFrame)
    assert_type(unskew.plan_chain(df, ["a", ["b", "c"]]), unskew.ChainPlan)


def grouped_rows(df: DataFrame) -> None:
    """The README's first call to its end, and a cogroup."""

    def score(rows: pd.DataFrame) -> pd.DataFrame:
        return rows

    unskew.groupBy(df, "user").applyInPandas(score, "user string").write.parquet("/data/scores")
    both = unskew.groupBy(df, "user").cogroup(unskew.groupBy(df, "id"))
    assert_type(both, unskew.Cogrouped)
    assert_type(both.applyInPandas(lambda left, right: left, "user string"), DataFrame)
    plan = unskew.groupBy(df, "user").plan
    assert_type(plan, unskew.Plan | None)
    assert plan is not None
    assert_type(plan.migration, unskew.Migration | None)


def chained_operators(df: DataFrame) -> None:
    """Each call returns the groups of the next operator, the last one a DataFrame."""

    def rank(rows: pd.DataFrame) -> pd.DataFrame:
        return rows

    two = unskew.groupBy(df, "region").thenBy("hashtag")
    assert_type(two.plan, unskew.ChainPlan)
    assert_type(two.plan.pairs, tuple[unskew.PairHistogram, ...])
    assert_type(two.applyInPandas(rank, "…"), unskew.Grouped)
    two.applyInPandas(rank, "…").applyInPandas(rank, "…").write.parquet("/data/totals")
    three = two.thenBy(["day", "hour"])
    assert_type(three.applyInArrow(rank, "…"), unskew.PlannedChain[unskew.Grouped])
    three.applyInArrow(rank, "…").applyInArrow(rank, "…").count().write.parquet("/data/totals")


def shuffle_metrics(metrics: unskew.ShuffleMetrics) -> None:
    """What the metrics return."""
    assert_type(metrics.read(), unskew.ShuffleRead | None)


SAMPLES: list[unskew.Sample] = ["auto", None, 0.1, 10_000]
KEYS: list[unskew.Key] = ["a", ["a", "b"], ("a", "b")]


def saved_plans(df: DataFrame) -> None:
    """What `load` returns can be used without a cast."""
    plan = unskew.load("user.plan")
    assert_type(plan, unskew.Plan | unskew.ChainPlan)
    unskew.groupBy(df, "user", plan=plan).count()
    unskew.plan(unskew.measure(df, "user"), slots=4, previous=plan).save("user.plan")
    unskew.groupBy(df, "region").thenBy("hashtag", plan=plan)


def streams(df: DataFrame) -> None:
    """From the records to the running query."""
    stream = unskew.stream(df, key="user").aggregate(n=unskew.count(), total=unskew.sum("amount"))
    assert_type(stream, unskew.StatefulStream)
    query = stream.start("console", checkpoint="/data/checkpoint", slots=8, policy=unskew.Policy(horizon=5))
    assert_type(query, unskew.LiveQuery)
    assert_type(query.isActive, bool)
