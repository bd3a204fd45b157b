"""Run experiments: what is saved is not computed again, and a stopped run continues where it stopped."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Protocol

from research.papers.experiment import Experiment, Parameters, Record, Timed
from research.papers.provenance import commit, machine
from research.papers.records import Points, Task, as_json, load, save

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Progress(Protocol):
    """Called before every point."""

    def __call__(self, name: str, done: int, points: int, /) -> None:
        """Get the experiment's name, the number of its points that are done, and the number of all its points."""
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

    An experiment that is saved with the same parameters and seed is loaded instead, unless `again` is set. All
    experiments on Spark share one session, which starts when the first of them is computed.
    """
    session = _Session()
    stamp = {"commit": commit(), "machine": machine()}
    records = []
    for experiment in experiments:
        task = Task(experiment, quick, folder)
        record = None if again else load(task)
        if record is None:
            if again:
                Points(task).delete()
            _run(task, session, stamp, progress)
            record = load(task)
            assert record is not None  # just written
        records.append(record)
    return records


def compute(experiment: Experiment, **changed: Any) -> Record:
    """One experiment with some parameters changed; nothing is saved."""
    variant = replace(experiment, parameters={**experiment.parameters, **changed})
    with TemporaryDirectory() as folder:
        return run_all([variant], Path(folder))[0]


def _run(task: Task, session: _Session, stamp: Parameters, progress: Progress) -> None:
    name = task.experiment.name
    points = Points(task)
    run = _Run(task, points, session, progress, stamp["commit"])
    progress(name, 0, 1)
    results = as_json(task.experiment.compute(run))
    progress(name, 1, 1)
    seconds = sum(point["seconds"] for point in run.times)
    # a run that continued after a commit has points of both
    commits = ", ".join(dict.fromkeys(run.commits or [stamp["commit"]]))
    save(task, results, {"seconds": seconds, "points": run.times}, {**stamp, "commit": commits})
    points.delete()


class _Run:
    """The `Run` of a task: measures points and saves each at once."""

    def __init__(
        self, task: Task, points: Points, session: _Session, progress: Progress, commit: str
    ) -> None:
        self._commit = commit
        self._experiment = task.experiment
        self._points = points
        self._session = session
        self._progress = progress
        self.parameters: Parameters = task.header["parameters"]
        self.seed = task.experiment.seed
        self.times: list[dict[str, Any]] = []
        self.commits: list[str] = []

    @property
    def spark(self) -> SparkSession:
        return self._spark("local[*]")

    def spark_on(self, threads: int) -> SparkSession:
        return self._spark(f"local[{threads}]")

    def _spark(self, master: str) -> SparkSession:
        if not self._experiment.needs_spark:
            raise RuntimeError(f"{self._experiment.name} uses Spark: declare it with needs_spark=True")
        return self._session.on(master)

    def each(self, points: Sequence[Parameters], measure: Callable[..., Any]) -> list[Any]:
        figures = []
        for number, point in enumerate(map(as_json, points)):
            self._progress(self._experiment.name, number, len(points))
            outcome = self._points.get(point)
            if outcome is None:
                outcome = {**_measure(measure, point), "commit": self._commit}
                self._points.add(point, outcome)
            figures.append(outcome["figures"])
            self.times.append(outcome["times"])
            self.commits.append(outcome.get("commit", "unknown"))
        return figures


class _Session:
    """A Spark session that starts when it is first needed, and again where another master is needed.

    A session that something else has started is used as it is, with its own number of threads.
    """

    def __init__(self) -> None:
        self._own: SparkSession | None = None
        self._master = ""

    def on(self, master: str) -> SparkSession:
        from pyspark.sql import SparkSession

        from unskew.spark.session import quiet_session

        if self._own is not None and self._master != master:
            self._own.stop()
            self._own = None
        if self._own is None:
            active = SparkSession.getActiveSession()
            if active is not None:
                return active
            # without it workers run the first Python on the PATH
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
            self._own, self._master = quiet_session(master, {}), master
        return self._own


def _measure(measure: Callable[..., Any], point: Parameters) -> dict[str, Any]:
    started = time.perf_counter()
    outcome = measure(**point)
    times: dict[str, Any] = {"seconds": time.perf_counter() - started}
    if isinstance(outcome, Timed):
        times["parts"] = dict(outcome.seconds)
        outcome = outcome.figures
    return {"figures": as_json(outcome), "times": as_json(times)}
