"""Lines of a real log: a failing task, a skewed group, and a join whose skew Spark splits."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.eventlog.logs import REAL
from unskew.eventlog.causes import Cause
from unskew.eventlog.events import EventLog
from unskew.eventlog.findings import diagnose_log
from unskew.eventlog.plans import Partitioning, Shuffle, shuffles
from unskew.eventlog.stages import Stage


@pytest.fixture(scope="module")
def stages() -> dict[int, Stage]:
    return {stage.number: stage for stage in EventLog(REAL).stages()}


def test_stages_find_their_operators_and_keys(stages: dict[int, Stage]) -> None:
    read = {number: stage.shuffle for number, stage in stages.items() if stage.shuffle}
    assert read == {
        2: Shuffle("HashAggregate", Partitioning.HASH, ("_groupingexpression",)),
        6: Shuffle("FlatMapGroupsInPandas", Partitioning.HASH, ("user",)),
        14: Shuffle(
            "SortMergeJoin",
            Partitioning.HASH,
            ("user",),
            split_by_spark=True,
            how="Inner",
            compared=("user",),
        ),
    }
    query = stages[2].query
    assert query is not None
    assert (query.number, query.description) == (0, "collect at job.py:40")


def test_the_findings(stages: dict[int, Stage]) -> None:
    diagnosis = diagnose_log(REAL)
    start_up, skew = diagnosis.findings
    assert (start_up.stage.number, start_up.cause) == (3, Cause.STARTING)
    assert (skew.stage.number, skew.cause) == (6, Cause.DATA)
    assert skew.advice.fixable
    assert diagnosis.saved_by_unskew == skew.saved == pytest.approx(47.8 - 37.7, abs=0.05)
    assert (diagnosis.stages, diagnosis.tasks, diagnosis.failed_attempts, diagnosis.finished) == (
        9,
        43,
        1,
        True,
    )
    assert (diagnosis.shuffle_local, diagnosis.shuffle_remote) == (590_697, 0), "one host"
    assert diagnosis.to_dict()["shuffle_remote_bytes"] == 0


def test_a_worker_used_again_was_not_started(stages: dict[int, Stage]) -> None:
    # Spark's figure for it, 97 s, is longer than the task
    (task,) = [task for task in stages[6].tasks if task.index == 1]
    assert task.starting == 0.0
    assert stages[3].longest.starting == pytest.approx(91.9, abs=0.1)


def test_a_very_deep_plan_is_walked() -> None:
    exchange = {
        "nodeName": "Exchange",
        "simpleString": "Exchange rangepartitioning(a#1 ASC NULLS FIRST, 8), ENSURE_REQUIREMENTS, [plan_id=1]",
        "metrics": [{"name": "records read", "accumulatorId": 7}],
        "children": [],
    }
    plan: dict[str, Any] = exchange
    for _ in range(5000):
        plan = {"nodeName": "Project", "simpleString": "Project", "metrics": [], "children": [plan]}
    assert shuffles(plan) == {7: Shuffle("", Partitioning.RANGE)}


def test_the_lines_name_no_machine() -> None:
    hosts = {
        json.loads(line).get("Task Info", {}).get("Host") for line in REAL.read_text("utf-8").splitlines()
    }
    assert hosts == {None, "host-1"}
