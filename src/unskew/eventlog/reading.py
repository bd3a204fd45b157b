"""Read an event log once, line by line, and judge each stage as it ends.

Held in memory are the tasks of stages that run, the shuffles of queries that run, and the worst findings. Only
events that matter are parsed; the others, among them the longest, are told by the first bytes of their lines.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from unskew.eventlog.diagnosis import LogDiagnosis, Worst, judge
from unskew.eventlog.files import lines, log_files
from unskew.eventlog.plans import Shuffle, shuffles
from unskew.eventlog.stages import Query, Stage, Task

Event: TypeAlias = Mapping[str, Any]

_START = b'{"Event":"'
_SQL = "org.apache.spark.sql.execution.ui."
_QUERY = "spark.sql.execution.id"


def diagnose_log(
    path: str | Path, *, top: int = 20, progress: Callable[[str], None] = lambda _: None
) -> LogDiagnosis:
    """Judge the stages of the application whose event log is at `path`, a file or a folder of rolled files.

    `top` is how many of the worst stages are kept. A log that is still written is read as far as it goes.
    """
    reader = _Reader(top)
    for file in log_files(path):
        progress(file.name)
        for line in lines(file):
            reader.take(line)
    if not reader.known:
        raise ValueError(f"{path}: not an event log of Spark: no line of it is an event")
    return reader.result()


@dataclass
class _RunningStage:
    """What is known of a stage before it ends."""

    name: str
    expected: int
    query: Query | None
    tasks: dict[int, Task] = field(default_factory=dict)
    failed: int = 0
    speculative: int = 0


@dataclass
class _RunningQuery:
    query: Query
    shuffles: dict[int, Shuffle] = field(default_factory=dict)


class _Reader:
    """Takes events in the order of the log; guards that each stage is judged once, whatever is missing or repeated."""

    def __init__(self, top: int) -> None:
        self._worst = Worst(top)
        self._stages: dict[tuple[int, int], _RunningStage] = {}
        self._queries: dict[int, _RunningQuery] = {}
        self._cores: dict[str, int] = {}
        self._about = {"application": "", "application_id": "", "spark_version": ""}
        self._ended = False
        self._counted: Counter[str] = Counter()
        self._task_seconds = 0.0
        self.known = 0
        self._handlers: dict[bytes, Callable[[Event], None]] = {
            name.encode(): handler
            for name, handler in {
                "SparkListenerLogStart": self._log_start,
                "SparkListenerApplicationStart": self._application_start,
                "SparkListenerApplicationEnd": self._application_end,
                "SparkListenerExecutorAdded": self._executor_added,
                "SparkListenerExecutorRemoved": self._executor_removed,
                "SparkListenerStageSubmitted": self._stage_submitted,
                "SparkListenerTaskEnd": self._task_end,
                "SparkListenerStageCompleted": self._stage_completed,
                f"{_SQL}SparkListenerSQLExecutionStart": self._query_start,
                f"{_SQL}SparkListenerSQLAdaptiveExecutionUpdate": self._query_changed,
                f"{_SQL}SparkListenerSQLExecutionEnd": self._query_end,
            }.items()
        }

    def take(self, line: bytes) -> None:
        """Look at one line; what is no event, or cut off, is passed over."""
        if not line.startswith(_START):
            return
        handler = self._handlers.get(line[len(_START) : line.find(b'"', len(_START))])
        if handler is None:
            return
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            return  # the last line of a log that is still written, or a plan too deep to read
        self.known += 1
        handler(event)

    def result(self) -> LogDiagnosis:
        """What was found; stages that still run are judged by the tasks that have ended."""
        for number, attempt in list(self._stages):
            self._close(number, attempt, ())
        return LogDiagnosis(
            **self._about,
            finished=self._ended,
            stages=self._counted["stages"],
            tasks=self._counted["tasks"],
            failed_attempts=self._counted["failed"],
            task_seconds=self._task_seconds,
            uneven=self._worst.seen,
            saved=self._worst.saved,
            saved_by_unskew=self._worst.saved_by_unskew,
            findings=self._worst.findings(),
        )

    def _log_start(self, event: Event) -> None:
        self._about["spark_version"] = event.get("Spark Version", "")

    def _application_start(self, event: Event) -> None:
        self._about["application"] = event.get("App Name", "")
        self._about["application_id"] = event.get("App ID") or ""

    def _application_end(self, _event: Event) -> None:
        self._ended = True

    def _executor_added(self, event: Event) -> None:
        self._cores[event["Executor ID"]] = event["Executor Info"]["Total Cores"]

    def _executor_removed(self, event: Event) -> None:
        self._cores.pop(event["Executor ID"], None)

    def _query_start(self, event: Event) -> None:
        number = event["executionId"]
        description = " ".join(event.get("description", "").split())
        self._queries[number] = _RunningQuery(Query(number, description))
        self._query_changed(event)

    def _query_changed(self, event: Event) -> None:
        running = self._queries.get(event["executionId"])
        if running is not None:
            running.shuffles.update(shuffles(event["sparkPlanInfo"]))

    def _query_end(self, event: Event) -> None:
        self._queries.pop(event["executionId"], None)

    def _stage_submitted(self, event: Event) -> None:
        info = event["Stage Info"]
        number = (event.get("Properties") or {}).get(_QUERY)
        running = None if number is None else self._queries.get(int(number))
        self._stages[info["Stage ID"], info["Stage Attempt ID"]] = _RunningStage(
            info["Stage Name"], info["Number of Tasks"], running.query if running else None
        )

    def _task_end(self, event: Event) -> None:
        info = event["Task Info"]
        stage = self._stages.get((event["Stage ID"], event["Stage Attempt ID"]))
        succeeded = event["Task End Reason"]["Reason"] == "Success"
        self._counted["tasks" if succeeded else "failed"] += 1
        self._task_seconds += (info["Finish Time"] - info["Launch Time"]) / 1000
        if stage is None:
            return  # a copy of a task, stopped after its stage had ended
        stage.speculative += bool(info["Speculative"])
        if succeeded:
            stage.tasks.setdefault(info["Index"], _task(info, event.get("Task Metrics") or {}))
        else:
            stage.failed += 1

    def _stage_completed(self, event: Event) -> None:
        info = event["Stage Info"]
        moved = (counter["ID"] for counter in info["Accumulables"])
        self._close(info["Stage ID"], info["Stage Attempt ID"], moved)

    def _close(self, number: int, attempt: int, moved: Iterable[int]) -> None:
        running = self._stages.pop((number, attempt), None)
        if running is None:
            return
        self._counted["stages"] += 1
        stage = Stage(
            number,
            attempt,
            running.name,
            tuple(sorted(running.tasks.values(), key=lambda task: task.launched)),
            running.expected,
            running.failed,
            running.speculative,
            sum(self._cores.values()),
            running.query,
            self._shuffle(running.query, moved),
        )
        finding = judge(stage)
        if finding is not None:
            self._worst.add(finding)

    def _shuffle(self, query: Query | None, moved: Iterable[int]) -> Shuffle | None:
        """The shuffle that a stage read: of several, one that Spark has split, for that is the skewed side."""
        known = self._queries.get(query.number) if query else None
        if known is None:
            return None
        read = [known.shuffles[counter] for counter in moved if counter in known.shuffles]
        return max(read, key=lambda shuffle: shuffle.split_by_spark, default=None)


def _task(info: Event, metrics: Event) -> Task:
    shuffle = metrics.get("Shuffle Read Metrics") or {}
    read = metrics.get("Input Metrics") or {}
    return Task(
        info["Index"],
        info["Host"],
        info["Launch Time"] / 1000,
        (info["Finish Time"] - info["Launch Time"]) / 1000,
        metrics.get("Executor Run Time", 0) / 1000,
        metrics.get("JVM GC Time", 0) / 1000,
        shuffle.get("Fetch Wait Time", 0) / 1000,
        metrics.get("Memory Bytes Spilled", 0) + metrics.get("Disk Bytes Spilled", 0),
        shuffle.get("Total Records Read", 0),
        shuffle.get("Remote Bytes Read", 0) + shuffle.get("Local Bytes Read", 0),
        read.get("Records Read", 0),
        read.get("Bytes Read", 0),
    )
