"""Running one everyday job in both versions: are the rows equal, what did each cost, how long did each take?"""

from __future__ import annotations

import contextlib
import math
import os
import statistics
import sys
import time
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.harm_data import Inputs
from benchmarks.harm_job import WORDS, Job, Word
from benchmarks.harm_log import Cost, Log
from benchmarks.scratch import scratch

_ROOT = Path(__file__).parents[1]
_MOST_TURNS = 3
"""A job that seems too slow gets so many times the turns: other work on the machine can only lengthen a turn."""


def session(connect: bool, events: Path, quick: bool = False) -> SparkSession:
    """A Spark of two cores, classic or Connect, that writes its event log to `events`.

    A quick one is for many tiny queries that nobody times: the first compiler is enough.
    """
    os.environ["PYSPARK_PYTHON"] = sys.executable
    # Workers import the functions of the jobs, also those of a Connect server, which does not know where they are.
    paths = [str(_ROOT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    builder = SparkSession.builder.appName("unskew-harm")
    builder = builder.remote("local[2]") if connect else builder.master("local[2]")
    for name, value in {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "6g",
        "spark.local.dir": scratch(),
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC" if quick else "",
        "spark.sql.shuffle.partitions": "4" if quick else "8",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": f"file://{events.parent}/warehouse",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file://{events}",
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
    }.items():
        builder = builder.config(name, value)
    with warnings.catch_warnings():
        # Connect starts its server with the settings, then warns that it cannot set them on the running one.
        warnings.filterwarnings("ignore", "Failed to set")
        spark: SparkSession = builder.getOrCreate()
    return spark


@dataclass(frozen=True)
class Version:
    """One version of a job: its cost (the lowest of all turns) and its times in seconds, turn by turn."""

    cost: Cost
    seconds: tuple[float, ...]

    @property
    def shortest(self) -> float:
        """The shortest time."""
        return min(self.seconds)

    def record(self) -> dict[str, Any]:
        """Everything as JSON values."""
        return {
            **asdict(self.cost),
            "seconds": self.shortest,
            "median": statistics.median(self.seconds),
            "turns": [round(value, 3) for value in self.seconds],
        }


@dataclass
class Bench:
    """A session, its log and its inputs, with which jobs are run; with no turns, jobs are compared but not timed."""

    spark: SparkSession
    log: Log
    inputs: Inputs
    turns: int

    def record(self, job: Job) -> dict[str, Any]:
        """The record of a job: both versions and the faults found, or the error that the changed version raised."""
        with settings(self.spark, job.settings):
            job.run(WORDS["plain"], self.inputs)  # makes the inputs, which must not count
            self.log.restart()
            # also warms up both versions; an error of the plain one is a mistake in the corpus
            plain_rows, plain = self._compared(job, WORDS["plain"])
            try:
                our_rows, ours = self._compared(job, WORDS["unskew"])
                versions = self._versions(job) if self.turns else {"plain": plain, "unskew": ours}
            except Exception as error:  # noqa: BLE001  whatever the user of this job would get
                message = (str(error).strip() or type(error).__name__).splitlines()[0]
                return {
                    "family": job.family,
                    "error": f"{type(error).__name__}: {message}"[:200],
                    "faults": ["raises"],
                }
        faults = [] if plain_rows.equals(our_rows) else ["rows"]
        faults += [fault for fault in _faults(versions) if self.turns or fault != "time"]
        return {
            "family": job.family,
            **{name: version.record() for name, version in versions.items()},
            "faults": faults,
        }

    def _compared(self, job: Job, word: Word) -> tuple[Rows, Version]:
        """The rows of a job, and what comparing them cost: for both versions one shuffle and one job more."""
        begin = time.perf_counter()
        df = job.run(word, self.inputs)
        started = time.time()
        rows = Rows.of(job.comparable(df), job.loose)
        seconds = time.perf_counter() - begin
        return rows, Version(self.log.cost(started), (seconds,))

    def _versions(self, job: Job) -> dict[str, Version]:
        runs: dict[str, list[tuple[float, Cost]]] = {name: [] for name in WORDS}
        turns = max(1, self.turns - 1) if job.long else self.turns
        for turn in range(turns * _MOST_TURNS):
            # who goes first changes with every turn
            for name in list(WORDS) if turn % 2 == 0 else reversed(list(WORDS)):
                runs[name].append(self._turn(job, WORDS[name]))
            versions = {name: _version(results) for name, results in runs.items()}
            if turn + 1 >= turns and "time" not in _faults(versions):
                break
        return versions

    def _turn(self, job: Job, word: Word) -> tuple[float, Cost]:
        begin = time.perf_counter()
        df = job.run(word, self.inputs)
        started = time.time()
        job.act(df, self.inputs.folder / "out")
        seconds = time.perf_counter() - begin
        return seconds, self.log.cost(started)


def _version(results: list[tuple[float, Cost]]) -> Version:
    """Costs of one version differ only by how the rows lie in shuffle files, which Spark's own timing decides."""
    costs = [cost for _, cost in results]
    lowest = {name: min(asdict(cost)[name] for cost in costs) for name in asdict(costs[0])}
    return Version(Cost(**lowest), tuple(seconds for seconds, _ in results))


MORE_BYTES, BYTES_FLOOR = 1.05, 32_768
MORE_TIME, TIME_FLOOR, LONG = 1.05, 0.3, 10.0


def time_limit(plain: float) -> float:
    """The longest time that the changed job may take: 5 % more, or 0.3 s more if it takes less than ten seconds."""
    return plain * MORE_TIME if plain >= LONG else plain + TIME_FLOOR


def _faults(versions: Mapping[str, Version]) -> list[str]:
    """Where the changed job is worse than the plain one by more than the bars allow."""
    plain, ours = versions["plain"], versions["unskew"]
    worse = {
        "exchanges": ours.cost.exchanges > plain.cost.exchanges,
        "bytes": ours.cost.shuffled_bytes > plain.cost.shuffled_bytes * MORE_BYTES + BYTES_FLOOR,
        "jobs": ours.cost.jobs > plain.cost.jobs + 1,
        "time": ours.shortest > time_limit(plain.shortest),
    }
    return [name for name, fault in worse.items() if fault]


@dataclass(frozen=True)
class Rows:
    """A result, reduced to what can be compared: its columns, and its rows in any order."""

    columns: list[tuple[str, str]]
    fingerprint: tuple[Any, ...]
    loose: list[tuple[Any, ...]] = field(default_factory=list)
    tolerances: tuple[float, ...] = ()

    @classmethod
    def of(cls, df: DataFrame, loose: Mapping[str, float]) -> Rows:
        """Runs the job. Rows with loose columns are collected, others are added up as hashes."""
        columns = [(column.name, column.dataType.simpleString()) for column in df.schema.fields]
        if not loose:
            return cls(columns, _fingerprint(df))
        exact = [name for name in df.columns if name not in loose]
        rows = sorted((tuple(row) for row in df.select(*exact, *loose).collect()), key=repr)
        return cls(columns, (len(rows),), rows, tuple(loose.values()))

    def equals(self, other: Rows) -> bool:
        """Whether both have the same columns and the same rows."""
        return (self.columns, self.fingerprint) == (other.columns, other.fingerprint) and all(
            self._alike(ours, theirs) for ours, theirs in zip(self.loose, other.loose, strict=True)
        )

    def _alike(self, ours: tuple[Any, ...], theirs: tuple[Any, ...]) -> bool:
        exact = len(ours) - len(self.tolerances)
        return ours[:exact] == theirs[:exact] and all(
            (a is None and b is None)
            or (a is not None and b is not None and math.isclose(a, b, rel_tol=tolerance))
            for a, b, tolerance in zip(ours[exact:], theirs[exact:], self.tolerances, strict=True)
        )


def _fingerprint(df: DataFrame) -> tuple[Any, ...]:
    """The number of rows and the sum of their hashes: equal rows in any order have equal fingerprints."""
    # a join may leave two columns of one name
    columns = [f"c{number}" for number in range(len(df.columns))]
    named = df.toDF(*columns)
    # Spark's hash skips nulls
    hashed = F.xxhash64(*columns, *(F.col(name).isNull() for name in columns)).cast("decimal(38,0)")
    row = named.select(hashed.alias("h")).agg(F.count("*"), F.sum("h")).collect()[0]
    return tuple(row)


@contextlib.contextmanager
def settings(spark: SparkSession, values: Mapping[str, str]) -> Iterator[None]:
    """Spark's settings within the block; nested blocks must not set the same."""
    for name, value in values.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name in values:
            spark.conf.unset(name)
