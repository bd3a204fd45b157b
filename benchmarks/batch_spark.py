"""What the sections of the batch benchmark share: a session, timing in turns, task times, data."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from benchmarks.scratch import scratch

os.environ["PYSPARK_PYTHON"] = sys.executable
_EVENTS = tempfile.mkdtemp(prefix="unskew-events-")


def session(master: str, **conf: str) -> SparkSession:
    """A quiet session that writes its event log where `tasks_of` reads it."""
    builder = SparkSession.builder.master(master).appName("unskew-bench")
    fixed = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "6g",
        "spark.local.dir": scratch(),
        "spark.sql.shuffle.partitions": "8",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file://{_EVENTS}",
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
    }
    for key, value in {**fixed, **conf}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


HOPELESS = 2.0
"""A contender that took this many times as long as the fastest gets no further turn: most time would go there."""


def in_turns(
    runs: dict[str, Callable[[], Any]], repeat: int, warm_up: int = 1, hopeless: float | None = None
) -> dict[str, float]:
    """The shortest time of each contender, in seconds: other work on the machine can only lengthen a turn."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(warm_up + repeat):
        for name, run in runs.items():
            fastest = min((min(seconds) for seconds in times.values() if seconds), default=0.0)
            if hopeless and times[name] and min(times[name]) > hopeless * fastest:
                continue
            started = time.perf_counter()
            run()
            if turn >= warm_up:
                times[name].append(time.perf_counter() - started)
    return {name: min(seconds) for name, seconds in times.items()}


def noop(df: DataFrame) -> None:
    """Compute every row and write none."""
    df.write.format("noop").mode("overwrite").save()


def tasks_of(spark: SparkSession, group: str, run: Callable[[], Any], tasks: int) -> list[float]:
    """Run a job as the job group `group`; the seconds of each of the `tasks` of its last stage, by partition."""
    spark.sparkContext.setJobGroup(group, group)
    run()
    spark.sparkContext.setJobGroup("", "")
    stages: set[int] = set()
    times: dict[int, dict[int, float]] = {}
    for _ in range(50):
        stages, times = _read_tasks(group)
        if stages and len(times.get(max(stages), ())) == tasks:
            break
        time.sleep(0.1)  # Spark writes the log later
    last = times[max(s for s in stages if s in times)]
    return [last[i] for i in sorted(last)]


def _read_tasks(group: str) -> tuple[set[int], dict[int, dict[int, float]]]:
    stages: set[int] = set()
    times: dict[int, dict[int, float]] = {}
    for file in Path(_EVENTS).iterdir():
        for line in file.read_text().splitlines():
            try:
                event = json.loads(line)
            except ValueError:
                continue  # the last line may be half written
            if (
                event["Event"] == "SparkListenerJobStart"
                and event["Properties"].get("spark.jobGroup.id") == group
            ):
                stages.update(event["Stage IDs"])
            elif event["Event"] == "SparkListenerTaskEnd" and event["Stage ID"] in stages:
                info = event["Task Info"]
                seconds = (info["Finish Time"] - info["Launch Time"]) / 1e3
                times.setdefault(event["Stage ID"], {})[info["Index"]] = seconds
    return stages, times


def zipf_keys(rows: int, keys: int, exponent: float, seed: int = 0) -> np.ndarray[Any, Any]:
    """Key numbers drawn from a Zipf distribution; which numbers are hot is random too."""
    random = np.random.default_rng(seed)
    shares = np.cumsum(1.0 / np.arange(1, keys + 1) ** exponent)
    ranks = np.searchsorted(shares, random.random(rows) * shares[-1])
    return random.permutation(keys)[ranks]


def parquet(spark: SparkSession, table: pa.Table, name: str, files: int = 4) -> DataFrame:
    """The table as a DataFrame that reads a few Parquet files."""
    folder = Path(tempfile.mkdtemp(prefix="unskew-bench-")) / name
    spark.createDataFrame(table).repartition(files).write.parquet(str(folder))
    return spark.read.parquet(str(folder))
