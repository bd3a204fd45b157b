from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from unskew.eventlog.causes import BROADCAST, Cause, advise, cause_of
from unskew.eventlog.findings import finding_of
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


@pytest.mark.parametrize("cause", [Cause.DATA, Cause.WORK, Cause.FEW, Cause.TINY])
def test_only_a_key_can_be_placed(cause: Cause) -> None:
    assert not advise(cause, None).fixable
    for kind in Partitioning:
        assert advise(cause, Shuffle("Window", kind, ("user",))).fixable == (kind is Partitioning.HASH)


JOIN = Shuffle("SortMergeJoin", Partitioning.HASH, ("user",), how="Inner", compared=("user",))


def told(shuffle: Shuffle, cause: Cause = Cause.DATA) -> str:
    return advise(cause, shuffle).text


@pytest.mark.parametrize(
    ("how", "is_left", "may"),
    [
        ("LeftOuter", True, True),
        ("RightOuter", False, True),
        ("FullOuter", True, True),
        ("FullOuter", False, True),
        ("LeftOuter", False, False),
        ("RightOuter", True, False),
        ("Inner", True, False),
        ("LeftAnti", True, False),
    ],
)
def test_nulls_are_named_where_the_join_keeps_them(how: str, is_left: bool, may: bool) -> None:
    text = told(replace(JOIN, how=how, is_left=is_left))
    assert ("spark.sql.shuffle.spreadNullJoinKeys.enabled" in text) == may
    assert 'unskew.join(left, right, on="user")' in text


@pytest.mark.parametrize(
    ("how", "is_left", "may"),
    [
        ("Inner", True, True),
        ("Inner", False, True),
        ("LeftOuter", True, True),
        ("LeftSemi", True, True),
        ("LeftOuter", False, False),
        ("RightOuter", False, True),
        ("FullOuter", True, False),
    ],
)
def test_a_small_side_is_to_be_broadcast_if_the_join_allows_it(how: str, is_left: bool, may: bool) -> None:
    small = replace(JOIN, how=how, is_left=is_left, other_size=2_000_000)
    assert ("broadcast it" in told(small)) == may
    assert "broadcast" not in told(replace(small, other_size=2 * BROADCAST))
    assert "broadcast" not in told(replace(small, other_size=None))


def test_salting_is_for_keys_that_are_skewed_in_all_their_columns() -> None:
    both = replace(JOIN, key=("user", "day"), compared=("user", "day"))
    assert "Salting by hand helps only if all these columns are skewed" in told(both)
    assert "alting" not in told(JOIN)
    part = told(replace(both, key=("user",)))
    assert "compares user, day, but rows are placed by user only" in part


def test_the_latest_row_of_every_key_needs_no_window() -> None:
    limit = Shuffle("WindowGroupLimit", Partitioning.HASH, ("user",), keeps_first=True)
    assert 'unskew.latest(df, "user", orderBy=…)' in told(limit)
    assert "max_by" in told(limit)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("", "spark.sql.files.maxPartitionBytes"),
        ("kafka", "maxRecordsPerPartition"),
        ("grouped", "spark.sql.sources.v2.bucketing.partiallyClusteredDistribution.enabled"),
        ("bucketed", "spark.sql.sources.bucketing.enabled=false"),
    ],
)
def test_uneven_input_is_about_the_source_not_the_key(source: str, words: str) -> None:
    advice = advise(Cause.INPUT, None, source)
    assert not advice.fixable
    assert words in advice.text


def test_spill_without_skew_is_about_memory() -> None:
    even = Stage(0, 0, "", tuple(Task(i, "h", 0.0, 1.0, spilled=10**8) for i in range(8)), 8, 0, 0, 2)
    finding = finding_of(even)
    assert finding is not None
    assert (finding.cause, finding.saved, finding.advice.fixable) == (Cause.SPILL, 0.0, False)
    assert "more memory" in finding.advice.text
    dry = replace(even, tasks=tuple(replace(task, spilled=0) for task in even.tasks))
    assert finding_of(dry) is None


def test_many_tiny_groups_get_the_operator_that_sends_them_together() -> None:
    tasks = tuple(Task(i, "h", 0.0, 1.0, shuffle_records=5000) for i in range(8))
    shuffle = Shuffle("FlatMapGroupsInPandas", Partitioning.HASH, ("user",), size=40_000 * 32)
    tiny = Stage(0, 0, "", tasks, 8, 0, 0, 2, shuffle=shuffle, sent=40_000 * 60)
    finding = finding_of(tiny)
    assert finding is not None
    assert finding.cause is Cause.TINY
    assert 'unskew.groupBy(df, "user").applyInPandas(…)' in finding.advice.text
    assert finding_of(replace(tiny, sent=40_000 * 20)) is None, "large groups"
    assert finding_of(replace(tiny, shuffle=replace(shuffle, operator="MapInPandas"))) is None


@pytest.mark.parametrize("cause", sorted(set(Cause) - {Cause.DATA, Cause.WORK, Cause.FEW, Cause.TINY}))
def test_causes_that_are_not_about_keys_are_not_for_unskew(cause: Cause) -> None:
    advice = advise(cause, Shuffle("Window", Partitioning.HASH, ("user",)))
    assert not advice.fixable
    assert advice.text
