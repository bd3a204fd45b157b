"""One job in three ways: Spark as it comes, Spark as an expert tunes it, unskew; what each took, task by task."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unskew.demo.session import Tasks, settings
from unskew.report.charts import spans
from unskew.report.page import Card, Cards, Chart, Column, Row, Section, Table, Text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PLAIN, TUNED, UNSKEW = "Spark as it comes", "Spark, tuned", "unskew"

_STRIP = 32
"""Tasks that fit on a line; of more, the longest are shown."""


@dataclass(frozen=True)
class Way:
    """How the job is written, and Spark's settings for it."""

    name: str
    job: Callable[[], DataFrame]
    settings: Mapping[str, str]


@dataclass(frozen=True)
class Run:
    """What one way took, from the call to the result, and when the tasks of its longest stage worked."""

    name: str
    seconds: float
    tasks: tuple[tuple[int, float, float], ...]

    @property
    def strip(self) -> str:
        """Its tasks as bars, the longest first."""
        lengths = sorted((ended - started for _, started, ended in self.tasks), reverse=True)[:_STRIP]
        return "".join("▁▂▃▄▅▆▇█"[min(7, int(8 * length / lengths[0]))] for length in lengths)


@dataclass(frozen=True)
class Outcome:
    """The runs of one act; all gave the same result."""

    title: str
    text: str
    cores: int
    runs: tuple[Run, ...]

    @property
    def gain(self) -> float:
        """Spark as it comes over unskew, which includes measuring and planning."""
        return self.runs[0].seconds / self.runs[-1].seconds

    @property
    def verdict(self) -> str:
        """What the times say, in a sentence."""
        tuned = self.runs[1].seconds / self.runs[-1].seconds
        if tuned > 1.1:
            against = f"{tuned:.1f} × as fast as the tuned one"
        elif tuned < 1 / 1.1:
            against = f"the tuned one is {1 / tuned:.1f} × as fast as unskew, if you know what to set"
        else:
            against = "the tuned one is as good, if you know what to set"
        return f"unskew is {self.gain:.1f} × as fast as Spark as it comes; {against}"

    def section(self) -> Section:
        """The act as a section of a page."""
        cards = [
            Card(
                run.name,
                f"{run.seconds:.1f} s",
                f"{len(run.tasks)} tasks, the longest {max(end - begin for _, begin, end in run.tasks):.1f} s",
                strong=run.name == UNSKEW,
            )
            for run in self.runs
        ]
        cards.append(
            Card("speedup", f"{self.gain:.2f} ×", "Spark as it comes over unskew, measuring included")
        )
        return Section(self.title, [Cards(cards), Text(f"{self.text} {self.verdict}."), _timeline(self.runs)])


def compare(spark: SparkSession, ways: Sequence[Way], step: Callable[[str], None]) -> tuple[Run, ...]:
    """Run each way; the results must be equal."""
    runs, results = [], []
    for way in ways:
        step(way.name)
        with settings(spark, way.settings):
            tasks = Tasks(spark)
            started = time.perf_counter()
            rows = way.job().toArrow().to_pylist()
            seconds = time.perf_counter() - started
            stage = tasks.longest_stage()
        first = min(task.launched for task in stage.tasks)
        spans_of = [
            (task.index, task.launched - first, task.launched - first + task.seconds) for task in stage.tasks
        ]
        runs.append(Run(way.name, seconds, tuple(sorted(spans_of))))
        results.append(sorted(map(_values, rows)))
        if results[-1] != results[0]:
            raise RuntimeError(f"{way.name} gives another result than {ways[0].name}: please report this bug")
    return tuple(runs)


def _values(row: dict[str, Any]) -> str:
    return repr(sorted(row.items()))


def _timeline(runs: Sequence[Run]) -> Chart:
    rows: list[Row] = [
        {"run": run.name, "task": task, "from": started, "to": ended, "seconds": ended - started}
        for run in runs
        for task, started, ended in run.tasks
    ]
    columns = [
        Column("run", "run"),
        Column("task", "task", "{:d}"),
        Column("from", "from", "{:.2f} s"),
        Column("to", "to", "{:.2f} s"),
    ]
    return Chart(
        "Every task of the longest stage",
        spans(rows, runs=[run.name for run in runs]),
        Table(columns, rows),
        "Each row is a task, each bar the time it worked. The stage ends with its last bar.",
    )
