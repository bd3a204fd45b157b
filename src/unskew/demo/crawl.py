"""The demo's first act: a crawl on local Spark, plain and with unskew, side by side.

Pages are fetched site by site, and every page waits as a fetch would; a few sites have most of the pages. It is a
small version of the crawl in the KIP paper.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unskew.core.diagnosis import Diagnosis
from unskew.demo.zipf import zipf
from unskew.report.charts import spans
from unskew.report.page import Card, Cards, Chart, Column, Row, Section, Table, Text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = "site string, pages long, task int, started double, ended double"


@dataclass(frozen=True)
class Crawl:
    """How large the crawl is, and how skewed."""

    sites: int = 64
    pages: int = 16_000
    wait: float = 0.006
    exponent: float = 0.5
    cores: int = 16

    @property
    def work(self) -> float:
        """Seconds of waiting in total."""
        return self.pages * self.wait


@dataclass(frozen=True)
class Run:
    """One way to run the crawl: how long it took, when each task worked, and its result."""

    name: str
    seconds: float
    tasks: tuple[tuple[int, float, float], ...]
    pages: dict[str, int]


@dataclass(frozen=True)
class Outcome:
    """Both runs, and what unskew predicted."""

    crawl: Crawl
    plain: Run
    unskewed: Run
    diagnosis: Diagnosis

    @property
    def speedup(self) -> float:
        """Plain time over unskewed time, which includes measuring and planning."""
        return self.plain.seconds / self.unskewed.seconds


def run(crawl: Crawl, progress: Callable[[str], None] = lambda _: None) -> Outcome:
    """Crawl with plain Spark, then with unskew; both results must be equal."""
    import unskew

    progress("starting Spark")
    spark = session(crawl.cores)
    df = _pages(spark, crawl)
    slots = 3 * crawl.cores
    fetch = _fetch(crawl.wait)
    # the Python workers start before anything is timed
    _collect(df.limit(crawl.cores).groupBy("site").applyInPandas(fetch, SCHEMA))
    progress("crawling with plain Spark")
    plain = _timed("plain Spark", lambda: df.groupBy("site").applyInPandas(fetch, SCHEMA))
    progress("diagnosing")
    diagnosis = unskew.diagnose(df, "site", slots=slots, cores=crawl.cores)
    progress("crawling with unskew")
    unskewed = _timed("unskew", lambda: unskew.groupBy(df, "site", slots=slots).applyInPandas(fetch, SCHEMA))
    if plain.pages != unskewed.pages:
        raise RuntimeError(
            "plain Spark and unskew give different results: this is a bug in unskew, please report it"
        )
    return Outcome(crawl, plain, unskewed, diagnosis)


def section(outcome: Outcome) -> Section:
    """The crawl as a section of a page."""
    crawl, plain, unskewed = outcome.crawl, outcome.plain, outcome.unskewed
    heaviest = outcome.diagnosis.histogram.heaviest_share
    least = crawl.work * max(heaviest, 1 / crawl.cores)
    cards = [
        Card("plain Spark", f"{plain.seconds:.1f} s", f"{len(plain.tasks)} tasks on {crawl.cores} cores"),
        Card("unskew", f"{unskewed.seconds:.1f} s", "including measuring and planning", strong=True),
        Card("speedup", f"{outcome.speedup:.2f} ×", f"{plain.seconds / least:.2f} × is the most possible"),
        Card("heaviest site", f"{heaviest:.1%}", "of all pages"),
    ]
    text = (
        f"{crawl.pages:,} pages of {crawl.sites} sites, {1000 * crawl.wait:g} ms per page, {crawl.cores} cores. "
        "Each bar is one task of the same job on local Spark, drawn from its measured times. Plain Spark hashes the "
        "sites, and the task with the most pages keeps the whole job waiting. Both runs gave the same result."
    )
    return Section(
        "A job on Spark, before and after", [Cards(cards), Text(text), _timeline([plain, unskewed])]
    )


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
        "Every task of the two jobs",
        spans(rows, runs=[run.name for run in runs]),
        Table(columns, rows),
        "Each row is a task, each bar the time it worked. The job ends with its last bar.",
    )


def _timed(name: str, job: Callable[[], DataFrame]) -> Run:
    started = time.perf_counter()
    rows = _collect(job())
    seconds = time.perf_counter() - started
    tasks: dict[int, list[tuple[float, float]]] = {}
    for row in rows:
        tasks.setdefault(row["task"], []).append((row["started"], row["ended"]))
    first = min(start for spans in tasks.values() for start, _ in spans)
    task_spans = tuple(
        (task, min(start for start, _ in spans) - first, max(end for _, end in spans) - first)
        for task, spans in sorted(tasks.items())
    )
    return Run(name, seconds, task_spans, {row["site"]: row["pages"] for row in rows})


def _collect(df: DataFrame) -> list[dict[str, Any]]:
    return df.toArrow().to_pylist()  # type: ignore[no-any-return]


def _fetch(wait: float) -> Callable[[Any], Any]:
    def fetch(rows: Any) -> Any:
        import time

        import pandas as pd
        from pyspark import TaskContext

        started = time.time()
        time.sleep(wait * len(rows))
        context = TaskContext.get()
        task = context.partitionId() if context is not None else 0
        site = rows["site"].iloc[0]
        columns = ["site", "pages", "task", "started", "ended"]
        return pd.DataFrame([[site, len(rows), task, started, time.time()]], columns=columns)

    return fetch


def session(cores: int) -> SparkSession:
    """Local Spark that runs this many tasks at once, however many cores the machine has: a page only waits."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(f"local[{cores}]").appName("unskew demo")
    conf = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": str(3 * cores),
        # the data is small although the work is not, and Spark would put it all into one task
        "spark.sql.adaptive.coalescePartitions.enabled": "false",
    }
    for key, value in conf.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _pages(spark: SparkSession, crawl: Crawl) -> DataFrame:
    import pyarrow as pa

    random = np.random.default_rng(5)
    sites = random.choice(crawl.sites, crawl.pages, p=zipf(crawl.sites, crawl.exponent))
    names = [f"site-{number:03d}.example" for number in sites]
    return spark.createDataFrame(pa.table({"site": names, "page": np.arange(crawl.pages)}))
