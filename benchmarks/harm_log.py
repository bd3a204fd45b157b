"""What a job cost Spark, from the event log, the same way on classic Spark and on Spark Connect.

The log is one list of events in the order in which they happened. A fence is a job of one row with a tag of its own:
once it is in the log, so is everything before it, and what lies between two fences belongs to the run between them.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

_SQL = "org.apache.spark.sql.execution.ui.SparkListenerSQL"
_WANTED = (
    "SparkListenerJobStart",
    "SparkListenerTaskEnd",
    f"{_SQL}ExecutionStart",
    f"{_SQL}AdaptiveExecutionUpdate",
)
_PATIENCE = 60.0
"""Seconds that the log may lag behind."""


@dataclass(frozen=True)
class Cost:
    """What one run cost: Spark jobs, shuffles of its last plan, and what was written to shuffle files."""

    jobs: int
    exchanges: int
    exchanges_before: int
    """Those of queries that ran before the job itself was started, such as a measuring query."""
    shuffled_bytes: int
    shuffled_records: int


@dataclass
class Log:
    """The event log of a running session, which writes it to `folder`."""

    spark: SparkSession
    folder: Path
    _position: int = 0
    _events: list[dict[str, Any]] = field(default_factory=list)

    def restart(self) -> None:
        """Forget what happened so far."""
        self._until_fence()

    def events(self) -> list[dict[str, Any]]:
        """What happened since the last call, event by event."""
        return self._until_fence()

    def cost(self, started: float) -> Cost:
        """What happened since the last call; `started` is the time (`time.time()`) at which the job itself started."""
        events = self._until_fence()
        before, during = _plans(events, int(started * 1000))
        writes = [_shuffle_write(event) for event in events if event["Event"] == "SparkListenerTaskEnd"]
        return Cost(
            jobs=sum(event["Event"] == "SparkListenerJobStart" for event in events),
            exchanges=sum(map(_exchanges, during)),
            exchanges_before=sum(map(_exchanges, before)),
            shuffled_bytes=sum(size for size, _ in writes),
            shuffled_records=sum(records for _, records in writes),
        )

    def _until_fence(self) -> list[dict[str, Any]]:
        tag = f"fence-{uuid.uuid4().hex}"
        self.spark.addTag(tag)
        try:
            self.spark.range(0, 1, 1, 1).collect()
        finally:
            self.spark.removeTag(tag)
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline:
            self._events += self._read()
            rest = _without_fence(self._events, tag)
            if rest is not None:
                self._events = []
                return rest
            time.sleep(0.01)
        raise TimeoutError(f"Spark's event log did not show a finished job within {_PATIENCE:.0f} s")

    def _read(self) -> Iterator[dict[str, Any]]:
        file = next(self.folder.iterdir())
        with file.open("rb") as stream:
            stream.seek(self._position)
            for line in stream:
                if not line.endswith(b"\n"):
                    break  # half written
                self._position += len(line)
                if line.startswith(tuple(f'{{"Event":"{name}"'.encode() for name in _WANTED)):
                    yield json.loads(line)


def _without_fence(events: list[dict[str, Any]], tag: str) -> list[dict[str, Any]] | None:
    """The events that do not belong to the fence, or None if its end is not among them yet.

    Two threads of Spark report: an event of the run before may come after the first of the fence.
    """
    queries = {
        event["executionId"] for event in events if any(tag in name for name in event.get("jobTags", ()))
    }
    stages = {
        stage
        for event in events
        if event["Event"] == "SparkListenerJobStart" and tag in event["Properties"].get("spark.job.tags", "")
        for stage in event["Stage IDs"]
    }
    rest = [
        event
        for event in events
        if event.get("executionId") not in queries
        and not stages.intersection(
            [event["Stage ID"]] if "Stage ID" in event else event.get("Stage IDs", ())
        )
    ]
    ended = any(event.get("Stage ID") in stages for event in events)
    return rest if ended else None


def _plans(events: list[dict[str, Any]], started: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The final plan of every query that began before `started`, and of every other one."""
    begin: dict[int, int] = {}
    plans: dict[int, dict[str, Any]] = {}
    for event in events:
        if "executionId" in event:
            begin.setdefault(event["executionId"], event.get("time", 0))
            plans[event["executionId"]] = event["sparkPlanInfo"]
    before = [plan for number, plan in plans.items() if begin[number] < started]
    return before, [plan for number, plan in plans.items() if begin[number] >= started]


def _exchanges(plan: dict[str, Any]) -> int:
    """The shuffles of a plan; one that is reused, or that made a cached table, is not run again."""
    name = plan["nodeName"].split("(")[0].strip()
    if name in ("InMemoryTableScan", "TableCacheQueryStage"):
        return 0
    return (name == "Exchange") + sum(map(_exchanges, plan["children"]))


def _shuffle_write(event: dict[str, Any]) -> tuple[int, int]:
    metrics = (event.get("Task Metrics") or {}).get("Shuffle Write Metrics") or {}
    return metrics.get("Shuffle Bytes Written", 0), metrics.get("Shuffle Records Written", 0)
