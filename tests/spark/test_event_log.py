"""Logs that this Spark writes are read: plain, compressed and rolled."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark.event_log_job import FLAVOURS
from unskew.eventlog.events import EventLog
from unskew.eventlog.stages import Stage

pytestmark = [pytest.mark.usefixtures("own_spark"), pytest.mark.thorough]


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The log of each flavour, written by another process: logging must be configured before Spark starts."""
    folder = tmp_path_factory.mktemp("logs")
    root = Path(__file__).parents[2]
    job = subprocess.run(
        [sys.executable, "-m", "tests.spark.event_log_job", str(folder)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])},
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )
    assert job.returncode == 0, job.stderr[-3000:]
    return {flavour: next((folder / flavour).iterdir()) for flavour in FLAVOURS}


def by_operator(log: Path) -> dict[str, Stage]:
    return {stage.shuffle.operator: stage for stage in EventLog(log).stages() if stage.shuffle}


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_every_flavour_is_read_to_its_end(logs: dict[str, Path], flavour: str) -> None:
    log = EventLog(logs[flavour])
    stages = list(log.stages())
    assert log.finished
    assert log.application == "event log job"
    assert all(len(stage.tasks) == stage.expected and stage.cores == 2 for stage in stages)
    assert "HashAggregate" in by_operator(logs[flavour])


def test_the_skew_is_in_the_records_that_tasks_read(logs: dict[str, Path]) -> None:
    stage = by_operator(logs["plain"])["FlatMapGroupsInPandas"]
    assert stage.shuffle is not None
    assert stage.shuffle.key == ("user",)
    records = sorted(task.shuffle_records for task in stage.tasks)
    assert (len(records), sum(records)) == (8, 2000)
    assert records[-1] >= 1400  # seven of ten rows
    assert max(stage.tasks, key=lambda task: task.shuffle_records).seconds > 2.8  # two milliseconds per row


def test_a_join_that_spark_splits_is_reported(logs: dict[str, Path]) -> None:
    shuffle = by_operator(logs["plain"])["SortMergeJoin"].shuffle
    assert shuffle is not None
    assert shuffle.split_by_spark


def test_a_failed_attempt_is_counted_apart(logs: dict[str, Path]) -> None:
    (stage,) = [stage for stage in EventLog(logs["plain"]).stages() if stage.failed]
    assert (stage.failed, len(stage.tasks), stage.shuffle) == (1, 4, None)


def test_a_log_cut_short_is_read_as_far_as_it_goes(logs: dict[str, Path], tmp_path: Path) -> None:
    whole = list(EventLog(logs["plain"]).stages())
    part = tmp_path / "app.inprogress"
    shutil.copy(logs["plain"], part)
    os.truncate(part, part.stat().st_size * 2 // 3)
    log = EventLog(part)
    stages = list(log.stages())
    assert not log.finished
    assert 3 < len(stages) < len(whole)
    assert stages[:3] == whole[:3]  # the last ones were cut off while they ran
