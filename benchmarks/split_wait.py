"""A join with one hot key whose rows then wait, as for a look-up: on 16 threads, and on a cluster of four hosts.

Waiting needs no core, so here the gain shows in the wall time, also on two cores. The join is that of `unskew demo`,
with more rows: Spark as it comes, tuned by hand (the hot key salted, AQE's thresholds lowered), and `planner="split"`.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from benchmarks.bars import Bar
from benchmarks.cluster import Cluster
from unskew.demo import orders, session
from unskew.demo.runs import Outcome

ROWS, WAIT, THREADS, HOSTS = 40_000, 0.0048, 16, 4
"""192 s of waiting in all: 12 s on each thread, if spread evenly."""

CASES = {"16 threads": (0.5, 0.9), "four hosts": (0.5,)}
"""Where → the shares of the rows that belong to the hot key."""


def run(scale: float, _turns: int, done: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """All cases at a scale that are not done yet, one after the other; contender → figures."""
    for place, shares in CASES.items():
        missing = {f"{place}, {share:.0%} hot": share for share in shares}
        missing = {name: share for name, share in missing.items() if name not in done}
        if not missing:
            continue
        with _threads() if place == "16 threads" else _hosts() as spark:
            for name, share in missing.items():
                join = orders.Orders(int(ROWS * scale), share=share, wait=WAIT, cores=THREADS)
                yield name, _figures(orders.run(spark, join), join)


def bars(cases: Mapping[str, Any]) -> list[Bar]:
    """What the figures must meet: nearly the time that even work takes, so the gain is nearly that of the bound."""
    return [
        Bar(
            f"{name}: even work / time of split keys",
            case["even"] / case["unskew"]["seconds"],
            0.85,
            at_least=True,
        )
        for name, case in cases.items()
    ]


def _figures(outcome: Outcome, join: orders.Orders) -> dict[str, Any]:
    contenders = {}
    for name, each in zip(("plain", "tuned", "unskew"), outcome.runs, strict=True):
        lengths = [end - begin for _, begin, end in each.tasks]
        largest = max(lengths) * len(lengths) / sum(lengths)
        contenders[name] = {"seconds": each.seconds, "largest_over_mean_seconds": largest}
    return {**contenders, "even": join.orders * join.wait / join.cores}


@contextlib.contextmanager
def _threads() -> Iterator[SparkSession]:
    with tempfile.TemporaryDirectory() as folder:
        spark = session.start(THREADS, Path(folder) / "spark.log")
        yield spark
        spark.stop()


@contextlib.contextmanager
def _hosts() -> Iterator[SparkSession]:
    with Cluster(workers=HOSTS, cores=THREADS // HOSTS, name="split") as cluster:
        os.environ.update(cluster.env)
        settings = {**cluster.conf, "spark.ui.showConsoleProgress": "false", "spark.log.level": "ERROR"}
        spark = SparkSession.builder.appName("unskew-split").config(map=settings).getOrCreate()
        yield spark
        spark.stop()
