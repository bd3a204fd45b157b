"""Live chains: what a second operator and its pair statistics cost, and what the first reconfiguration gains."""

from __future__ import annotations

import os
import statistics
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

import unskew
from benchmarks.bars import Bar
from benchmarks.cluster import Cluster
from benchmarks.locality_batch import session as cluster_session
from benchmarks.sections import save, saved
from benchmarks.stream_spark import seconds, session, zipf

ROWS, KEYS, BATCHES, WARM_UP = 200_000, 50_000, 16, 6
LIVE_BATCHES = 24
RUNS = 5
SERVERS = (2, 4, 6)
RATES = ("1gbit", "100mbit")
"""A tenth of the paper's 10 Gb/s and 1 Gb/s, since all hosts share two cores."""

PADDINGS = (0, 4, 8, 12)
PARALLELISM_PADDING = 4

POSTED = "tag long, country long, body binary"


class Files:
    """A stream of files, with the same number of files per batch."""

    def __init__(self, schema: str) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="unskew-locality-"))
        self.schema = schema
        (self.root / "in").mkdir()

    def add(self, table: pa.Table, parts: int) -> None:
        """Add a batch in `parts` files."""
        batch = len(list((self.root / "in").iterdir())) // parts
        for part in range(parts):
            path = self.root / "in" / f"{batch:05d}-{part}.parquet"
            pq.write_table(table.take(pa.array(np.arange(part, len(table), parts))), path, compression="none")
            os.utime(path, (1e9 + batch, 1e9 + batch))

    def read(self, spark: SparkSession, parts: int) -> DataFrame:
        """The batches as a stream."""
        reader = spark.readStream.schema(self.schema).option("maxFilesPerTrigger", parts)
        return reader.parquet(str(self.root / "in"))


def chain() -> None:
    """One operator, two chained ones, and two whose pairs are counted; 200 000 rows per batch on two cores."""
    spark = session("local[2]")
    source = Files("user long, item long")
    random = np.random.default_rng(0)
    for _ in range(BATCHES):
        users = zipf(ROWS, KEYS, 1.0, random)
        source.add(pa.table({"user": users, "item": (users + random.integers(0, 50, ROWS)) % KEYS}), 2)
    builds: dict[str, Callable[[DataFrame], Any]] = {
        "one": lambda events: _counted(events, "user long, item long, n long"),
        "two": lambda events: (
            _counted(events, "user_ long, item long, n long").thenBy("item").aggregate(n=unskew.count())
        ),
        "two, pairs": lambda events: (
            _counted(events, "user long, item long, n long").thenBy("item").aggregate(n=unskew.count())
        ),
    }
    times: dict[str, float] = {}
    # the first one runs twice: once to warm up
    for turn, (name, build) in enumerate([next(iter(builds.items())), *builds.items()]):
        query = build(source.read(spark, 2)).start(
            _noop, checkpoint=str(source.root / f"{turn}"), slots=2, trigger="availableNow"
        )
        query.awaitTermination()
        times[name] = seconds(query.recentProgress, WARM_UP)
        print(f"    {name}: {times[name]:.3f} s per batch", flush=True)
    pairs = times["two, pairs"] / times["two"] - 1.0
    bars = [
        Bar(
            "chain: batch time of two chained operators / one operator",
            times["two, pairs"] / times["one"],
            2.2,
            unit="×",
        ),
        Bar("chain: extra batch time for pair statistics, as a share", pairs, 0.1),
    ]
    save("locality", "chain", bars, times)


@dataclass(frozen=True)
class Live:
    """One point of Figures 13 and 14: hosts, the rate of their links, and the padding of a record in kB."""

    servers: int
    rate: str
    padding: int

    def __str__(self) -> str:
        return f"{self.servers} servers, {self.rate}, {self.padding} kB"


def points() -> list[Live]:
    """Figure 13: six hosts, two networks, all paddings. Figure 14: 4 kB on the slower network, by hosts."""
    figure_13 = [Live(SERVERS[-1], rate, padding) for rate in RATES for padding in PADDINGS]
    figure_14 = [Live(servers, RATES[-1], PARALLELISM_PADDING) for servers in SERVERS]
    return list(dict.fromkeys([*figure_14, *figure_13]))


