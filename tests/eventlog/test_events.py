from __future__ import annotations

from pathlib import Path

import pytest

from tests.eventlog.logs import (
    END,
    START,
    completed,
    executor,
    line,
    submitted,
    task,
    uneven_stage,
    write_log,
)
from unskew.eventlog.events import EventLog
from unskew.eventlog.stages import Stage


def stages(path: Path) -> list[Stage]:
    return list(EventLog(path).stages())


def only(path: Path) -> Stage:
    (stage,) = stages(path)
    return stage


def test_attempts_that_fail_or_are_stopped_are_counted_but_not_timed(tmp_path: Path) -> None:
    events = [
        submitted(0, 2),
        task(0, 0, 0, 50, reason="ExceptionFailure"),
        task(0, 1, 0, 3),
        task(0, 0, 50, 51),
        completed(0, 2),
    ]
    log = EventLog(write_log(tmp_path / "app", [START, *events, END]))
    (stage,) = log.stages()
    assert [task.seconds for task in stage.tasks] == [3.0, 1.0]
    assert stage.failed == log.failed_attempts == 1
    assert log.tasks == 2
    assert log.finished


def test_local_and_remote_shuffle_bytes_are_counted_apart(tmp_path: Path) -> None:
    far = task(0, 1, 0, 3, records=7)
    far["Task Metrics"]["Shuffle Read Metrics"] = {"Total Records Read": 7, "Remote Bytes Read": 4000}
    log = EventLog(write_log(tmp_path / "app", [submitted(0, 2), task(0, 0, 0, 1), far, completed(0, 2)]))
    (stage,) = log.stages()
    assert (log.shuffle_local, log.shuffle_remote) == (1000, 4000)
    assert sum(task.shuffle_bytes for task in stage.tasks) == 5000


def test_of_a_task_and_its_speculative_copy_the_first_to_succeed_counts(tmp_path: Path) -> None:
    events = [
        submitted(0, 1),
        task(0, 0, 5, 7, speculative=True),
        task(0, 0, 0, 8, reason="TaskKilled"),
        completed(0, 1),
        task(0, 0, 6, 9, reason="TaskKilled", speculative=True),  # reported after the stage's end
    ]
    log = EventLog(write_log(tmp_path / "app", events))
    (stage,) = log.stages()
    assert [task.seconds for task in stage.tasks] == [2.0]
    assert (stage.failed, stage.speculative) == (1, 1)
    assert log.failed_attempts == 2


def test_a_task_that_succeeds_twice_is_one_task(tmp_path: Path) -> None:
    # its output was lost with its executor, so it ran again
    events = [submitted(0, 1), task(0, 0, 0, 2), task(0, 0, 5, 9), completed(0, 1)]
    assert [task.seconds for task in only(write_log(tmp_path / "app", events)).tasks] == [2.0]


def test_attempts_of_a_stage_are_stages_of_their_own(tmp_path: Path) -> None:
    events = [
        submitted(3, 2),
        task(3, 0, 0, 1),
        completed(3, 2),
        submitted(3, 1, attempt=1),
        task(3, 1, 2, 4, attempt=1),
        completed(3, 1, attempt=1),
    ]
    attempts = stages(write_log(tmp_path / "app", events))
    assert [(stage.label, len(stage.tasks), stage.expected) for stage in attempts] == [
        ("3", 1, 2),
        ("3.1", 1, 1),
    ]


def test_a_log_that_is_still_being_written_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    path = write_log(tmp_path / "app.inprogress", [START, submitted(0, 3), task(0, 0, 0, 1)])
    path.write_bytes(path.read_bytes() + line(task(0, 1, 0, 2))[:-20])
    log = EventLog(path)
    (stage,) = log.stages()
    assert (len(stage.tasks), stage.expected) == (1, 3)
    assert not log.finished


def test_rolled_files_are_one_log(tmp_path: Path) -> None:
    events = uneven_stage()
    whole = only(write_log(tmp_path / "app", events))
    rolled = tmp_path / "eventlog_v2_app"
    rolled.mkdir()
    for i, event in enumerate(events, 1):
        write_log(rolled / f"events_{i}_app", [START, event])
    assert only(rolled) == whole


def test_cores_are_those_of_the_executors_at_the_end_of_the_stage(tmp_path: Path) -> None:
    gone = {"Event": "SparkListenerExecutorRemoved", "Executor ID": "1"}
    events = [executor(4, "1"), executor(8, "2"), *uneven_stage(0), gone, *uneven_stage(1)]
    assert [stage.cores for stage in stages(write_log(tmp_path / "app", events))] == [12, 8]


def test_tasks_in_parallel_are_at_most_the_cores(tmp_path: Path) -> None:
    # Spark launches the next task a little before it records the end of the last one
    events = [submitted(0, 3), task(0, 0, 0, 1.1), task(0, 1, 0, 1.1), task(0, 2, 1, 2), completed(0, 3)]
    assert only(write_log(tmp_path / "app", [executor(2), *events])).width == 2
    assert only(write_log(tmp_path / "app", events)).width == 3


def test_a_file_that_is_not_a_log_is_refused(tmp_path: Path) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text('{"Event":"Party"}\nnothing\n')
    with pytest.raises(ValueError, match=r"notes\.txt: not an event log of Spark"):
        stages(notes)


def test_a_damaged_event_is_named(tmp_path: Path) -> None:
    path = write_log(tmp_path / "app", [START, submitted(0, 1), {"Event": "SparkListenerTaskEnd"}])
    with pytest.raises(ValueError, match=r"app: damaged: an event SparkListenerTaskEnd lacks 'Task Info'"):
        stages(path)
