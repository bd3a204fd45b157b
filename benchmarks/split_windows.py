"""Hot keys in windows: plain Spark, whole keys by `unskew.window`, and keys cut by `unskew.over`.

Every contender of a case runs in one session, in turns, and must give the same answer: a checksum over all rows and
results. For each: wall time, the largest task of the window's stage / the mean, by rows and by time, bytes and rows
shuffled, the memory of the largest task and what it spilled, and the time that 16 and 64 cores would take for all
stages, measuring included, one after the other, by the measured times of all tasks.

`python -m benchmarks.split_windows [scale] [turns] [memory]` prints the figures as JSON. With little memory, such as
600m at scale 1, the hot key does not fit into a task: plain Spark spills it, pieces fit.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from pyspark.sql import Column, DataFrame, SparkSession, Window, WindowSpec
from pyspark.sql import functions as F

import unskew
from benchmarks.harm_log import Log
from benchmarks.harm_run import session
from unskew import windows
from unskew.core.scheduling import makespan

HOT_SHARES = (0.5, 0.9)
SLOTS = 32
ROWS = 10_000_000
"""Rows at scale 1."""

TURNS = 3
CORES = (16, 64)
USERS = 200

CASES: dict[str, tuple[dict[str, Callable[[WindowSpec], Column]], dict[str, windows.WindowFunction]]] = {
    "running": (
        {"n": lambda w: F.row_number().over(w), "total": lambda w: F.sum("amount").over(w)},
        {"n": windows.row_number(), "total": windows.sum("amount")},
    ),
    "near": (
        {
            "before": lambda w: F.lag("amount").over(w),
            "week": lambda w: F.sum("amount").over(w.rowsBetween(-6, 0)),
        },
        {"before": windows.lag("amount"), "week": windows.sum("amount").rowsBetween(-6, 0)},
    ),
    "ranks": (
        {"place": lambda w: F.dense_rank().over(w), "share": lambda w: F.percent_rank().over(w)},
        {"place": windows.dense_rank(), "share": windows.percent_rank()},
    ),
}
"""Functions of plain Spark over a window, and ours; the order is unique, so that there is one right answer."""

Job = Callable[[], DataFrame]


def run(scale: float = 1.0, turns: int = TURNS) -> dict[str, Any]:
    """All cases at a scale; case → contender → figures."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        events = folder / "events"
        events.mkdir()
        spark = session(connect=False, events=events)
        spark.conf.set("spark.sql.shuffle.partitions", str(SLOTS))
        log = Log(spark, events)
        results: dict[str, Any] = {}
        for share in HOT_SHARES:
            clicks = _clicks(spark, folder / f"clicks-{share}", int(ROWS * scale), share)
            for case, contenders in {**_window_cases(clicks), "latest": _latest(clicks)}.items():
                name = f"{case}, hot share {share:.0%}"
                results[name] = _compared(contenders, log, turns)
                print(name, json.dumps(results[name]), file=sys.stderr, flush=True)
        spark.stop()
    return results


def _clicks(spark: SparkSession, path: Path, rows: int, share: float) -> DataFrame:
    """Rows of 201 users, of whom one has this share of them, in no order, as 64 files."""
    per_mille = int(share * 1000)
    spark.range(0, rows, 1, 64).selectExpr(
        f"if(pmod(xxhash64(id), 1000) < {per_mille}, 'hot', 'u' || pmod(xxhash64(id, 1), {USERS})) as user",
        "timestamp_micros(pmod(id * 7919, 1000003) * 1000000 + id) as at",
        "pmod(xxhash64(id, 3), 1000) as amount",
        "id",
    ).write.parquet(str(path))
    return spark.read.parquet(str(path))


