"""Grouped jobs on Spark whose function waits: wall times on as many threads as the paper has cores, answers checked.

A thread that sleeps needs no core, so a machine with few cores can run the paper's number of tasks at once. What Spark
does besides waiting, and what unskew does to measure and plan, needs cores and is part of every time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from research.papers.experiment import Record, Timed
from research.papers.grouped_jobs import settings, stored
from unskew.core.histogram import Floats
from unskew.core.loads import imbalance

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Grouping: TypeAlias = Callable[["DataFrame"], Any]
"""Groups the rows by their key, as plain Spark or unskew does."""

SCHEMA = "slot long, key long, rows long, seconds double"


@dataclass(frozen=True, eq=False)
class Waits:
    """The rows of a job: the key of each, and the seconds that processing it takes."""

    keys: NDArray[np.int64]
    seconds: Floats

    @property
    def heaviest(self) -> float:
        """The seconds of the heaviest key, which no placement of whole keys can divide."""
        keys, at = np.unique(self.keys, return_inverse=True)
        return float(np.bincount(at, self.seconds, len(keys)).max())


def compare(
    spark: SparkSession, waits: Waits, groupings: Mapping[str, Grouping], *, slots: int, runs: int
) -> Timed:
    """Run the job with each grouping, in turns, `runs` times after one that starts the workers; wall times as times.

    The figures are, by grouping, the rows of the slots and the seconds that the fullest slot waits; beside them the
    seconds of all rows and of the heaviest key.
    """
    columns = {"key": waits.keys, "seconds": waits.seconds}
    placed: dict[str, pa.Table] = {}
    times: dict[str, float] = {}
    with stored(spark, columns) as df, settings(df, slots):
        for group in groupings.values():
            _run(group, df, wait=False)
        for run in range(runs):
            for name, group in groupings.items():
                times[f"{name} {run}"], placed[name] = _run(group, df, wait=True)
                _check(placed[name], waits)
    figures: dict[str, Any] = {"total": float(waits.seconds.sum()), "heaviest": waits.heaviest}
    for name, rows in placed.items():
        by_slot = [
            np.bincount(rows["slot"].to_numpy(), rows[column].to_numpy(), slots)
            for column in ("rows", "seconds")
        ]
        figures |= {f"{name} rows": by_slot[0].astype(int).tolist(), f"{name} fullest": by_slot[1].max()}
    return Timed(figures, times)


def _run(group: Grouping, df: DataFrame, *, wait: bool) -> tuple[float, pa.Table]:
    started = time.perf_counter()
    rows = group(df).applyInArrow(_sleeper(wait=wait), SCHEMA).toArrow()
    return time.perf_counter() - started, rows


def _sleeper(*, wait: bool) -> Callable[[pa.Table], pa.Table]:
    def sleep(rows: pa.Table) -> pa.Table:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None  # this runs in a task
        seconds = pc.sum(rows["seconds"]).as_py()
        time.sleep(seconds if wait else 0)
        return pa.table(
            {
                "slot": [context.partitionId()],
                "key": rows["key"][:1],
                "rows": [len(rows)],
                "seconds": [seconds],
            }
        )

    return sleep


def _check(rows: pa.Table, waits: Waits) -> None:
    """Fail unless every key came once, with all its rows."""
    ordered = rows.sort_by("key")
    expected = np.unique(waits.keys, return_counts=True)
    ours = [ordered[name].to_numpy() for name in ("key", "rows")]
    if not all(np.array_equal(a, b) for a, b in zip(ours, expected, strict=True)):
        raise RuntimeError(
            f"the job saw {len(ours[0])} groups with {ours[1].sum()} rows, where there are {len(expected[0])} keys "
            f"with {len(waits.keys)} rows, or some key's rows are wrong: nothing is recorded"
        )


@dataclass(frozen=True)
class Outcome:
    """One point of a record: the wall seconds of two groupings, run by run, and what was possible."""

    figures: Mapping[str, Any]
    seconds: Mapping[str, Sequence[float]]
    threads: int

    @classmethod
    def at(cls, record: Record, number: int, figures: Mapping[str, Any], threads: int) -> Outcome:
        """The point with this number; `figures` are what `compare` gave for it."""
        parts: dict[str, float] = record.times["points"][number]["parts"]
        by_name: dict[str, list[float]] = {}
        for name, seconds in parts.items():
            by_name.setdefault(name.rsplit(" ", 1)[0], []).append(seconds)
        return cls(figures, by_name, threads)

    def median(self, name: str) -> float:
        """The median wall seconds."""
        return float(np.median(self.seconds[name]))

    def speedup(self, slow: str, fast: str) -> float:
        """Wall seconds of one over those of the other."""
        return self.median(slow) / self.median(fast)

    def faster(self, slow: str, fast: str) -> bool | None:
        """Whether every run of one was shorter than every run of the other; None if neither is so."""
        if max(self.seconds[fast]) < min(self.seconds[slow]):
            return True
        return False if min(self.seconds[fast]) > max(self.seconds[slow]) else None

    def possible(self, slow: str) -> float:
        """The speedup if a stage took only its waits and the placement were perfect."""
        best = max(self.figures["heaviest"], self.figures["total"] / self.threads)
        return float(self.figures[f"{slow} fullest"] / best)

    def imbalance(self, name: str) -> float:
        """The imbalance of the rows."""
        return imbalance(np.array(self.figures[f"{name} rows"], dtype=np.float64))

    def text(self, slow: str, fast: str) -> str:
        """Both wall times with their spread, the speedup and the share of the possible gain."""
        shown = ", ".join(
            f"{name} {self.median(name):.1f} s ({min(s):.1f} to {max(s):.1f})"
            for name, s in self.seconds.items()
        )
        speedup, possible = self.speedup(slow, fast), self.possible(slow)
        gained = (
            f", {(speedup - 1) / (possible - 1):.0%} of the possible {possible:.2f} ×" if possible > 1 else ""
        )
        return f"{shown}: {speedup:.2f} ×{gained}"
