"""Every operator shuffles once, with AQE and without it."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import unskew
from tests.spark.frames import KEYS, Frames, exchanges, physical_plan, setting

pytestmark = pytest.mark.connect

OURS = "shufflepartitionidpassthrough"


@pytest.fixture(params=["true", "false"], ids=["adaptive", "static"], autouse=True)
def adaptive(request: pytest.FixtureRequest, frames: Frames) -> Iterator[None]:
    with setting(frames.spark, adaptive_enabled=request.param, autoBroadcastJoinThreshold="-1"):
        yield


def identity(df: DataFrame) -> object:
    def same(rows: pd.DataFrame) -> pd.DataFrame:
        return rows

    return same


@pytest.mark.parametrize("kind", ["string", "double", "struct", "composite"])
def test_one_shuffle_for_a_group(frames: Frames, kind: str) -> None:
    df = frames.left.select("v", "w", *KEYS[kind])

    @F.pandas_udf("double")
    def mean(v: pd.Series) -> float:
        return float(v.mean())

    grouped = unskew.groupBy(df, *KEYS[kind], plan=frames.plans[kind])
    results = {
        "applyInPandas": grouped.applyInPandas(identity(df), df.schema),
        "applyInArrow": grouped.applyInArrow(lambda rows: rows, df.schema),
        "collect": grouped.agg(F.collect_list("v")),
        "combining": grouped.agg(F.sum("v"), F.avg("w")),
        "distinct": grouped.agg(F.countDistinct("v"), F.collect_list("w")),
        "udf": grouped.agg(mean("v")),
        "count": grouped.count(),
        "max": grouped.max("v"),
    }
    assert {name: exchanges(result) for name, result in results.items()} == {name: [OURS] for name in results}


@pytest.mark.parametrize("kind", ["string", "double", "struct", "composite"])
def test_one_shuffle_per_side_for_joins_and_cogroups(frames: Frames, kind: str) -> None:
    names = KEYS[kind]
    left, right = frames.left.select("v", *names), frames.right.select("v", *names)
    plan = frames.plans[kind]
    for how in ("inner", "left", "right", "full", "semi", "anti"):
        joined = unskew.join(left, right, names, how, plan=plan)
        assert exchanges(joined) == [OURS, OURS], how
        assert physical_plan(joined).count("Join") == 1
    by_left, by_right = (unskew.groupBy(df, *names, plan=plan) for df in (left, right))
    both = by_left.cogroup(by_right)
    assert exchanges(both.applyInPandas(lambda a, b: a, left.schema)) == [OURS, OURS]
    assert exchanges(both.applyInArrow(lambda k, a, b: a, left.schema)) == [OURS, OURS]


def test_the_explained_shuffles_are_all_counted(frames: Frames) -> None:
    """Guards the tests above: they count shuffles in the text of a plan."""
    df = frames.left.select("v", "string")
    twice = df.repartition(3, "v").groupBy("string").agg(F.collect_list("v"))
    assert exchanges(twice) == ["hashpartitioning", "hashpartitioning"]
    assert exchanges(df.join(F.broadcast(frames.right.select("string")), "string")) == ["BroadcastExchange"]