def reconfigured() -> None:
    """Pictures by tag, then by country: batch times with and without reconfiguration (Figures 13 and 14).

    Both run in turns, `RUNS` times per point, since single runs on hosts that share two cores scatter. Each point is
    saved when it is done, and a saved point is not measured again: a stopped benchmark continues.
    """
    details = saved("locality", "reconfigured")
    for point in points():
        if len(details.get(str(point), {}).get("hash", [])) < RUNS:
            details[str(point)] = _measured(point)
            save("locality", "reconfigured", _bars(details), details)


def _measured(point: Live) -> dict[str, Any]:
    source = Files(POSTED)
    random = np.random.default_rng(1)
    for _ in range(LIVE_BATCHES):
        source.add(_pictures(random, 1000 * point.padding), point.servers)
    row: dict[str, Any] = {"hash": [], "locality-aware": []}
    with Cluster(workers=point.servers, rate=point.rate) as cluster, cluster_session(cluster) as spark:
        # the first run only warms up
        for number in range(-1, RUNS):
            for name in row:
                run = _run(source, spark, point.servers, name, number)
                print(f"    {point}, {name}: {[round(s, 2) for s in run['seconds']]}", flush=True)
                if number >= 0:
                    row[name].append(run)
    return row


def _run(source: Files, spark: SparkSession, servers: int, name: str, number: int) -> dict[str, Any]:
    hashed = name == "hash"
    query = _posts(source.read(spark, servers)).start(
        _noop,
        checkpoint=str(source.root / f"{name} {number}"),
        slots=servers,
        trigger="availableNow",
        policy=None if hashed else unskew.Policy(),
        placement=unskew.Placement(options={} if hashed else {"every": 10}),
    )
    query.awaitTermination()
    lines = query.journal(1)
    return {
        "seconds": [p["batchDuration"] / 1e3 for p in query.recentProgress],
        "locality": [line.get("locality") for line in lines],
        "imbalance": [line["imbalance"] for line in lines],
        "moved": [line["moved"]["rows"] for line in lines],
        "reasons": [line["decision"]["reason"] for line in lines],
    }


def _bars(details: dict[str, Any]) -> list[Bar]:
    bars = []
    for at, row in details.items():
        after = {
            name: statistics.median(s for run in runs for s in run["seconds"][14:])
            for name, runs in row.items()
        }
        name = f"live: throughput after the first reconfiguration / hash, {at}"
        bars.append(Bar(name, after["hash"] / after["locality-aware"], 1.0, at_least=True, unit="×"))
    return bars


def _pictures(random: np.random.Generator, padding: int, rows: int = 6_000) -> pa.Table:
    """Pictures like Flickr's, (tag, country, padding): every country has its own tags."""
    country = zipf(rows, 60, 0.6, random)
    own = country * 20 + zipf(rows, 20, 0.8, random)
    tag = np.where(random.random(rows) < 0.8, own, zipf(rows, 1200, 0.8, random))
    body = pa.array([random.bytes(padding) for _ in range(rows)], pa.binary())
    return pa.table({"tag": tag, "country": country, "body": body})


def _posts(events: DataFrame) -> Any:
    def numbered(rows: pd.DataFrame, states: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
        states["n"] = states["n"].fillna(0).astype("int64") + rows.groupby(level=0).size()
        return rows[["tag", "country", "body"]], states

    def measured(rows: pd.DataFrame, states: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
        size = rows["body"].str.len().groupby(level=0).sum()
        states["bytes"] = states["bytes"].fillna(0).astype("int64") + size
        return states[["country", "bytes"]], states

    first = unskew.stream(events, "tag").update(numbered, output=POSTED, state="n long")
    return first.thenBy("country").update(measured, output="country long, bytes long", state="bytes long")


def _counted(events: DataFrame, output: str) -> Any:
    """Number the records of each user and emit them with the column names of `output`."""
    names = [part.split()[0] for part in output.split(", ")]

    def count(rows: pd.DataFrame, states: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
        counts = np.bincount(rows.index, minlength=len(states))
        states["n"] = states["n"].fillna(0).astype("int64") + counts
        out = pd.DataFrame(
            dict(zip(names, (rows["user"], rows["item"], states["n"].to_numpy()[rows.index]), strict=True))
        )
        return out, states

    return unskew.stream(events, "user").update(count, output=output, state="n long")


def _noop(df: DataFrame, _: int) -> None:
    df.write.format("noop").mode("overwrite").save()
