"""How an operator comes to its plan: default slots, saved plans, and jobs that recur."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import unskew
from tests.spark.frames import Frames, assert_same, exchanges, rows_of, setting
from unskew.core.histogram import DEFAULT_BUCKETS
from unskew.core.loads import migration
from unskew.spark.options import Options
from unskew.spark.parallelism import default_slots

pytestmark = pytest.mark.connect


def test_the_default_slots_are_the_users_shuffle_partitions(frames: Frames) -> None:
    assert default_slots(frames.spark) == 4
    for merges, slots in (("false", 4), ("true", 2)):
        with setting(frames.spark, adaptive_coalescePartitions_enabled=merges):
            plan = unskew.groupBy(frames.left, "string", planner="keel").plan
            assert plan is not None
            assert plan.slots == slots, "little data gets fewer, if Spark merges small partitions as well"


def test_a_saved_plan_is_used_by_its_path(frames: Frames, tmp_path: Path) -> None:
    frames.plans["string"].save(tmp_path / "plan")
    grouped = unskew.groupBy(frames.left, "string", plan=str(tmp_path / "plan"))
    assert grouped.plan is not None
    assert grouped.plan.table == frames.plans["string"].table
    assert_same(grouped.count(), frames.left.groupBy("string").count())


def test_a_plan_that_hashes_is_used_if_it_is_given(frames: Frames) -> None:
    plan = unskew.plan(frames.measured["string"], slots=3, planner="hash")
    assert exchanges(unskew.groupBy(frames.left, "string", plan=plan).count()) == [
        "shufflepartitionidpassthrough"
    ]


def test_a_weight_decides_the_plan(spark: SparkSession) -> None:
    df = spark.range(0, 400, 1, 2).select(
        (F.col("id") % 4).alias("k"), F.expr("if(id % 4 = 0, 30, 1)").alias("cost")
    )
    plan = unskew.groupBy(df, "k", slots=2, planner="keel", weight="cost").plan
    assert plan is not None
    assert plan.histogram.total == 100 * 33
    slots = plan.table.slot_of([0, 1, 2, 3])
    assert (slots == slots[0]).sum() == 1
    assert plan.bound == pytest.approx(2 * 30 / 33)


def test_options_are_alike_by_value(frames: Frames, tmp_path: Path) -> None:
    frames.plans["string"].save(tmp_path / "plan")
    twice = [Options(plan=tmp_path / "plan") for _ in range(2)]
    assert twice[0].alike(twice[1])
    assert not twice[0].alike(Options(plan=frames.plans["int"]))
    assert not twice[0].alike(Options())
    assert Options(slots=3).alike(Options(slots=3))
    assert not Options(slots=3).alike(Options(slots=4))


@pytest.mark.parametrize(
    "function",
    [unskew.measure, unskew.diagnose, unskew.groupBy, unskew.join, unskew.window, unskew.plan_chain],
)
def test_defaults_agree(function: Callable[..., Any]) -> None:
    parameters = inspect.signature(function).parameters
    assert parameters["sample"].default == "auto"
    assert parameters["buckets"].default == DEFAULT_BUCKETS


def test_groups_print_in_one_line(frames: Frames) -> None:
    df, plan = frames.left, frames.plans["string"]
    by_string = unskew.groupBy(df, "string", plan=plan)
    assert repr(by_string) == f"Grouped(by string, {plan})"
    sampled = unskew.groupBy(df, "string", "int", slots=4, sample=None, weight="w")
    assert repr(sampled) == "Grouped(by string, int, planner auto, 4 slots, weight w, all records)"
    assert repr(by_string.cogroup(by_string)) == f"Cogrouped(by string and by string, {plan})"
    chain = unskew.groupBy(df, "string").thenBy("int")
    assert repr(chain) == "ChainedGroups(by string, then by int, planner auto, default slots, sample auto)"
    rest: unskew.PlannedChain[unskew.Grouped] = unskew.PlannedChain(df, (("string",), ("int",)), (plan, plan))
    assert repr(rest) == "PlannedChain(by string, then by int, 3 slots)"
    assert repr(unskew.observe(df, "string", "int")) == "Observed(by string, int, 4096 buckets)"
    assert repr(unskew.ShuffleRead(1, 3)) == "ShuffleRead(local=1, remote=3, locality=0.250)"


def a_round(spark: SparkSession, number: int) -> DataFrame:
    """A crawl round: the hosts' sizes follow a power law, and in each round two of them have grown."""
    draw = np.random.default_rng(number)
    sizes = (3000 / np.arange(9, 209)).astype(int)
    sizes[[number * 11 % 200, number * 37 % 200]] += 150
    hosts = np.repeat([f"host{i}" for i in range(200)], sizes)
    return spark.createDataFrame(
        pd.DataFrame({"host": draw.permutation(hosts), "page": np.arange(len(hosts))})
    )


@pytest.mark.classic
def test_rounds_of_a_recurring_job(spark: SparkSession, tmp_path: Path) -> None:
    """Each round runs under the plan that the round before left behind, and is measured while it runs."""

    def largest(rows: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame({"host": rows["host"][:1], "pages": [len(rows)], "last": [rows["page"].max()]})

    path = tmp_path / "hosts.plan"
    unskew.plan(unskew.measure(a_round(spark, 0), "host", buckets=256), slots=8).save(path)
    for number in range(1, 4):
        pages = a_round(spark, number)
        plan = unskew.load(path)
        observed = unskew.observe(pages, "host", buckets=256)
        result = unskew.groupBy(observed.df, "host", plan=plan).applyInPandas(
            largest, "host string, pages long, last long"
        )
        assert rows_of(result) == rows_of(pages.groupBy("host").agg(F.count("page"), F.max("page")))
        after = unskew.plan(observed.histogram, slots=8, previous=plan)
        assert after.table.version == plan.table.version + 1
        assert after.imbalance <= 1.02 * after.bound
        assert after.migration is not None
        assert 0 < after.migration.state_share < 0.15
        after.save(path)
        afresh = unskew.plan(observed.histogram, slots=8)
        assert migration(plan.table, afresh.table, observed.histogram).state_share > 0.5
