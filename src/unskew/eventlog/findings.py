"""The stages of a log whose tasks were unequal, and what that cost."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unskew.eventlog.causes import Advice, Cause, advise, cause_of
from unskew.eventlog.events import EventLog
from unskew.eventlog.stages import Stage, Task

LEAST_SECONDS = 0.5
LEAST_SHARE = 0.1
"""A stage is named if it lost this many seconds and this share of its length."""


@dataclass(frozen=True)
class Finding:
    """A stage that could have been shorter: by `saved` seconds at most, for a key cannot be cut in pieces."""

    stage: Stage
    cause: Cause
    saved: float
    advice: Advice

    def to_dict(self) -> dict[str, Any]:
        """Everything but the tasks one by one as plain values, for JSON."""
        stage = self.stage
        shuffle, query = stage.shuffle, stage.query
        return {
            "stage": stage.number,
            "attempt": stage.attempt,
            "name": stage.name,
            "query": None if query is None else {"id": query.number, "description": query.description},
            "operator": shuffle.operator if shuffle else "",
            "key": list(shuffle.key) if shuffle else [],
            "partitioning": str(shuffle.partitioning) if shuffle else None,
            "skew_join_by_spark": bool(shuffle and shuffle.split_by_spark),
            "cause": str(self.cause),
            "fixable": self.advice.fixable,
            "advice": self.advice.text,
            "seconds": stage.length,
            "seconds_if_even": stage.length - self.saved,
            "seconds_saved": self.saved,
            "cores": stage.width,
            "tasks": _task_figures(stage),
            "longest_task": {
                "index": stage.longest.index,
                "host": stage.longest.host,
                **{name: getattr(stage.longest, field) for name, field in _AMOUNTS.items()},
            },
            "mean_task": {name: _mean(stage.tasks, field) for name, field in _AMOUNTS.items()},
        }


@dataclass(frozen=True)
class LogDiagnosis:
    """What a log says about one application.

    `uneven` stages lost time to unequal or too few tasks: `saved` is how much, as if stages ran one after the
    other, and `saved_by_unskew` the part of it that another placement of keys could save. `findings` are the
    worst of them, the worst first. `shuffle_local` and `shuffle_remote` are the bytes that tasks read from shuffles,
    on their own host and over the network, of all attempts.
    """

    application: str
    application_id: str
    spark_version: str
    finished: bool
    stages: int
    tasks: int
    failed_attempts: int
    task_seconds: float
    shuffle_local: int
    shuffle_remote: int
    uneven: int
    saved: float
    saved_by_unskew: float
    findings: tuple[Finding, ...]

    @property
    def headline(self) -> str:
        """The whole diagnosis in a sentence or two."""
        if not self.tasks:
            return "No task has finished in this log."
        if not self.findings:
            least = f"{LEAST_SECONDS} s and {LEAST_SHARE:.0%} of its time"
            return f"None of {self.stages:,} stages lost {least} to unequal tasks."
        worst = self.findings[0]
        text = (
            f"{self.uneven:,} of {self.stages:,} stages waited for a few long tasks; even ones would have saved up to "
            f"{self.saved:.1f} s, {self.saved_by_unskew:.1f} s of it where unskew could place the keys. The worst is "
            f"stage {worst.stage.label}: {worst.cause}, {worst.saved:.1f} s of {worst.stage.length:.1f} s."
        )
        return text if self.finished else f"{text} The application had not ended when the log was read."

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, for JSON."""
        return {
            "application": self.application,
            "application_id": self.application_id,
            "spark_version": self.spark_version,
            "finished": self.finished,
            "stages": self.stages,
            "tasks": self.tasks,
            "failed_attempts": self.failed_attempts,
            "task_seconds": self.task_seconds,
            "shuffle_local_bytes": self.shuffle_local,
            "shuffle_remote_bytes": self.shuffle_remote,
            "uneven_stages": self.uneven,
            "seconds_saved": self.saved,
            "seconds_saved_by_unskew": self.saved_by_unskew,
            "advice": self.headline,
            "findings": [finding.to_dict() for finding in self.findings],
        }


def diagnose_log(
    path: str | Path, *, top: int = 20, progress: Callable[[str], None] = lambda _: None
) -> LogDiagnosis:
    """Judge the stages of the application whose event log is at `path`, a file or a folder of rolled files.

    `top` is how many of the worst stages are kept, so that a log of any length takes little memory. A log
    that is still written is read as far as it goes.
    """
    log = EventLog(path, progress)
    worst: list[tuple[float, int, Finding]] = []
    stages = uneven = 0
    saved = {True: 0.0, False: 0.0}
    for stage in log.stages():
        stages += 1
        finding = judge(stage)
        if finding is None:
            continue
        uneven += 1
        saved[finding.advice.fixable] += finding.saved
        heapq.heappush(worst, (finding.saved, -uneven, finding))
        if len(worst) > top:
            heapq.heappop(worst)
    return LogDiagnosis(
        log.application,
        log.application_id,
        log.spark_version,
        log.finished,
        stages,
        log.tasks,
        log.failed_attempts,
        log.task_seconds,
        log.shuffle_local,
        log.shuffle_remote,
        uneven,
        sum(saved.values()),
        saved[True],
        tuple(finding for *_, finding in sorted(worst, key=lambda item: item[:2], reverse=True)),
    )


def judge(stage: Stage) -> Finding | None:
    """What a stage lost to unequal tasks, or to tasks too few for its cores; nothing if it hardly lost any time."""
    if not stage.tasks:
        return None
    if _matters(saved := stage.length - stage.even, stage.length):
        cause = cause_of(stage)
        return Finding(stage, cause, saved, advise(cause, stage.shuffle))
    spread = float(stage.seconds.sum()) / max(stage.cores, 1)
    if len(stage.tasks) < stage.cores and _matters(saved := stage.length - spread, stage.length):
        return Finding(stage, Cause.FEW, saved, advise(Cause.FEW, stage.shuffle))
    return None


_AMOUNTS = {
    "seconds": "seconds",
    "shuffle_records": "shuffle_records",
    "shuffle_bytes": "shuffle_bytes",
    "input_records": "input_records",
    "input_bytes": "input_bytes",
    "gc_seconds": "collecting",
    "spilled_bytes": "spilled",
}


def _task_figures(stage: Stage) -> dict[str, Any]:
    return {
        "succeeded": len(stage.tasks),
        "expected": stage.expected,
        "failed_attempts": stage.failed,
        "speculative_attempts": stage.speculative,
        "max_seconds": stage.longest.seconds,
        "mean_seconds": float(stage.seconds.mean()),
        "median_seconds": float(np.median(stage.seconds)),
    }


def _mean(tasks: Sequence[Task], field: str) -> float:
    return float(np.mean([getattr(task, field) for task in tasks]))


def _matters(saved: float, length: float) -> bool:
    return saved >= LEAST_SECONDS and saved >= LEAST_SHARE * length
