"""Grouped jobs on Spark, measured partition by partition.

A stage on a cluster takes as long as the makespan of its tasks on the cluster's cores. Here a job runs on the cores
that the session has. The function itself reports how long it worked, so the tasks can be scheduled on the paper's
number of cores.
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
"""Processes the rows of a key; returns the seconds that took."""

SCHEMA = "partition long, records long, busy double"
FILES = 4


@dataclass(frozen=True, eq=False)
class Stage:
    """One run of a job: records and working seconds of every partition, and the seconds of the whole job."""

    records: Floats
    busy: Floats
    seconds: float

    def better(self, other: Stage) -> Stage:
        """The shorter time of each partition; if the two runs placed keys differently, the faster run."""
        if not np.array_equal(self.records, other.records):
            return min(self, other, key=lambda stage: float(stage.busy.max()))
        return Stage(self.records, np.minimum(self.busy, other.busy), min(self.seconds, other.seconds))

    @property
    def imbalance(self) -> float:
        """The imbalance of the records."""
        return imbalance(self.records)


@contextmanager
def stored(spark: SparkSession, columns: Mapping[str, Any]) -> Iterator[DataFrame]:
    """The columns as a DataFrame that reads a few Parquet files."""
    table = pa.table(dict(columns))
    with TemporaryDirectory(prefix="unskew-papers-") as folder:
        step = -(-len(table) // FILES)
        for number in range(FILES):
            pq.write_table(table.slice(number * step, step), Path(folder) / f"{number}.parquet")
        yield spark.read.parquet(folder)


def hash_and_kip(df: DataFrame, key: str, work: Work, partitions: int) -> dict[str, Stage]:
    """The job on plain Spark, and with KIP; the latter includes measuring and planning."""
    groupings: dict[str, Callable[[], Any]] = {
        "Hash": lambda: df.groupBy(key),
        "KIP": lambda: unskew.groupBy(df, key, slots=partitions, planner="kip", buckets=100 * partitions),
    }
    return run_each(df, work, partitions, groupings)


def run_each(
    df: DataFrame, work: Work, partitions: int, groupings: Mapping[str, Callable[[], Any]]
) -> dict[str, Stage]:
    """The job with the rows of `df` grouped in each of these ways, as the better of two runs.

    Imports in a new worker, and other work on the machine, can only lengthen a task.
    """
    with settings(df, partitions):
        runs = [{name: _run(group, work, partitions) for name, group in groupings.items()} for _ in range(2)]
    return {name: first.better(runs[1][name]) for name, first in runs[0].items()}


def timed(stages: Mapping[str, Stage], cores: int, **figures: Any) -> Timed:
    """The imbalance of records as figures; the makespan on `cores` and the job's time on this machine as times."""
    times = {name: makespan(stage.busy, cores) for name, stage in stages.items()}
    on_this_machine = {f"{name}, here": stage.seconds for name, stage in stages.items()}
    return Timed(
        {**figures, **{name: stage.imbalance for name, stage in stages.items()}}, {**times, **on_this_machine}
    )


def parts(record: Record, name: str) -> Floats:
    """The seconds of the part with this name, at every point."""
    return np.array([point["parts"][name] for point in record.times["points"]])


def speedups(record: Record) -> Floats:
    """The time of Hash over that of KIP at every point, on the paper's cores."""
    ratios: Floats = parts(record, "Hash") / parts(record, "KIP")
    return ratios


def here(record: Record) -> str:
    """The wall time of the whole job on this machine, Hash over KIP: what was measured and not modelled."""
    ratios = parts(record, "Hash, here") / parts(record, "KIP, here")
    return f"measured here, the whole job: {', '.join(f'{ratio:.2f} ×' for ratio in ratios)}"


def _run(group: Callable[[], Any], work: Work, partitions: int) -> Stage:
    from pyspark.sql import functions as F

    started = time.perf_counter()
    reported = group().applyInArrow(_reports(work), SCHEMA)
    rows = reported.groupBy("partition").agg(F.sum("records"), F.sum("busy")).toArrow()
    seconds = time.perf_counter() - started
    records, busy = np.zeros(partitions), np.zeros(partitions)
    ids = rows[0].to_numpy()
    records[ids], busy[ids] = rows[1].to_numpy(), rows[2].to_numpy()
    return Stage(records, busy, seconds)


def _reports(work: Work) -> Callable[[pa.Table], pa.Table]:
    def report(rows: pa.Table) -> pa.Table:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None  # this runs in a task
        return pa.table({"partition": [context.partitionId()], "records": [len(rows)], "busy": [work(rows)]})

    return report


@contextmanager
def settings(df: DataFrame, partitions: int) -> Iterator[None]:
    """This number of shuffle partitions, and AQE off: it would merge the small partitions of plain hashing."""
    conf = df.sparkSession.conf
    settings = {"spark.sql.shuffle.partitions": str(partitions), "spark.sql.adaptive.enabled": "false"}
    before = {name: conf.get(name) or "" for name in settings}
    for name, value in settings.items():
        conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            conf.set(name, old)
