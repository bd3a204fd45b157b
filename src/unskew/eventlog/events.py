"""The events of a log, read once, line by line; each stage is yielded as it ends.

Only the tasks of running stages and the shuffles of running queries are held in memory. Only events that matter
are parsed; the others, among them the longest, are recognised by the first bytes of their lines.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

from unskew.eventlog.files import lines, log_files
from unskew.eventlog.plans import Shuffle, shuffles, source_kind
from unskew.eventlog.stages import Query, Stage, Task

Event: TypeAlias = Mapping[str, Any]

_START = b'{"Event":"'
_SQL = "org.apache.spark.sql.execution.ui."
_QUERY = "spark.sql.execution.id"
_PYTHON_START = ("time to start Python workers", "time to initialize Python workers")
_PYTHON_RUN = "time to run Python workers"
_PYTHON_SENT = "data sent to Python workers"


@dataclass
class _RunningStage:
    """A stage that has not ended, with the tasks that have."""

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
    sizes: dict[int, int] = field(default_factory=dict)


class EventLog:
    """The log of one application, a file or a folder of rolled files.

    Guards that each stage is yielded once, even if the log is incomplete or repeats events. What it says about the
    application (`application`, `failed_attempts` and so on) is complete once all stages have been yielded.
    """

    def __init__(self, path: str | Path, progress: Callable[[str], None] = lambda _: None) -> None:
        self.application = ""
        self.application_id = ""
        self.spark_version = ""
        self.finished = False
        self.tasks = 0
        self.failed_attempts = 0
        self.task_seconds = 0.0
        self.shuffle_local = 0
        self.shuffle_remote = 0
        self._path = path
        self._progress = progress
        self._running: dict[tuple[int, int], _RunningStage] = {}
        self._queries: dict[int, _RunningQuery] = {}
        self._cores: dict[str, int] = {}
        self._ended: list[Stage] = []
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

    def stages(self) -> Iterator[Stage]:
        """Each stage as it ends; then, if the log is still being written, running stages with their finished tasks."""
        has_events = False
        for file in log_files(self._path):
            self._progress(file.name)
            for line in lines(file):
                has_events = self._take(line) or has_events
                yield from self._ended
                self._ended.clear()
        if not has_events:
            raise ValueError(
                f"{self._path}: not an event log of Spark: no line of it is an event; "
                "name a file that Spark wrote with spark.eventLog.enabled=true"
            )
        for number, attempt in list(self._running):
            self._close(number, attempt, ())
        yield from self._ended

    def _take(self, line: bytes) -> bool:
        """Handle one line; False if it is not an event, or not of interest, or cut off."""
        if not line.startswith(_START):
            return False
        handler = self._handlers.get(line[len(_START) : line.find(b'"', len(_START))])
        if handler is None:
            return False
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            return False  # the last line of a log that is still being written, or a plan too deep to read
        try:
            handler(event)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(
                f"{self._path}: damaged: an event {event['Event']} lacks {error}: copy the log again"
            ) from error
        return True

    def _log_start(self, event: Event) -> None:
        self.spark_version = event.get("Spark Version", "")

    def _application_start(self, event: Event) -> None:
        self.application = event.get("App Name", "")
        self.application_id = event.get("App ID") or ""

    def _application_end(self, _event: Event) -> None:
        self.finished = True

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
            source = source_kind(event["sparkPlanInfo"])
            if source and not running.query.source:
                running.query = replace(running.query, source=source)

    def _query_end(self, event: Event) -> None:
        self._queries.pop(event["executionId"], None)

    def _stage_submitted(self, event: Event) -> None:
        info = event["Stage Info"]
        number = (event.get("Properties") or {}).get(_QUERY)
        running = None if number is None else self._queries.get(int(number))
        self._running[info["Stage ID"], info["Stage Attempt ID"]] = _RunningStage(
            info["Stage Name"], info["Number of Tasks"], running.query if running else None
        )

    def _task_end(self, event: Event) -> None:
        info = event["Task Info"]
        stage = self._running.get((event["Stage ID"], event["Stage Attempt ID"]))
        succeeded = event["Task End Reason"]["Reason"] == "Success"
        self.tasks += succeeded
        self.failed_attempts += not succeeded
        self.task_seconds += (info["Finish Time"] - info["Launch Time"]) / 1000
        shuffle = (event.get("Task Metrics") or {}).get("Shuffle Read Metrics") or {}
        self.shuffle_local += shuffle.get("Local Bytes Read", 0)
        self.shuffle_remote += shuffle.get("Remote Bytes Read", 0)
        if stage is None:
            return  # a copy of a task, stopped after its stage had ended
        stage.speculative += bool(info["Speculative"])
        if succeeded:
            stage.tasks.setdefault(info["Index"], _task(info, event.get("Task Metrics") or {}))
        else:
            stage.failed += 1

    def _stage_completed(self, event: Event) -> None:
        info = event["Stage Info"]
        self._close(info["Stage ID"], info["Stage Attempt ID"], info["Accumulables"])

    def _close(self, number: int, attempt: int, counters: Sequence[Event]) -> None:
        running = self._running.pop((number, attempt), None)
        if running is None:
            return
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
            self._shuffle(running.query, counters),
            max((_value(counter) for counter in counters if counter.get("Name") == _PYTHON_SENT), default=0),
        )
        self._ended.append(stage)

    def _shuffle(self, query: Query | None, counters: Sequence[Event]) -> Shuffle | None:
        """The shuffle that a stage read: of several, one that Spark has split, else the one with the most records."""
        running = self._queries.get(query.number) if query else None
        if running is None:
            return None
        running.sizes.update((counter["ID"], _value(counter)) for counter in counters)
        shuffles_read = [
            (shuffle.split_by_spark, _value(counter) if counter.get("Name") == "records read" else 0, shuffle)
            for counter in counters
            if (shuffle := running.shuffles.get(counter["ID"])) is not None
        ]
        if not shuffles_read:
            return None
        *_, shuffle = max(shuffles_read, key=lambda item: item[:2])
        return shuffle.sized(running.sizes)


def _value(counter: Event) -> int:
    """The value of a counter; 0 for one that is no number."""
    value = counter.get("Value", 0)
    return int(value) if isinstance(value, int) or str(value).isdigit() else 0


def _task(info: Event, metrics: Event) -> Task:
    shuffle = metrics.get("Shuffle Read Metrics") or {}
    source = metrics.get("Input Metrics") or {}
    return Task(
        info["Index"],
        info["Host"],
        info["Launch Time"] / 1000,
        (info["Finish Time"] - info["Launch Time"]) / 1000,
        metrics.get("Executor Run Time", 0) / 1000,
        metrics.get("JVM GC Time", 0) / 1000,
        shuffle.get("Fetch Wait Time", 0) / 1000,
        _starting(info["Accumulables"]),
        metrics.get("Memory Bytes Spilled", 0) + metrics.get("Disk Bytes Spilled", 0),
        shuffle.get("Total Records Read", 0),
        shuffle.get("Remote Bytes Read", 0) + shuffle.get("Local Bytes Read", 0),
        source.get("Records Read", 0),
        source.get("Bytes Read", 0),
    )


def _starting(counters: Iterable[Event]) -> float:
    """Seconds until the Python worker was ready; 0 for a reused worker, whose figure includes its idle time."""
    milliseconds = {counter.get("Name"): counter.get("Update", 0) for counter in counters}
    starting = sum(int(milliseconds.get(name, 0)) for name in _PYTHON_START)
    return starting / 1000 if starting <= int(milliseconds.get(_PYTHON_RUN, 0)) else 0.0
