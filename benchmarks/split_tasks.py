"""What the tasks of one run did, from the event log: rows, times, bytes; and what other numbers of cores would take.

The time on other cores is modelled, not measured: the measured times of all tasks of a stage are put on so many cores
in the order of their launch, stage after stage (together, if they ran at the same time), and the time in which no task
ran (planning, scheduling) is added.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.harm_log import Log
from unskew.core.scheduling import makespan


@dataclass(frozen=True)
class Run:
    """One run: its wall time, its tasks by stage, and the operator whose output counts as rows of a task."""

    seconds: float
    tasks: dict[int, list[dict[str, Any]]]
    outputs: frozenset[int]

    def record(self) -> dict[str, float]:
        """What is reported."""
        rows, seconds = self._last()
        return {
            "seconds": self.seconds,
            "largest_over_mean_rows": _over_mean(rows),
            "largest_over_mean_seconds": _over_mean(seconds),
            "shuffled_bytes": self._written("Shuffle Bytes Written"),
            "shuffled_records": self._written("Shuffle Records Written"),
            "peak_memory": self._most("Peak Execution Memory"),
            "spilled_bytes": self._spilled(),
            "modelled_16_cores": self.modelled(16),
            "modelled_64_cores": self.modelled(64),
        }

    def modelled(self, cores: int) -> float:
        """Modelled seconds on so many cores."""
        waves = (np.array([_seconds(task) for task in tasks]) for tasks in self._waves())
        return sum(makespan(wave, cores) for wave in waves) + self._idle()

    def _waves(self) -> list[list[dict[str, Any]]]:
        """The tasks of stages that ran at the same time, which do not depend on each other, together."""
        waves: list[list[dict[str, Any]]] = []
        until = -1
        for tasks in sorted(self.tasks.values(), key=lambda stage: stage[0]["Task Info"]["Launch Time"]):
            if tasks[0]["Task Info"]["Launch Time"] >= until:
                waves.append([])
            waves[-1] += tasks
            until = max(until, *(task["Task Info"]["Finish Time"] for task in tasks))
        return waves

    def _last(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows read plus rows emitted, and seconds, of each task of the stage that emitted the output."""
        by_stage = {stage: [self._emitted(task) for task in tasks] for stage, tasks in self.tasks.items()}
        # an operator that emits nothing, or does not count it, is in the stage that reads most
        read = {stage: sum(_read(task) for task in tasks) for stage, tasks in self.tasks.items()}
        stage = max(by_stage, key=lambda number: (sum(by_stage[number]) > 0, read[number], number))
        tasks = self.tasks[stage]
        rows = np.array([_read(task) for task in tasks], float) + np.array(by_stage[stage], float)
        return rows, np.array([_seconds(task) for task in tasks])

    def _emitted(self, task: dict[str, Any]) -> int:
        updates = task["Task Info"].get("Accumulables", ())
        return sum(int(each["Update"]) for each in updates if each["ID"] in self.outputs and "Update" in each)

    def _written(self, name: str) -> int:
        return sum(
            (_metrics(task).get("Shuffle Write Metrics") or {}).get(name, 0)
            for tasks in self.tasks.values()
            for task in tasks
        )

    def _most(self, name: str) -> int:
        return max(
            (_metrics(task).get(name, 0) for tasks in self.tasks.values() for task in tasks), default=0
        )

    def _spilled(self) -> int:
        return sum(
            _metrics(task).get("Disk Bytes Spilled", 0) for tasks in self.tasks.values() for task in tasks
        )

    def _idle(self) -> float:
        """Seconds of the wall time in which no task ran."""
        spans = sorted(
            (task["Task Info"]["Launch Time"], task["Task Info"]["Finish Time"])
            for tasks in self.tasks.values()
            for task in tasks
        )
        busy, until = 0.0, 0.0
        for start, end in spans:
            busy += max(0.0, end - max(start, until))
            until = max(until, end)
        return max(0.0, self.seconds - busy / 1000)


def measured(log: Log, run: Callable[[], Any], operator: str) -> Run:
    """Run it once. `operator` is a word in the name of the operator whose output rows count, such as Join."""
    log.restart()
    started = time.perf_counter()
    run()
    seconds = time.perf_counter() - started
    tasks: dict[int, list[dict[str, Any]]] = defaultdict(list)
    outputs: set[int] = set()
    for event in log.events():
        if event["Event"] == "SparkListenerTaskEnd" and not event["Task Info"]["Failed"]:
            tasks[event["Stage ID"]].append(event)
        elif "sparkPlanInfo" in event:
            outputs |= _output_counters(event["sparkPlanInfo"], operator)
    for stage in tasks.values():
        stage.sort(key=lambda task: task["Task Info"]["Launch Time"])
    return Run(seconds, dict(tasks), frozenset(outputs))


def _output_counters(plan: dict[str, Any], operator: str) -> set[int]:
    """The numbers of the accumulators that count the output rows of these operators."""
    mine = {
        metric["accumulatorId"]
        for metric in plan["metrics"]
        if operator in plan["nodeName"] and metric["name"] == "number of output rows"
    }
    return mine.union(*(_output_counters(child, operator) for child in plan["children"]))


def _metrics(task: dict[str, Any]) -> dict[str, Any]:
    return task.get("Task Metrics") or {}


def _seconds(task: dict[str, Any]) -> float:
    return float(task["Task Info"]["Finish Time"] - task["Task Info"]["Launch Time"]) / 1000


def _read(task: dict[str, Any]) -> int:
    metrics = _metrics(task).get("Shuffle Read Metrics") or {}
    return int(metrics.get("Total Records Read", 0))


def _over_mean(figures: np.ndarray) -> float:
    return float(figures.max() / figures.mean()) if len(figures) and figures.mean() > 0 else 1.0
