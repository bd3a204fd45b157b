"""Live chains: what a second operator and its pair statistics cost, and what the first reconfiguration gains."""

from __future__ import annotations

import os
import statistics
import tempfile
from collections.abc import Callable
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
from benchmarks.sections import save
from benchmarks.stream_spark import seconds, session, zipf

ROWS, KEYS, BATCHES, WARM_UP = 200_000, 50_000, 16, 6
PADDING = 8_000
CLUSTERS = ((4, "1gbit"), (4, "100mbit"))
"""Hosts and the rate of their links."""

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


def step() -> None:
    """Pictures by tag, then by country: batch times before and after the first reconfiguration (Figure 13)."""
    details: dict[str, Any] = {}
    bars = []
    for servers, rate in CLUSTERS:
        at = f"{servers} servers, {rate}"
        source = Files(POSTED)
        random = np.random.default_rng(1)
        for _ in range(24):
            source.add(_pictures(random), servers)
        row: dict[str, Any] = {}
        with Cluster(workers=servers, rate=rate) as cluster, cluster_session(cluster) as spark:
            # the first run only warms up
            for name, policy in (("warm-up", None), ("hash", None), ("locality-aware", unskew.Policy())):
                query = _posts(source.read(spark, servers)).start(
                    _noop,
                    checkpoint=str(source.root / name),
                    slots=servers,
                    trigger="availableNow",
                    policy=policy,
                    placement=unskew.Placement(options={} if policy is None else {"every": 10}),
                )
                query.awaitTermination()
                durations = [p["batchDuration"] / 1e3 for p in query.recentProgress]
                lines = query.journal(1)
                row[name] = {
                    "seconds": durations,
                    "locality": [line.get("locality") for line in lines],
                    "imbalance": [line["imbalance"] for line in lines],
                    "moved": [line["moved"]["rows"] for line in lines],
                    "reasons": [line["decision"]["reason"] for line in lines],
                }
                print(f"    {at}, {name}: {[round(s, 2) for s in durations]}", flush=True)
        details[at] = row
        before, after = (
            statistics.median(row["locality-aware"]["seconds"][part])
            for part in (slice(4, 10), slice(14, 24))
        )
        hashed = statistics.median(row["hash"]["seconds"][14:24])
        bars.append(
            Bar(
                f"step: throughput after / before the first reconfiguration, {at}",
                before / after,
                1.0,
                at_least=True,
                unit="×",
            )
        )
        bars.append(
            Bar(
                f"step: throughput after the first reconfiguration / hash, {at}",
                hashed / after,
                1.0,
                at_least=True,
                unit="×",
            )
        )
        save("locality", "step", bars, details)


def _pictures(random: np.random.Generator, rows: int = 6_000) -> pa.Table:
    """Pictures like Flickr's, (tag, country, padding): every country has its own tags."""
    country = zipf(rows, 60, 0.6, random)
    own = country * 20 + zipf(rows, 20, 0.8, random)
    tag = np.where(random.random(rows) < 0.8, own, zipf(rows, 1200, 0.8, random))
    body = pa.array([random.bytes(PADDING) for _ in range(rows)], pa.binary())
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
