"""Run experiments: what is saved is not computed again, what was stopped goes on where it was."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Protocol

from research.papers.experiment import Experiment, Parameters, Record, Timed
from research.papers.records import Points, Task, load, plain, save
from research.papers.stamp import commit, machine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Progress(Protocol):
    """Hears of every point."""

    def __call__(self, name: str, done: int, points: int, /) -> None:
        """The experiment's name, how many of its points are done, and of how many."""
        ...


def run_all(
    experiments: Sequence[Experiment],
    folder: Path,
    *,
    quick: bool = False,
    again: bool = False,
    progress: Progress = lambda *_: None,
) -> list[Record]:
    """The records of all experiments, each saved as soon as it is done.

    One that is saved with the same parameters and seed is read instead, unless `again`. All Spark experiments
    share one session, started for the first that is computed.
    """
    session = _Session()
    stamp = {"commit": commit(), "machine": machine()}
    records = []
    for experiment in experiments:
        task = Task(experiment, quick, folder)
        record = None if again else load(task)
        if record is None:
            if again:
                Points(task).forget()
            _run(task, session, stamp, progress)
            record = load(task)
            assert record is not None  # just written
        records.append(record)
    return records


def compute(experiment: Experiment, **changed: Any) -> Record:
    """One experiment with some parameters changed, without a trace on disk."""
    other = replace(experiment, parameters={**experiment.parameters, **changed})
    with TemporaryDirectory() as folder:
        return run_all([other], Path(folder))[0]


def _run(task: Task, session: _Session, stamp: Parameters, progress: Progress) -> None:
    name = task.experiment.name
    points = Points(task)
    run = _Run(task, points, session, progress)
    progress(name, 0, 1)
    results = plain(task.experiment.compute(run))
    progress(name, 1, 1)
    seconds = sum(point["seconds"] for point in run.times)
    save(task, results, {"seconds": seconds, "points": run.times}, stamp)
    points.forget()


class _Run:
    """The `Run` of a task: measures points and keeps them at once."""

    def __init__(self, task: Task, points: Points, session: _Session, progress: Progress) -> None:
        self._experiment = task.experiment
        self._points = points
        self._session = session
        self._progress = progress
        self.parameters: Parameters = task.identity["parameters"]
        self.seed = task.experiment.seed
        self.times: list[dict[str, Any]] = []

    @property
    def spark(self) -> SparkSession:
        if not self._experiment.needs_spark:
            raise RuntimeError(f"{self._experiment.name} uses Spark: declare it with needs_spark=True")
        return self._session.spark

    def each(self, points: Sequence[Parameters], measure: Callable[..., Any]) -> list[Any]:
        found = []
        for number, given in enumerate(points):
            self._progress(self._experiment.name, number, len(points))
            point = plain(given)
            outcome = self._points.get(point)
            if outcome is None:
                outcome = _measured(measure, point)
                self._points.keep(point, outcome)
            found.append(outcome["figures"])
            self.times.append(outcome["times"])
        return found


class _Session:
    """A Spark session that starts when it is first needed."""

    @cached_property
    def spark(self) -> SparkSession:
        from unskew.spark.session import quiet_session

        os.environ.setdefault(
            "PYSPARK_PYTHON", sys.executable
        )  # else workers run whatever is first on the PATH
        return quiet_session("local[*]", {})


def _measured(measure: Callable[..., Any], point: Parameters) -> dict[str, Any]:
    started = time.perf_counter()
    outcome = measure(**point)
    times: dict[str, Any] = {"seconds": time.perf_counter() - started}
    if isinstance(outcome, Timed):
        times["parts"] = dict(outcome.seconds)
        outcome = outcome.figures
    return {"figures": plain(outcome), "times": plain(times)}
