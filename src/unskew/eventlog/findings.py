"""What an event log, or Spark's web interface, shows: the stages whose tasks were unequal, and what that cost."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from unskew.eventlog.causes import LEAST_SPILL, Advice, Cause, advise, cause_of, has_tiny_groups
from unskew.eventlog.events import EventLog
from unskew.eventlog.rest import RestApplication
from unskew.eventlog.stages import Stage, Task

LEAST_SECONDS = 0.5
LEAST_SHARE = 0.1
"""A stage is a finding if it lost this many seconds and this share of its length."""


@dataclass(frozen=True, repr=False)
class Finding:
    """A stage that could have been shorter, by at most `saved` seconds: a key cannot be split."""

    stage: Stage
    cause: Cause
    saved: float
    advice: Advice

    def __repr__(self) -> str:
        helps = "unskew could help" if self.advice.fixable else "not for unskew"
        cost = f"{self.saved:.1f} s of {self.stage.length:.1f} s"
        return f"Finding(stage {self.stage.label}: {self.cause}, {cost}, {helps})"

    def to_dict(self) -> dict[str, Any]:
        """Everything except the single tasks as plain values, for JSON."""
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


@dataclass(frozen=True, repr=False)
class LogDiagnosis:
    """What a log says about one application.

    `uneven` counts the stages that lost time to unequal or too few tasks. `saved` is how much they lost, as if stages
    ran one after the other, and `saved_by_unskew` the part of it that another placement of keys could save. `findings`
    are the worst of them, worst first. `shuffle_local` and `shuffle_remote` are the bytes that all attempts read from
    shuffles, on their own host and over the network.
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

    def __repr__(self) -> str:
        name = self.application or self.application_id
        return (
            f"LogDiagnosis({name!r}, {self.uneven:,} of {self.stages:,} stages uneven, "
            f"{self.saved:.1f} s could be saved, {self.saved_by_unskew:.1f} s of it by unskew)"
        )

    @property
    def headline(self) -> str:
        """The whole diagnosis in a sentence or two."""
        if not self.tasks:
            return "No task has finished in this log."
        if not self.uneven and self.findings:
            others = ", ".join(
                f"stage {finding.stage.label}: {finding.cause}" for finding in self.findings[:3]
            )
            return f"No stage lost time to unequal tasks, but something else cost time. {others}."
        if not self.findings:
            least = f"{LEAST_SECONDS} s and {LEAST_SHARE:.0%} of its time"
            return f"None of {self.stages:,} stages lost {least} to unequal tasks."
        worst = self.findings[0]
        text = (
            f"{self.uneven:,} of {self.stages:,} stages waited for a few long tasks. Even tasks would have saved up to "
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


class Application(Protocol):
    """What is known about an application, from its log or from Spark's web interface; complete after all stages."""

    application: str
    application_id: str
    spark_version: str
    finished: bool
    tasks: int
    failed_attempts: int
    task_seconds: float
    shuffle_local: int
    shuffle_remote: int

    def stages(self) -> Iterator[Stage]:
        """Every stage."""


def diagnose_log(
    path: str | Path, *, top: int = 20, progress: Callable[[str], None] = lambda _: None
) -> LogDiagnosis:
    """Find the uneven stages of an application in its event log at `path`, a file or a folder of rolled files.

    Only the `top` worst stages are held, so that a log of any length takes little memory. A log that is still
    being written is read as far as it goes.
    """
    return diagnose_application(EventLog(path, progress), top=top)


def diagnose_rest(
    address: str,
    application_id: str | None = None,
    *,
    top: int = 20,
    progress: Callable[[str], None] = lambda _: None,
) -> LogDiagnosis:
    """Find the uneven stages of an application in Spark's web interface, a driver's or a History Server's."""
    source = RestApplication(address, application_id, shortest=LEAST_SECONDS, progress=progress)
    return diagnose_application(source, top=top)


def diagnose_application(log: Application, *, top: int) -> LogDiagnosis:
    """Find the uneven stages of an application, and hold the `top` worst of them."""
    worst: list[tuple[float, int, Finding]] = []
    stages = uneven = 0
    saved = {True: 0.0, False: 0.0}
    for number, stage in enumerate(log.stages()):
        stages += 1
        finding = finding_of(stage)
        if finding is None:
            continue
        uneven += finding.saved > 0
        saved[finding.advice.fixable] += finding.saved
        heapq.heappush(worst, (finding.saved, -number, finding))
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


def finding_of(stage: Stage) -> Finding | None:
    """What a stage lost to unequal tasks or to having fewer tasks than cores, or what else made it slow; else None."""
    if not stage.tasks:
        return None
    if _matters(saved := stage.length - stage.even_length, stage.length):
        return _finding(stage, cause_of(stage), saved)
    spread = float(stage.seconds.sum()) / max(stage.cores, 1)
    if len(stage.tasks) < stage.cores and _matters(saved := stage.length - spread, stage.length):
        return _finding(stage, Cause.FEW, saved)
    if stage.length < LEAST_SECONDS:
        return None
    if has_tiny_groups(stage):
        return _finding(stage, Cause.TINY, 0.0)
    if sum(task.spilled for task in stage.tasks) >= LEAST_SPILL:
        return _finding(stage, Cause.SPILL, 0.0)
    return None


def _finding(stage: Stage, cause: Cause, saved: float) -> Finding:
    return Finding(
        stage, cause, saved, advise(cause, stage.shuffle, stage.query.source if stage.query else "")
    )


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
