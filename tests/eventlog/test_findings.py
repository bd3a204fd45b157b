from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.eventlog.logs import (
    END,
    START,
    application,
    completed,
    executor,
    submitted,
    task,
    uneven_stage,
    write_log,
)
from unskew.eventlog.causes import Cause
from unskew.eventlog.findings import diagnose_log


def test_what_even_tasks_would_save(tmp_path: Path) -> None:
    found = diagnose_log(write_log(tmp_path / "app", [START, application(), *uneven_stage(longest=9.0), END]))
    (worst,) = found.findings
    assert worst.stage.length == 9.0
    assert worst.saved == found.saved == 6.0  # twelve seconds of work on four cores
    assert worst.cause is Cause.DATA
    assert found.saved_by_unskew == 0.0  # nothing in this log names a key
    assert "1 of 1 stages" in found.headline


def test_tasks_that_fill_their_cores_lose_nothing(tmp_path: Path) -> None:
    # one is twice as long as the others, but there is other work for the second core
    tasks = [task(0, 0, 0, 2), task(0, 1, 0, 1), task(0, 2, 1, 2)]
    found = diagnose_log(write_log(tmp_path / "app", [submitted(0, 3), *tasks, completed(0, 3)]))
    assert found.stages == 1
    assert found.findings == ()
    assert found.headline.startswith("None of 1 stages")


def test_a_stage_with_fewer_tasks_than_cores(tmp_path: Path) -> None:
    events = [executor(4), submitted(0, 1), task(0, 0, 0, 8), completed(0, 1)]
    (found,) = diagnose_log(write_log(tmp_path / "app", events)).findings
    assert found.cause is Cause.FEW
    assert found.saved == 6.0


def test_the_worst_stages_are_kept_and_all_are_counted(tmp_path: Path) -> None:
    lengths = [3.0, 9.0, 5.0, 1.0, 7.0]
    events = [event for i, longest in enumerate(lengths) for event in uneven_stage(i, longest)]
    path = write_log(tmp_path / "app", events)
    found, everything = diagnose_log(path, top=2), diagnose_log(path)
    assert [finding.stage.number for finding in found.findings] == [1, 4]
    assert (found.stages, found.uneven) == (5, 4)
    assert found.saved == everything.saved == pytest.approx(sum(f.saved for f in everything.findings))


def test_a_log_without_tasks(tmp_path: Path) -> None:
    found = diagnose_log(write_log(tmp_path / "app", [START, application()]))
    assert found.headline == "No task has finished in this log."


def test_json_is_plain(tmp_path: Path) -> None:
    found = diagnose_log(
        write_log(tmp_path / "app", [START, application("job"), executor(4), *uneven_stage()])
    )
    told = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert told["application"] == "job"
    assert told["finished"] is False
    (stage,) = told["findings"]
    assert stage["cause"] == "data skew"
    assert stage["tasks"]["max_seconds"] == 9.0
    assert stage["tasks"]["median_seconds"] == 1.0
    assert stage["longest_task"]["shuffle_records"] == 900
    assert stage["mean_task"]["shuffle_records"] == 300
    assert stage["seconds"] - stage["seconds_saved"] == stage["seconds_if_even"] == 3.0
