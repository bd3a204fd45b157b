"""An application as Spark's web interface shows it, live or in a History Server: the same stages as in its event log.

The REST API names no counters, so a stage finds its shuffle in the plan by what the plan says about its metrics: the
stage of the task with the largest value, else the number of records read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from unskew.eventlog.formatted import node_texts
from unskew.eventlog.plans import Shuffle, shuffles, source_kind
from unskew.eventlog.rest_client import RestClient, first, records
from unskew.eventlog.stages import Query, Stage, Task

PAGE = 5000
"""Tasks per answer, about 10 MB."""

MOST_STAGES = 500
"""Stages whose tasks are read, the longest: each takes a question of its own."""

_PYTHON_START = ("time to start Python workers", "time to initialize Python workers")
_PYTHON_SENT = "data sent to Python workers"
_STAGE = re.compile(r"\(stage (\d+)\.(\d+): task (\d+)\)")
_AMOUNT = re.compile(r"([\d,.]+) (B|KiB|MiB|GiB|TiB|ms|s|m|min|h)\b")
_UNITS = {
    **{"B": 1.0, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30, "TiB": 2.0**40},
    **{"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0},
}


@dataclass
class _Sql:
    """A query, its shuffles by the number of their node, and what the metrics of its nodes say."""

    query: Query
    shuffles: dict[int, Shuffle]
    sizes: dict[int, int]
    metrics: dict[int, Mapping[str, str]] = field(default_factory=dict)


class RestApplication:
    """One application of a driver or of a History Server.

    Guards that it reads only: questions are GET. What it says about the application (`application`, `tasks` and so
    on) is complete once all stages have been yielded, as with `EventLog`.
    """

    def __init__(
        self,
        address: str,
        application_id: str | None = None,
        *,
        client: RestClient | None = None,
        shortest: float = 0.0,
        running: bool = True,
        progress: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._rest = client or RestClient(address)
        self._progress = progress
        self._shortest = shortest
        self._running = running
        self._states = ("COMPLETE", "FAILED", *(["ACTIVE"] if running else []))
        progress(f"asking {self._rest.address}")
        self.spark_version = self._rest.version()
        chosen = self._choose(application_id)
        self.application = str(chosen.get("name", ""))
        self.application_id = str(chosen["id"])
        attempts = chosen.get("attempts") or [{}]
        self.finished = bool(attempts[0].get("completed"))
        self.spark_version = str(attempts[0].get("appSparkVersion") or self.spark_version)
        attempt = attempts[0].get("attemptId")
        self._path = ("applications", self.application_id, *([attempt] if attempt else []))
        self._known: dict[int, _Sql] = {}
        self.tasks = 0
        self.failed_attempts = 0
        self.task_seconds = 0.0
        self.shuffle_local = 0
        self.shuffle_remote = 0

    def stages(self, wanted: Callable[[int, int], bool] = lambda _number, _attempt: True) -> Iterator[Stage]:
        """Each stage that has ended, and those that run with the tasks that have; only the `wanted` ones.

        With `running=False`, a stage comes when its query has ended: before that, the plan does not name its shuffle.
        """
        try:
            yield from self._stages(wanted)
        except (KeyError, TypeError, AttributeError, IndexError) as error:
            raise ValueError(
                f"{self._rest.address}: not an answer of Spark, {error} is missing: check the address"
            ) from error

    def _choose(self, application_id: str | None) -> dict[str, Any]:
        known = records(self._rest.get("applications"), "applications", self._rest.address)
        known = [application for application in known if isinstance(application.get("id"), str)]
        if application_id is not None:
            chosen = first(known, id=application_id)
            if chosen is None:
                raise ValueError(
                    f"{self._rest.address}: no application {application_id!r}: choose another{_some(known)}"
                )
            return chosen
        if not known:
            raise ValueError(
                f"{self._rest.address}: it knows no application yet: run one, or check the address"
            )
        if len(known) > 1:
            raise ValueError(f"{self._rest.address}: {len(known)} applications: give --app-id{_some(known)}")
        return known[0]

    def _stages(self, wanted: Callable[[int, int], bool]) -> Iterator[Stage]:
        ended = [
            stage
            for stage in records(self._rest.get(*self._path, "stages"), "stages", self._rest.address)
            if stage["status"] in self._states and wanted(stage["stageId"], stage["attemptId"])
        ]
        for stage in ended:
            self.tasks += stage["numCompleteTasks"]
            self.failed_attempts += stage["numFailedTasks"]
            self.shuffle_remote += stage.get("shuffleRemoteBytesRead", 0)
            self.shuffle_local += stage.get("shuffleLocalBytesRead", 0)
            self.task_seconds += stage.get("executorRunTime", 0) / 1000
        long = [stage for stage in ended if _length(stage) >= self._shortest]
        (queries, running), executors = (self._queries(), self._executors()) if long else (({}, set()), [])
        jobs = self._jobs() if queries else {}
        read = {
            (stage["stageId"], stage["attemptId"])
            for stage in sorted(long, key=_length, reverse=True)[:MOST_STAGES]
        }
        for stage in sorted(ended, key=lambda stage: (stage["stageId"], stage["attemptId"])):
            key = (stage["stageId"], stage["attemptId"])
            if key not in read:
                yield self._stage(stage, None, executors, with_tasks=False)
                continue
            number = next((queries[job] for job in jobs.get(key[0], ()) if job in queries), None)
            if number in running and not self._running:
                continue
            self._progress(f"reading stage {key[0]}")
            yield self._stage(
                stage, None if number is None else self._sql(number), executors, with_tasks=True
            )

    def _stage(
        self, info: dict[str, Any], sql: _Sql | None, executors: list[dict[str, Any]], *, with_tasks: bool
    ) -> Stage:
        number, attempt = int(info["stageId"]), int(info["attemptId"])
        attempts = self._tasks(number, attempt) if with_tasks else []
        starting = _starting(sql, number, attempt)
        tasks: dict[int, Task] = {}
        for task in attempts:
            if task["status"] == "SUCCESS":
                tasks.setdefault(task["index"], _task(task, starting.get(task["taskId"], 0.0)))
        end = info.get("completionTime")
        cores = sum(
            int(executor["totalCores"])
            for executor in executors
            if not end
            or (
                executor.get("addTime", end) <= end
                and (executor.get("removeTime") is None or executor["removeTime"] > end)
            )
        )
        return Stage(
            number,
            attempt,
            str(info.get("name", "")),
            tuple(sorted(tasks.values(), key=lambda task: task.launched)),
            int(info["numTasks"]),
            int(info["numFailedTasks"]),
            sum(bool(task.get("speculative")) for task in attempts),
            cores,
            sql.query if sql else None,
            _shuffle(sql, info) if sql else None,
            _sent(sql, number, attempt),
        )

    def _tasks(self, number: int, attempt: int) -> list[dict[str, Any]]:
        tasks: list[dict[str, Any]] = []
        while True:
            answer = self._rest.get(
                *self._path, "stages", number, attempt, "taskList", offset=len(tasks), length=PAGE
            )
            page = records(answer, "tasks", self._rest.address)
            tasks += page
            if len(page) < PAGE:
                return tasks

    def _jobs(self) -> dict[int, frozenset[int]]:
        """The jobs of every stage."""
        jobs: dict[int, frozenset[int]] = {}
        for job in records(self._rest.get(*self._path, "jobs"), "jobs", self._rest.address):
            for stage in job["stageIds"]:
                jobs[stage] = jobs.get(stage, frozenset()) | {job["jobId"]}
        return jobs

    def _executors(self) -> list[dict[str, Any]]:
        return records(self._rest.get(*self._path, "allexecutors"), "executors", self._rest.address)

    def _queries(self) -> tuple[dict[int, int], set[int]]:
        """The query of every job that belongs to one, and the queries that run."""
        answer = self._rest.get(
            *self._path, "sql", details="false", planDescription="false", length=1_000_000
        )
        known = records(answer, "queries", self._rest.address)
        kinds = ("runningJobIds", "successJobIds", "failedJobIds")
        jobs = {job: query["id"] for query in known for kind in kinds for job in query.get(kind) or ()}
        return jobs, {query["id"] for query in known if query.get("status") == "RUNNING"}

    def _sql(self, number: int) -> _Sql:
        """A query with its plan; that of a query which runs may still change."""
        if number not in self._known:
            answer = self._rest.get(*self._path, "sql", number, details="true", planDescription="true")
            if answer.get("status") == "RUNNING":
                return _sql(answer)
            self._known[number] = _sql(answer)
        return self._known[number]


def _some(known: list[dict[str, Any]]) -> str:
    """A few applications to choose from."""
    names = ", ".join(
        f"{application['id']} ({application.get('name', '')})"[:80] for application in known[:3]
    )
    more = f" and {len(known) - 3} more" if len(known) > 3 else ""
    return f"; it knows {names}{more}" if names else ""


def _sql(info: dict[str, Any]) -> _Sql:
    plans = _trees(info)
    found: dict[int, Shuffle] = {}
    source = ""
    for plan in plans:
        found.update(shuffles(plan))
        source = source or source_kind(plan)
    metrics: dict[int, Mapping[str, str]] = {
        node["nodeId"]: {metric["name"]: str(metric["value"]) for metric in node.get("metrics") or ()}
        for node in info.get("nodes") or ()
    }
    sizes = {
        number: int(_amount(values["data size"]))
        for number, values in metrics.items()
        if values.get("data size")
    }
    description = " ".join(str(info.get("description") or "").split())
    return _Sql(Query(info["id"], description, source), found, sizes, metrics)


def _trees(info: dict[str, Any]) -> list[dict[str, Any]]:
    """The plan as in an event: a tree of nodes, whose counters have the number of their node."""
    texts = node_texts(str(info.get("planDescription") or ""))
    nodes: dict[int, dict[str, Any]] = {}
    for node in sorted(info.get("nodes") or (), key=lambda node: node["nodeId"]):
        number, name = node["nodeId"], str(node.get("nodeName", ""))
        text = str(node.get("desc") or "")
        left = texts.get(re.split(r"[( ]", name, maxsplit=1)[0])
        if not text and left:
            text = left.pop(0)
        metrics = [{"name": metric["name"], "accumulatorId": number} for metric in node.get("metrics") or ()]
        nodes[number] = {"nodeName": name, "simpleString": text, "metrics": metrics, "children": []}
    below = set()
    for edge in sorted(info.get("edges") or (), key=lambda edge: edge["fromId"]):
        if edge["fromId"] in nodes and edge["toId"] in nodes and edge["fromId"] > edge["toId"]:
            nodes[edge["toId"]]["children"].append(nodes[edge["fromId"]])
            below.add(edge["fromId"])
    return [node for number, node in nodes.items() if number not in below]


def _shuffle(sql: _Sql, stage: dict[str, Any]) -> Shuffle | None:
    """The shuffle that a stage read: of several, one that Spark has split, else the one with the most records."""
    place = (stage["stageId"], stage["attemptId"])
    read: list[tuple[bool, int, Shuffle]] = []
    for number, shuffle in sql.shuffles.items():
        metrics = sql.metrics.get(number, {})
        stages = {
            (int(match[1]), int(match[2]))
            for name, value in metrics.items()
            if name.endswith((" read", "fetch wait time")) and (match := _STAGE.search(value))
        }
        rows = _count(metrics.get("records read", ""))
        if place in stages or (not stages and rows and rows == stage.get("shuffleReadRecords")):
            read.append((shuffle.split_by_spark, rows, shuffle))
    if not read:
        return None
    *_, shuffle = max(read, key=lambda item: item[:2])
    return shuffle.sized(sql.sizes)


def _of_stage(sql: _Sql | None, name: str, number: int, attempt: int) -> Iterator[tuple[str, int]]:
    """The values of a metric that this stage has the largest part of, each with the task that has it."""
    for metrics in sql.metrics.values() if sql else ():
        value = metrics.get(name, "")
        match = _STAGE.search(value)
        if match and (int(match[1]), int(match[2])) == (number, attempt):
            yield value, int(match[3])


def _starting(sql: _Sql | None, number: int, attempt: int) -> dict[int, float]:
    """Seconds until the Python worker was ready, of the task for which it took longest: no other is named."""
    starting: dict[int, float] = {}
    for name in _PYTHON_START:
        for value, task in _of_stage(sql, name, number, attempt):
            amounts = _AMOUNT.findall(value.partition("(stage ")[0])
            if amounts:
                starting[task] = starting.get(task, 0.0) + _size(*amounts[-1])
    return starting


def _sent(sql: _Sql | None, number: int, attempt: int) -> int:
    return max((int(_amount(value)) for value, _ in _of_stage(sql, _PYTHON_SENT, number, attempt)), default=0)


def _amount(text: str) -> float:
    """The total of a size or a time as the plan shows it.

    >>> _amount("total (min, med, max (stageId: taskId))\\n1.5 KiB (0.0 B, 1.0 KiB, 1.0 KiB (stage 6.0: task 21))")
    1536.0
    """
    match = _AMOUNT.search(text)
    return _size(match[1], match[2]) if match else 0.0


def _size(number: str, unit: str) -> float:
    try:
        return float(number.replace(",", "")) * _UNITS[unit]
    except ValueError:
        return 0.0


def _count(text: str) -> int:
    digits = text.replace(",", "").strip()
    return int(digits) if digits.isdigit() else 0


def _length(stage: dict[str, Any]) -> float:
    """Seconds from a stage's first task to its end, or to now."""
    begin = stage.get("firstTaskLaunchedTime") or stage.get("submissionTime")
    if not begin:
        return 0.0
    end = stage.get("completionTime")
    return (_seconds(end) if end else datetime.now(UTC).timestamp()) - _seconds(begin)


def _seconds(text: str) -> float:
    """A time of the REST API, such as `2026-01-31T12:00:00.000GMT`."""
    try:
        return datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fGMT").replace(tzinfo=UTC).timestamp()
    except ValueError:
        raise KeyError("a time") from None


def _task(info: dict[str, Any], starting: float) -> Task:
    metrics = info.get("taskMetrics") or {}
    shuffle, source = metrics.get("shuffleReadMetrics") or {}, metrics.get("inputMetrics") or {}
    seconds = info["duration"] / 1000
    return Task(
        info["index"],
        str(info["host"]),
        _seconds(info["launchTime"]),
        seconds,
        metrics.get("executorRunTime", 0) / 1000,
        metrics.get("jvmGcTime", 0) / 1000,
        shuffle.get("fetchWaitTime", 0) / 1000,
        starting if starting <= seconds else 0.0,
        metrics.get("memoryBytesSpilled", 0) + metrics.get("diskBytesSpilled", 0),
        shuffle.get("recordsRead", 0),
        shuffle.get("remoteBytesRead", 0) + shuffle.get("localBytesRead", 0),
        source.get("recordsRead", 0),
        source.get("bytesRead", 0),
    )