def _window_cases(clicks: DataFrame) -> dict[str, dict[str, Job]]:
    def contenders(
        plain: Mapping[str, Callable[[WindowSpec], Column]], ours: dict[str, windows.WindowFunction]
    ) -> dict[str, Job]:
        def by_window(rows: DataFrame, window: WindowSpec) -> DataFrame:
            ordered = window.orderBy("at")
            return rows.withColumns({name: function(ordered) for name, function in plain.items()})

        return {
            "plain": lambda: by_window(clicks, Window.partitionBy("user")),
            "whole": lambda: by_window(*unskew.window(clicks, "user", slots=SLOTS, planner="keel")),
            "unskew": lambda: unskew.over(clicks, "user", "at", slots=SLOTS, planner="keel").withColumns(
                **ours
            ),
            "auto": lambda: unskew.over(clicks, "user", "at").withColumns(**ours),
        }

    return {case: contenders(*functions) for case, functions in CASES.items()}


def _latest(clicks: DataFrame) -> dict[str, Job]:
    newest = F.row_number().over(Window.partitionBy("user").orderBy(F.col("at").desc()))
    return {
        "plain": lambda: clicks.withColumn("n", newest).where("n = 1").drop("n"),
        "unskew": lambda: unskew.latest(clicks, "user", orderBy="at"),
    }


def _compared(contenders: Mapping[str, Job], log: Log, turns: int) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    answers: dict[str, Any] = {}
    seconds: dict[str, list[float]] = defaultdict(list)
    for _ in range(turns):
        for name, job in contenders.items():
            log.restart()
            started = time.monotonic()
            answers[name] = _checksum(job())
            seconds[name].append(round(time.monotonic() - started, 3))
            figures[name] = _tasks(log)
    return {
        name: {
            "seconds": min(seconds[name]),
            "median": statistics.median(seconds[name]),
            "answer": "equal" if answers[name] == answers["plain"] else "DIFFERS",
            **figures[name],
        }
        for name in contenders
    }


def _checksum(rows: DataFrame) -> Any:
    """A number that depends on every value of every row, and not on the order of the rows."""
    content = F.xxhash64(*rows.columns).cast("decimal(38,0)")
    return rows.agg(F.count(F.lit(1)), F.sum(content)).first()


def _tasks(log: Log) -> dict[str, Any]:
    """What the event log says of the tasks since the last restart."""
    stages: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for event in log.events():
        if event["Event"] == "SparkListenerTaskEnd" and event.get("Task Metrics"):
            stages[event["Stage ID"]].append(event["Task Metrics"])
    rows = [
        [task["Shuffle Read Metrics"]["Total Records Read"] for task in tasks] for tasks in stages.values()
    ]
    times = [[task["Executor Run Time"] / 1000 for task in tasks] for tasks in stages.values()]
    largest = max(rows, key=max, default=[0])
    longest = max(times, key=max, default=[0.0])
    every = [task for tasks in stages.values() for task in tasks]
    return {
        "largest_by_rows": round(max(largest) / max(sum(largest) / SLOTS, 1e-9), 3),
        "largest_by_time": round(max(longest) / max(statistics.mean(longest), 1e-9), 3),
        "longest_task": max(longest),
        "shuffled_bytes": sum(task["Shuffle Write Metrics"]["Shuffle Bytes Written"] for task in every),
        "shuffled_rows": sum(task["Shuffle Write Metrics"]["Shuffle Records Written"] for task in every),
        "peak_memory": max((task.get("Peak Execution Memory", 0) for task in every), default=0),
        "spilled_bytes": sum(task["Disk Bytes Spilled"] for task in every),
        **{
            f"seconds_{cores}_cores": round(sum(makespan(np.array(stage), cores) for stage in times), 3)
            for cores in CORES
        },
    }


if __name__ == "__main__":
    if len(sys.argv) > 3:
        os.environ["PYSPARK_SUBMIT_ARGS"] = f"--driver-memory {sys.argv[3]} pyspark-shell"
    outcome = run(
        float(sys.argv[1]) if len(sys.argv) > 1 else 1.0, int(sys.argv[2]) if len(sys.argv) > 2 else TURNS
    )
    print(json.dumps(outcome, indent=2))
