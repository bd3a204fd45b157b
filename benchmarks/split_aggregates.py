"""Hot keys in aggregates and files: `applyInPandas` with `merge=`, collecting and sketching, tables to be written.

Every contender of a case runs in one session, in turns, and must give the same answer. For each: wall time, the largest
task by rows read from the shuffle / the mean of SLOTS slots, the longest task / the mean of its stage, bytes shuffled,
and the time that 16 and 64 cores would take for all its stages, one after the other, by the measured times of all
tasks. At tiny scales AQE makes one task of plain Spark's shuffles: compare at scale 0.1 and above.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import unskew
from benchmarks.harm_log import Log
from benchmarks.harm_run import session
from unskew.core.scheduling import makespan

HOT_SHARES = (0.1, 0.5, 0.9)
SLOTS = 32
SALTS = 32
ROWS = 10_000_000
"""Rows at scale 1."""

TURNS = 3
CORES = (16, 64)
COUNTRIES = 200
SCHEMA = "country string, n long, total double"

Run = Callable[[Path], Any]
"""A contender: runs the job, may write into the folder, returns its answer."""


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
            visits = _visits(spark, folder / f"visits-{share}", int(ROWS * scale), share)
            for case, contenders in {
                "merge": merging(visits, share),
                **collecting(visits),
                "write": writing(visits, max(int(ROWS * scale) // 20, 1000)),
            }.items():
                name = f"{case}, hot share {share:.0%}"
                results[name] = _compared(
                    contenders, log, folder, turns, tolerance=0.05 if case == "hll" else 1e-4
                )
                print(name, json.dumps(results[name]), file=sys.stderr, flush=True)
        spark.stop()
    return results


def _visits(spark: SparkSession, path: Path, rows: int, share: float) -> DataFrame:
    """Rows of 201 countries, of which one has this share of them, as 64 files."""
    per_mille = int(share * 1000)
    spark.range(0, rows, 1, 64).selectExpr(
        f"if(pmod(xxhash64(id), 1000) < {per_mille}, 'hot', 'c' || pmod(xxhash64(id, 1), {COUNTRIES})) as country",
        "id",
        "pmod(xxhash64(id, 2), 1000000) as visitor",
        "pmod(xxhash64(id, 3), 1000) / 10 as amount",
    ).write.parquet(str(path))
    return spark.read.parquet(str(path))


def _partial(rows: pd.DataFrame) -> pd.DataFrame:
    """A computation that takes as long as the group has rows."""
    values = rows["amount"].to_numpy()
    for _ in range(20):
        values = np.sqrt(values * values)
    return pd.DataFrame({"country": rows["country"].head(1), "n": [len(rows)], "total": [values.sum()]})


def _merge(parts: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame(
        {"country": parts["country"].head(1), "n": [parts["n"].sum()], "total": [parts["total"].sum()]}
    )


def merging(visits: DataFrame, share: float) -> Mapping[str, Run]:
    """A function on groups whose partial results can be merged."""
    rows = visits.select("country", "amount")
    hot = [F.col("country") == "hot"] if share >= 1 / SLOTS else [F.lit(False)]

    def salted(salt: Any) -> Run:
        def job(_: Path) -> Any:
            parts = visits.select("country", "amount", salt.alias("salt")).groupBy("country", "salt")
            partial = parts.applyInPandas(_partial, SCHEMA)
            return _answer(partial.groupBy("country").applyInPandas(_merge, SCHEMA))

        return job

    draw = F.pmod(F.xxhash64("id"), F.lit(SALTS))
    return {
        "plain": lambda _: _answer(rows.groupBy("country").applyInPandas(_partial, SCHEMA)),
        "all keys salted": salted(draw),
        "hot key salted": salted(F.when(hot[0], draw).otherwise(0)),
        "unskew, whole": lambda _: _answer(
            unskew.groupBy(rows, "country", slots=SLOTS).applyInPandas(_partial, SCHEMA)
        ),
        "unskew": lambda _: _answer(
            unskew.groupBy(rows, "country", slots=SLOTS).applyInPandas(_partial, SCHEMA, merge=_merge)
        ),
    }


def collecting(visits: DataFrame) -> Mapping[str, Mapping[str, Run]]:
    """Spark's own aggregates that hold rows or sketches, in one step and in two."""
    salt = F.pmod(F.xxhash64("id"), F.lit(SALTS)).alias("salt")
    functions: dict[str, tuple[Any, Any, Any]] = {
        "collect_list": (F.collect_list, lambda part: F.flatten(F.collect_list(part)), F.size),
        "collect_set": (
            F.collect_set,
            lambda part: F.array_distinct(F.flatten(F.collect_list(part))),
            F.size,
        ),
        "hll": (F.hll_sketch_agg, F.hll_union_agg, F.hll_sketch_estimate),
    }

    def one_step(name: str) -> Run:
        first, _, finish = functions[name]
        return lambda _: _answer(
            visits.groupBy("country").agg(first("visitor").alias("x")).select("country", finish("x"))
        )

    def two_steps(name: str) -> Run:
        first, second, finish = functions[name]

        def job(_: Path) -> Any:
            partial = visits.groupBy("country", salt).agg(first("visitor").alias("x"))
            return _answer(
                partial.groupBy("country").agg(second("x").alias("x")).select("country", finish("x"))
            )

        return job

    def ours(name: str) -> Run:
        first, _, finish = functions[name]
        return lambda _: _answer(
            unskew.groupBy(visits, "country").agg(first("visitor").alias("x")).select("country", finish("x"))
        )

    return {
        name: {"plain": one_step(name), "all keys salted": two_steps(name), "unskew": ours(name)}
        for name in functions
    }


