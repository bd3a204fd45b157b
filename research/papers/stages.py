"""Grouped jobs on Spark, measured partition by partition.

What a stage takes on a cluster is the makespan of its tasks on the cluster's cores. A job here is run on whatever the
session has; the function itself says how long it worked, so the tasks can be laid out on the paper's cores.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import unskew
from research.papers.experiment import Record, Timed
from unskew.core.histogram import Floats
from unskew.core.loads import imbalance
from unskew.core.scheduling import makespan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Work: TypeAlias = Callable[[pa.Table], float]
"""What is done with the rows of a key; returns the seconds it took."""

SCHEMA = "partition long, records long, busy double"
FILES = 4


@dataclass(frozen=True, eq=False)
class Stage:
    """One run of a job: records and working seconds of every partition, and the seconds of the whole job here."""

    records: Floats
    busy: Floats
    seconds: float

    def better(self, other: Stage) -> Stage:
        """The shorter time of each partition; if keys were placed otherwise, the run that was done first."""
        if not np.array_equal(self.records, other.records):
            return min(self, other, key=lambda stage: float(stage.busy.max()))
        return Stage(self.records, np.minimum(self.busy, other.busy), min(self.seconds, other.seconds))

    @property
    def imbalance(self) -> float:
        """Of the records."""
        return imbalance(self.records)


@contextmanager
def stored(spark: SparkSession, columns: Mapping[str, Any]) -> Iterator[DataFrame]:
    """The columns as a DataFrame that is read from a few Parquet files."""
    table = pa.table(dict(columns))
    with TemporaryDirectory(prefix="unskew-papers-") as folder:
        step = -(-len(table) // FILES)
        for number in range(FILES):
            pq.write_table(table.slice(number * step, step), Path(folder) / f"{number}.parquet")
        yield spark.read.parquet(folder)


def hash_and_kip(df: DataFrame, key: str, work: Work, partitions: int) -> dict[str, Stage]:
    """The job as Spark does it, and with KIP; the second includes measuring and planning."""
    groupings: dict[str, Callable[[], Any]] = {
        "Hash": lambda: df.groupBy(key),
        "KIP": lambda: unskew.groupBy(df, key, slots=partitions, planner="kip", buckets=100 * partitions),
    }
    return run_each(df, work, partitions, groupings)


def run_each(
    df: DataFrame, work: Work, partitions: int, groupings: Mapping[str, Callable[[], Any]]
) -> dict[str, Stage]:
    """The job with the rows of `df` grouped in each of these ways, as the better of two runs.

    What a worker imports when it first works, and what else runs on the machine, can only lengthen a task.
    """
    with _settings(df, partitions):
        # a stage in as many tasks as asked for: AQE would join small partitions of plain hashing
        runs = [{name: _run(group, work, partitions) for name, group in groupings.items()} for _ in range(2)]
    return {name: first.better(runs[1][name]) for name, first in runs[0].items()}


def timed(stages: Mapping[str, Stage], cores: int, **figures: Any) -> Timed:
    """The imbalance of records as figures; as times the makespan on `cores`, and the job's own on this machine."""
    times = {name: makespan(stage.busy, cores) for name, stage in stages.items()}
    here = {f"{name}, here": stage.seconds for name, stage in stages.items()}
    return Timed({**figures, **{name: stage.imbalance for name, stage in stages.items()}}, {**times, **here})


def parts(record: Record, name: str) -> Floats:
    """The seconds of that name at every point."""
    return np.array([point["parts"][name] for point in record.times["points"]])


def speedups(record: Record) -> Floats:
    """Hash over KIP at every point, on the paper's cores."""
    found: Floats = parts(record, "Hash") / parts(record, "KIP")
    return found


def _run(group: Callable[[], Any], work: Work, partitions: int) -> Stage:
    from pyspark.sql import functions as F

    started = time.perf_counter()
    reported = group().applyInArrow(_reporting(work), SCHEMA)
    rows = reported.groupBy("partition").agg(F.sum("records"), F.sum("busy")).toArrow()
    seconds = time.perf_counter() - started
    records, busy = np.zeros(partitions), np.zeros(partitions)
    at = rows[0].to_numpy()
    records[at], busy[at] = rows[1].to_numpy(), rows[2].to_numpy()
    return Stage(records, busy, seconds)


def _reporting(work: Work) -> Callable[[pa.Table], pa.Table]:
    def report(rows: pa.Table) -> pa.Table:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None  # it runs in a task
        return pa.table({"partition": [context.partitionId()], "records": [len(rows)], "busy": [work(rows)]})

    return report


@contextmanager
def _settings(df: DataFrame, partitions: int) -> Iterator[None]:
    """As many shuffle partitions as slots, and AQE off."""
    conf = df.sparkSession.conf
    wanted = {"spark.sql.shuffle.partitions": str(partitions), "spark.sql.adaptive.enabled": "false"}
    before = {name: conf.get(name) or "" for name in wanted}
    for name, value in wanted.items():
        conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            conf.set(name, old)
