"""Pipelines that forbid jobs of our own: only plans that are given or kept are used, the rest is plain Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import unskew
from tests.spark.frames import Frames, assert_same, exchanges
from tests.spark.test_bad_input import OPERATORS, Call, apply
from unskew.spark import no_measure
from unskew.spark.no_measure import SETTING, measuring_allowed

pytestmark = [pytest.mark.connect, pytest.mark.usefixtures("eager")]


@pytest.fixture(autouse=True)
def first_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(no_measure, "_warned", set())


@pytest.fixture
def off() -> Iterator[None]:
    with unskew.no_measure():
        yield


def routed(df: DataFrame) -> bool:
    return any("passthrough" in kind for kind in exchanges(df))


@pytest.mark.parametrize("call", OPERATORS)
def test_no_operator_starts_a_job(doomed: DataFrame, frames: Frames, off: None, call: Call) -> None:
    with pytest.warns(UserWarning, match="runs as plain Spark: measuring is off") as warned:
        result = call(doomed, "string")
    assert len(warned) == 1
    assert result.columns
    assert not routed(call(frames.left, "string"))  # a second warning would be an error


def test_a_given_plan_is_used(doomed: DataFrame, frames: Frames, off: None) -> None:
    for call in OPERATORS:
        assert call(doomed, "string", plan=frames.plans["string"]).columns
        assert routed(call(frames.left, "string", plan=frames.plans["string"]))


def test_chained_operators(frames: Frames, doomed: DataFrame, off: None) -> None:
    def chained(df: DataFrame) -> DataFrame:
        chain = unskew.groupBy(df, "string").thenBy("int").applyInPandas(lambda rows: rows, df.schema)
        return chain.applyInPandas(lambda rows: rows, df.schema)

    with pytest.warns(UserWarning, match=r"unskew\.groupBy runs as plain Spark") as warned:
        assert chained(doomed).columns
    assert len(warned) == 1
    assert not routed(chained(frames.left))


def test_it_is_for_a_block_or_for_good(frames: Frames) -> None:
    df = frames.left
    assert measuring_allowed(df)
    with unskew.no_measure():
        assert not measuring_allowed(df)
        with unskew.no_measure():
            pass
        assert not measuring_allowed(df)
    assert measuring_allowed(df)
    for_good = unskew.no_measure()
    assert not measuring_allowed(df)
    for_good.__exit__(None, None, None)
    assert measuring_allowed(df)


def test_a_setting_of_the_session(frames: Frames, doomed: DataFrame) -> None:
    conf = frames.spark.conf
    conf.set(SETTING, "False")
    try:
        assert not measuring_allowed(doomed)
        with pytest.warns(UserWarning, match="spark.unskew.measure=false"):
            apply(doomed, "string")
    finally:
        conf.unset(SETTING)
    assert measuring_allowed(doomed)


def test_plain_spark_gives_the_same_rows(frames: Frames, off: None) -> None:
    df = frames.left.select("v", "string")
    with pytest.warns(UserWarning, match="plain Spark"):
        ours = unskew.groupBy(df, "string").applyInPandas(lambda rows: rows, df.schema)
    assert_same(ours, df)


def test_a_kept_plan_is_made_from_what_the_first_run_observed(
    frames: Frames, off: None, tmp_path: Path
) -> None:
    kept = unskew.Kept(tmp_path / "plan")
    options: dict[str, Any] = {"plan": kept, "slots": 3, "planner": "keel"}
    with pytest.warns(UserWarning, match="plain Spark"):
        result = unskew.groupBy(frames.left, "string", **options).agg(F.collect_list("v"))
    assert not routed(result)
    result.toArrow()
    kept.refresh()
    (review,) = kept.journal()
    assert (review.decision, review.reason, review.records) == ("made", "the first run was observed", 300)
    assert routed(unskew.groupBy(frames.left, "string", **options).agg(F.collect_list("v")))