def writing(visits: DataFrame, rows_per_file: int) -> Mapping[str, Run]:
    """A table partitioned by country: the answer is how many rows each country has in the files."""
    salt = F.pmod(F.xxhash64("id"), F.lit(SALTS))

    def written(arranged: Callable[[], DataFrame]) -> Run:
        def job(folder: Path) -> Any:
            arranged().write.partitionBy("country").mode("overwrite").parquet(str(folder / "table"))
            sizes = defaultdict(list)
            for file in (folder / "table").rglob("*.parquet"):
                sizes[file.parent.name].append(pq.read_metadata(file).num_rows)
            files = {"files": sum(map(len, sizes.values())), "largest": max(map(max, sizes.values()))}
            return _WithFigures({name: sum(each) for name, each in sizes.items()}, files)

        return job

    return {
        "plain": written(lambda: visits.repartition("country")),
        "all keys salted": written(lambda: visits.repartition("country", salt)),
        "unskew": written(lambda: unskew.repartition(visits, "country", rows_per_file=rows_per_file)),
    }


@dataclass(frozen=True)
class _WithFigures:
    """An answer, and figures that need not be equal."""

    answer: Any
    figures: Mapping[str, Any]


def _answer(df: DataFrame) -> Any:
    """What the contenders must agree on: numbers up to rounding, estimates within a few per cent."""
    return {row[0]: tuple(float(f"{value:.6g}") for value in row[1:]) for row in df.collect()}


def _compared(
    contenders: Mapping[str, Run], log: Log, folder: Path, turns: int, tolerance: float
) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    answers: dict[str, Any] = {}
    seconds: dict[str, list[float]] = defaultdict(list)
    for _ in range(turns):
        for name, job in contenders.items():
            log.restart()
            started = time.monotonic()
            answer = job(folder)
            seconds[name].append(round(time.monotonic() - started, 3))
            more: Mapping[str, Any] = {}
            if isinstance(answer, _WithFigures):
                answer, more = answer.answer, answer.figures
            answers[name] = answer
            figures[name] = {**_tasks(log), **more}
    agree = {name: _agrees(answer, answers["plain"], tolerance) for name, answer in answers.items()}
    return {
        name: {
            "seconds": min(seconds[name]),
            "median": statistics.median(seconds[name]),
            "answer": "equal" if agree[name] else "DIFFERS",
            **figures[name],
        }
        for name in contenders
    }


def _agrees(answer: Mapping[str, Any], plain: Mapping[str, Any], tolerance: float) -> bool:
    return answer.keys() == plain.keys() and all(
        np.allclose(answer[key], plain[key], rtol=tolerance) for key in plain
    )


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
    written = [task["Shuffle Write Metrics"] for tasks in stages.values() for task in tasks]
    return {
        "largest_by_rows": round(max(largest) / max(sum(largest) / SLOTS, 1e-9), 3),
        "largest_by_time": round(max(longest) / max(statistics.mean(longest), 1e-9), 3),
        "longest_task": max(longest),
        "shuffled_bytes": sum(each["Shuffle Bytes Written"] for each in written),
        "shuffled_rows": sum(each["Shuffle Records Written"] for each in written),
        **{
            f"seconds_{cores}_cores": round(sum(makespan(np.array(stage), cores) for stage in times), 3)
            for cores in CORES
        },
    }


if __name__ == "__main__":
    outcome = run(
        float(sys.argv[1]) if len(sys.argv) > 1 else 1.0, int(sys.argv[2]) if len(sys.argv) > 2 else TURNS
    )
    print(json.dumps(outcome, indent=2))
