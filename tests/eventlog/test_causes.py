from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from unskew.eventlog.causes import Cause, advise, cause_of
from unskew.eventlog.plans import Partitioning, Shuffle
from unskew.eventlog.stages import Stage, Task


def stage(longest: dict[str, Any], usual: dict[str, Any] | None = None) -> Stage:
    """Nine tasks of one second, and one of ten seconds that differs in `longest`."""
    tasks = [Task(i, f"h{i % 3}", 0.0, 1.0, run=1.0, **(usual or {})) for i in range(9)]
    slow: dict[str, Any] = {"seconds": 10.0, "run": 10.0, **longest}
    return Stage(0, 0, "", (*tasks, replace(tasks[0], index=9, **slow)), 10, 0, 0, 10)


READ = {"shuffle_records": 100, "shuffle_bytes": 1000}


@pytest.mark.parametrize(
    ("cause", "longest", "usual"),
    [
        (Cause.DATA, {"shuffle_records": 1000}, READ),
        (Cause.DATA, {"shuffle_bytes": 10_000}, READ),  # few records, but wide ones
        (Cause.INPUT, {"input_bytes": 10_000}, {"input_bytes": 1000}),
        (Cause.STARTING, {"starting": 8.0}, READ),
        (Cause.COLLECTING, {"collecting": 6.0}, READ),
        (Cause.FETCHING, {"fetching": 7.0}, READ),
        (Cause.SCHEDULING, {"run": 1.0}, READ),
        (Cause.SPILL, {"spilled": 10**9}, READ),
        (Cause.WORK, {}, READ),
        (
            Cause.WORK,
            {"shuffle_records": 150},
            READ,
        ),  # 1.5 times the records do not explain ten times the time
        (Cause.WORK, {}, {}),
    ],
)
def test_the_log_shows_the_cause(cause: Cause, longest: dict[str, Any], usual: dict[str, Any]) -> None:
    assert cause_of(stage(longest, usual)) is cause


def test_more_data_also_means_more_garbage_and_spilling() -> None:
    assert cause_of(stage({"shuffle_records": 1000, "collecting": 9.0, "spilled": 10**9}, READ)) is Cause.DATA


def test_a_host_on_which_every_task_is_slow_is_a_slow_node() -> None:
    tasks = [Task(i, f"h{i % 4}", 0.0, 4.0 if i % 4 == 0 else 1.0, 1.0, **READ) for i in range(16)]
    assert cause_of(Stage(0, 0, "", tuple(tasks), 16, 0, 0, 16)) is Cause.NODE


@pytest.mark.parametrize(
    ("operator", "call"),
    [
        ("FlatMapGroupsInPandas", 'unskew.groupBy(df, "user", "day").applyInPandas(…)'),
        ("FlatMapGroupsInArrow", 'unskew.groupBy(df, "user", "day").applyInArrow(…)'),
        ("FlatMapCoGroupsInPandas", 'unskew.groupBy(left, "user", "day").cogroup('),
        ("SortMergeJoin", 'unskew.join(left, right, on=["user", "day"])'),
        ("Window", 'unskew.window(df, "user", "day")'),
        ("ObjectHashAggregate", 'unskew.groupBy(df, "user", "day").agg(…)'),
        ("TransformWithStateInPandas", 'unskew.stream(df, key=["user", "day"])'),
        ("", 'unskew.measure(df, ["user", "day"])'),
    ],
)
def test_the_advice_is_the_call_to_make(operator: str, call: str) -> None:
    advice = advise(Cause.DATA, Shuffle(operator, Partitioning.HASH, ("user", "day")))
    assert advice.fixable
    assert call in advice.text


def test_the_advice_mentions_that_spark_splits_the_skew_already() -> None:
    split = Shuffle("SortMergeJoin", Partitioning.HASH, ("user",), split_by_spark=True)
    assert "already at work" in advise(Cause.DATA, split).text
    assert "already at work" not in advise(Cause.DATA, replace(split, split_by_spark=False)).text


@pytest.mark.parametrize("cause", [Cause.DATA, Cause.WORK, Cause.FEW])
def test_only_a_key_can_be_placed(cause: Cause) -> None:
    assert not advise(cause, None).fixable
    for kind in Partitioning:
        assert advise(cause, Shuffle("Window", kind, ("user",))).fixable == (kind is Partitioning.HASH)


@pytest.mark.parametrize("cause", sorted(set(Cause) - {Cause.DATA, Cause.WORK, Cause.FEW}))
def test_causes_that_are_not_about_keys_are_not_for_unskew(cause: Cause) -> None:
    advice = advise(cause, Shuffle("Window", Partitioning.HASH, ("user",)))
    assert not advice.fixable
    assert advice.text
