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
    diagnosis = diagnose_log(
        write_log(tmp_path / "app", [START, application(), *uneven_stage(longest=9.0), END])
    )
    (worst,) = diagnosis.findings
    assert worst.stage.length == 9.0
    assert worst.saved == diagnosis.saved == 6.0  # twelve seconds of work on four cores
    assert worst.cause is Cause.DATA
    assert diagnosis.saved_by_unskew == 0.0  # nothing in this log names a key
    assert "1 of 1 stages" in diagnosis.headline


def test_tasks_that_fill_their_cores_lose_nothing(tmp_path: Path) -> None:
    # one is twice as long as the others, but there is other work for the second core
    tasks = [task(0, 0, 0, 2), task(0, 1, 0, 1), task(0, 2, 1, 2)]
    diagnosis = diagnose_log(write_log(tmp_path / "app", [submitted(0, 3), *tasks, completed(0, 3)]))
    assert diagnosis.stages == 1
    assert diagnosis.findings == ()
    assert diagnosis.headline.startswith("None of 1 stages")


def test_a_stage_with_fewer_tasks_than_cores(tmp_path: Path) -> None:
    events = [executor(4), submitted(0, 1), task(0, 0, 0, 8), completed(0, 1)]
    (finding,) = diagnose_log(write_log(tmp_path / "app", events)).findings
    assert finding.cause is Cause.FEW
    assert finding.saved == 6.0


def test_the_worst_stages_are_listed_and_all_are_counted(tmp_path: Path) -> None:
    lengths = [3.0, 9.0, 5.0, 1.0, 7.0]
    events = [event for i, longest in enumerate(lengths) for event in uneven_stage(i, longest)]
    path = write_log(tmp_path / "app", events)
    diagnosis, everything = diagnose_log(path, top=2), diagnose_log(path)
    assert [finding.stage.number for finding in diagnosis.findings] == [1, 4]
    assert (diagnosis.stages, diagnosis.uneven) == (5, 4)
    assert diagnosis.saved == everything.saved == pytest.approx(sum(f.saved for f in everything.findings))


def test_a_log_without_tasks(tmp_path: Path) -> None:
    diagnosis = diagnose_log(write_log(tmp_path / "app", [START, application()]))
    assert diagnosis.headline == "No task has finished in this log."


def test_values_print_in_one_line(tmp_path: Path) -> None:
    log = write_log(tmp_path / "app", [START, application("job\n"), executor(4), *uneven_stage(longest=9.0)])
    diagnosis = diagnose_log(log)
    (finding,) = diagnosis.findings
    assert repr(diagnosis) == (
        "LogDiagnosis('job\\n', 1 of 1 stages uneven, 6.0 s could be saved, 0.0 s of it by unskew)"
    )
    assert repr(finding) == "Finding(stage 0: data skew, 6.0 s of 9.0 s, not for unskew)"
    assert repr(finding.stage) == "Stage(0: 4 of 4 tasks, 9.0 s on 4 cores)"


def test_json_is_plain(tmp_path: Path) -> None:
    diagnosis = diagnose_log(
        write_log(tmp_path / "app", [START, application("job"), executor(4), *uneven_stage()])
    )
    figures = json.loads(json.dumps(diagnosis.to_dict(), allow_nan=False))
    assert figures["application"] == "job"
    assert figures["finished"] is False
    (stage,) = figures["findings"]
    assert stage["cause"] == "data skew"
    assert stage["tasks"]["max_seconds"] == 9.0
    assert stage["tasks"]["median_seconds"] == 1.0
    assert stage["longest_task"]["shuffle_records"] == 900
    assert stage["mean_task"]["shuffle_records"] == 300
    assert stage["seconds"] - stage["seconds_saved"] == stage["seconds_if_even"] == 3.0
