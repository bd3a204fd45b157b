"""Chained operators: `groupBy(…).thenBy(…)` against two groupings by plain Spark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import unskew
from tests.cases import mostly_thorough
from tests.spark.frames import FEW_KEYS, KEYS, QUICK_KEYS, Frames, assert_same, exchanges, setting
from unskew.core.chains.pairs import PairHistogram
from unskew.core.chains.tables import local_shares

pytestmark = pytest.mark.connect

RANKED = "region string, tag string, v long, rank long"
SUMMED = "tag string, n long, total long"
OURS = "shufflepartitionidpassthrough"


def ranks() -> Callable[[pd.DataFrame], pd.DataFrame]:
    def rank(rows: pd.DataFrame) -> pd.DataFrame:
        rows = rows.sort_values(["v", "tag"])
        return rows.assign(rank=np.arange(len(rows)))

    return rank


def sums() -> Callable[[pd.DataFrame], pd.DataFrame]:
    def total(rows: pd.DataFrame) -> pd.DataFrame:
        first = rows["tag"].iloc[0]
        return pd.DataFrame(
            {"tag": [first], "n": [len(rows)], "total": [int((rows["v"] * rows["rank"]).sum())]}
        )

    return total


def posts(rows: int = 4000, together: float = 0.9, seed: int = 0) -> pa.Table:
    """Posts of 40 regions with 80 tags; a region has two tags of its own, which most of its posts have."""
    random = np.random.default_rng(seed)
    region = random.zipf(1.3, rows) % 40
    own = 2 * region + random.integers(0, 2, rows)
    tag = np.where(random.random(rows) < together, own, random.integers(0, 80, rows))
    names = {"region": [f"r{r}" for r in region], "tag": [f"t{t}" for t in tag]}
    return pa.table({**names, "v": np.arange(rows)})


@pytest.fixture(scope="module")
def df(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(posts())


def test_the_same_rows_as_two_plain_groupings(df: DataFrame) -> None:
    plain = df.groupBy("region").applyInPandas(ranks(), RANKED).groupBy("tag").applyInPandas(sums(), SUMMED)
    chain = unskew.groupBy(df, "region", slots=4).thenBy("tag")
    assert_same(chain.applyInPandas(ranks(), RANKED).applyInPandas(sums(), SUMMED), plain)


def test_the_last_operator_has_all_methods_of_a_grouping(df: DataFrame) -> None:
    ours = unskew.groupBy(df, "region", slots=4).thenBy("tag").applyInPandas(ranks(), RANKED)
    plain = df.groupBy("region").applyInPandas(ranks(), RANKED).groupBy("tag")
    assert_same(ours.agg(F.collect_set("region")), plain.agg(F.collect_set("region")))
    assert_same(ours.count(), plain.count())


def test_three_operators(df: DataFrame) -> None:
    wide = df.withColumn("parity", F.col("v") % 7)
    schema = wide.schema
    plain = (
        wide.groupBy("region")
        .applyInArrow(lambda t: t, schema)
        .groupBy("tag")
        .applyInArrow(lambda t: t, schema)
    )
    chain = unskew.groupBy(wide, "region", slots=4).thenBy("tag").thenBy("parity")
    assert len(chain.plan.tables) == 3
    ours = chain.applyInArrow(lambda t: t, schema).applyInArrow(lambda t: t, schema)
    assert_same(ours.count(), plain.groupBy("parity").count())


@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_one_shuffle_each(df: DataFrame, adaptive: str) -> None:
    with setting(df.sparkSession, adaptive_enabled=adaptive):
        chain = unskew.groupBy(df, "region", slots=4).thenBy("tag")
        result = chain.applyInPandas(ranks(), RANKED).applyInPandas(sums(), SUMMED)
        assert exchanges(result) == [OURS, OURS]


@pytest.mark.parametrize("kind", mostly_thorough(FEW_KEYS, QUICK_KEYS))
def test_any_type_of_key(frames: Frames, kind: str) -> None:
    df = frames.left.select("v", *KEYS[kind])
    names = KEYS[kind]
    chain = unskew.groupBy(df, "v", slots=3).thenBy(*names).applyInArrow(lambda rows: rows, df.schema)
    assert_same(chain.count(), df.groupBy(*names).count())


def test_correlated_keys_share_a_slot(df: DataFrame) -> None:
    plan = unskew.plan_chain(df, ["region", "tag"], slots=4)
    assert plan.locality > 0.85
    assert plan.hash_locality < 0.4
    assert max(np.array(plan.imbalance) / np.array(plan.bound)) < 1.06
    rows = posts()
    all_pairs = PairHistogram.from_pairs(rows["region"].combine_chunks(), rows["tag"].combine_chunks())
    assert local_shares(plan.tables, [all_pairs]) == pytest.approx(plan.hops)


def test_rows_of_both_operators_run_where_the_plan_says(df: DataFrame) -> None:
    plan = unskew.plan_chain(df, ["region", "tag"], slots=4)
    chain = unskew.groupBy(df, "region").thenBy("tag", plan=plan)
    schema = "region string, tag string, v long, first int"
    placed = chain.applyInPandas(lambda rows: rows, "region string, tag string, v long")
    routed = placed.df.withColumn("first", F.spark_partition_id())

    def where(rows: pd.DataFrame) -> pd.DataFrame:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        return rows.assign(first=rows["first"] * 100 + context.partitionId())

    again = unskew.groupBy(routed, "tag", plan=placed.options.plan).applyInPandas(where, schema).toPandas()
    stayed = (again["first"] // 100 == again["first"] % 100).mean()
    assert stayed == pytest.approx(plan.locality)


def test_slots_are_assigned_to_machines_in_turn(df: DataFrame) -> None:
    plan = unskew.plan_chain(df, ["region", "tag"], slots=6, servers=3)
    assert [of.tolist() for of in plan.server_of_slot] == [[0, 1, 2, 0, 1, 2]] * 2
    assert plan.locality > unskew.plan_chain(df, ["region", "tag"], slots=6).locality


def test_a_sample_is_enough(spark: SparkSession) -> None:
    df = spark.createDataFrame(posts(20_000))
    whole = unskew.plan_chain(df, ["region", "tag"], slots=4, sample=None)
    part = unskew.plan_chain(df, ["region", "tag"], slots=4, sample=0.2)
    assert part.histograms[0].total == pytest.approx(20_000, rel=0.1)
    assert part.pairs[0].total == pytest.approx(20_000, rel=0.1)
    assert local_shares(part.tables, whole.pairs)[0] > 0.95 * whole.locality


def test_pairs_that_occur_once_promise_no_locality(spark: SparkSession) -> None:
    unique = spark.range(0, 400, 1, 2).select(F.col("id").alias("a"), F.col("id").alias("b"))
    plan = unskew.plan_chain(unique, ["a", "b"], slots=4, pairs=1)
    assert plan.expected == pytest.approx(1 / 4, abs=0.01)


def test_a_saved_plan_serves_another_run(df: DataFrame, tmp_path: Path) -> None:
    unskew.plan_chain(df, ["region", "tag"], slots=4).save(tmp_path / "plan")
    plan = unskew.ChainPlan.load(tmp_path / "plan")
    chain = unskew.groupBy(df.drop("tag"), "region").thenBy("tag", plan=str(tmp_path / "plan"))
    assert [t.same_routes(o) for t, o in zip(chain.plan.tables, plan.tables, strict=True)] == [True, True]
    later = unskew.plan_chain(df, ["region", "tag"], slots=4, previous=plan)
    assert later.moved == 0.0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda df: unskew.groupBy(df, "region").thenBy("tags"), "did you mean 'tag'"),
        (lambda df: unskew.groupBy(df, "region").thenBy("rank"), "unskew.plan_chain"),
        (lambda df: unskew.groupBy(df, "region", planner="kip").thenBy("tag"), "leave planner out"),
        (lambda df: unskew.groupBy(df, "region", weight="v").thenBy("tag"), "leave weight out"),
        (lambda df: unskew.groupBy(df, "region").thenBy("tag", plan=3), "not a int"),
        (lambda df: unskew.plan_chain(df, ["region"]), "two operators or more"),
        (lambda df: unskew.plan_chain(df, ["region", "tag"], slots=4, servers=3), "divides the 4 slots"),
    ],
)
def test_a_chain_that_does_not_fit_is_refused_before_a_job(
    df: DataFrame, call: Callable[[DataFrame], Any], message: str
) -> None:
    doomed = df.where(F.when(F.col("v") >= 0, F.raise_error(F.lit("a job ran"))).isNull())
    with pytest.raises(ValueError, match=message):
        call(doomed)


def test_a_plan_for_other_keys_is_refused(df: DataFrame) -> None:
    plan = unskew.plan_chain(df, ["region", "tag"], slots=4)
    with pytest.raises(ValueError, match="the plan is for string keys"):
        unskew.groupBy(df, "v").thenBy("tag", plan=plan)
    with pytest.raises(ValueError, match="tables for 2 operators"):
        unskew.groupBy(df, "region").thenBy("tag", plan=plan).thenBy("v")


def test_no_rows_at_all(df: DataFrame) -> None:
    chain = unskew.groupBy(df.limit(0), "region", slots=4).thenBy("tag")
    assert chain.applyInPandas(ranks(), RANKED).count().count() == 0
