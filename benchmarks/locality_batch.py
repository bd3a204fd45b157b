"""The synthetic workload of Caneill et al. (their Figures 7-9) as a batch chain on hosts with limited links.

Records have two integers, which are equal in a share of the records (the locality of the data), and padding that does
not compress. As in the paper, records reach the first operator without the network, which is what "locality 100 %
avoids all network communication" means: here the first operator attaches the padding. Two things differ. The paper
has as many keys as servers; here there are 32 per server, because the tasks of a batch are not tied to a place, and
with one key per server Spark would run each task where the records of its key are, under any table. For the same
reason the paper's worst case, where equal keys go to the next server, would be as good as the best case: here they
are distributed over all other servers.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import unskew
from benchmarks.bars import Bar
from benchmarks.cluster import Cluster
from benchmarks.sections import save
from research.correlated import synthetic_pairs
from unskew.core.chains.tables import expected_locality, hashed_chain
from unskew.core.histogram import Histogram
from unskew.core.plan import Plan
from unskew.core.routing import RoutingTable
from unskew.spark.chained_groups import PlannedChain
from unskew.spark.groupby import Grouped
from unskew.spark.shuffle_metrics import ShuffleMetrics

RATE = "100mbit"
SERVERS = (2, 4, 6)
PADDINGS = (0, 4, 12, 20)
LOCALITIES = (0.6, 0.8, 1.0)
BYTES = 48_000_000
"""Bytes of padding per server: about four seconds of its link, if all of them used it."""

MOST_RECORDS = 60_000
BUCKETS = 1024
RUNS = 5
"""Runs per point: single ones scatter, since all hosts share two cores."""

KEYS = 32
"""Keys per server."""


@dataclass(frozen=True)
class Setting:
    """One point of the figures."""

    servers: int
    locality: float
    padding: int

    @property
    def records(self) -> int:
        """As many as `BYTES` allow, up to a limit per server."""
        per_server = BYTES // max(self.padding * 1000, 1)
        return self.servers * min(per_server, MOST_RECORDS)

    def __str__(self) -> str:
        return f"{self.servers} servers, locality {self.locality:.0%}, {self.padding} kB"


JUDGED = Setting(4, 0.8, 12)
"""The point that the bar judges."""


def settings() -> list[Setting]:
    """The points of Figures 7 (servers), 8 (locality) and 9 (padding), each once."""
    figure_7 = [Setting(n, z, p) for n in SERVERS for z in (0.6, 1.0) for p in (0, 20)]
    figure_8 = [Setting(n, z, 12) for n in SERVERS for z in LOCALITIES]
    figure_9 = [Setting(n, 0.8, p) for n in SERVERS for p in PADDINGS]
    return sorted({*figure_7, *figure_8, *figure_9}, key=lambda s: (s.servers, s.locality, s.padding))


def synthetic() -> None:
    """Hash, locality-aware and worst case at every point."""
    details: dict[str, Any] = {}
    deviations = [0.0]
    for servers in SERVERS:
        with Cluster(workers=servers, rate=RATE, memory="1g") as cluster, session(cluster) as spark:
            _point(spark, Setting(servers, 0.8, 4), 1)  # warm-up
            for setting in (s for s in settings() if s.servers == servers):
                row = details[str(setting)] = _point(spark, setting, RUNS)
                if row["predicted"]:
                    deviations.append(abs(row["locality-aware"]["remote"] / row["predicted"] - 1.0))
                print(f"    {setting}: {_summary(row)}", flush=True)
                save("locality", "synthetic", _bars(details, deviations), details)


def _bars(details: dict[str, Any], deviations: list[float]) -> list[Bar]:
    bars = [Bar("remote bytes of locality-aware: deviation from the plan, worst case", max(deviations), 0.1)]
    row = details.get(str(JUDGED))
    if row:
        gain = row["locality-aware"]["throughput"] / row["hash"]["throughput"]
        bars.append(
            Bar(
                "throughput of locality-aware / hash at 80 %, 12 kB, 4 servers",
                gain,
                2.0,
                at_least=True,
                unit="×",
            )
        )
    return bars


def _point(spark: SparkSession, setting: Setting, turns: int) -> dict[str, Any]:
    """Run all contenders in turns; throughputs are from their median times."""
    keys = KEYS * setting.servers
    a, b = synthetic_pairs(keys, setting.locality, setting.records)
    df = spark.createDataFrame(pa.table({"a": a, "b": b})).repartition(setting.servers).cache()
    df.count()
    planned = unskew.plan_chain(df, ["a", "b"], slots=setting.servers, buckets=BUCKETS)
    contenders = {
        "hash": hashed_chain([pa.int64(), pa.int64()], setting.servers, BUCKETS),
        "locality-aware": planned.tables,
        "worst case": _worst(setting.servers),
    }
    expected = [n for n in np.bincount(b).tolist() if n]
    times: dict[str, list[float]] = {name: [] for name in contenders}
    row: dict[str, Any] = {name: {} for name in contenders}
    for _ in range(turns):
        for name, tables in contenders.items():
            metrics = ShuffleMetrics(spark)
            started = time.perf_counter()
            counted = _run(df, tables, setting.padding * 1000)
            times[name].append(time.perf_counter() - started)
            assert counted == expected, name
            stages = metrics.by_stage()
            assert stages
            last = stages[max(stages)]
            row[name]["remote"] = last.remote
            row[name]["local"] = last.local
    for name, spent in times.items():
        row[name]["throughput"] = setting.records / statistics.median(spent)
        row[name]["throughputs"] = [setting.records / seconds for seconds in spent]
    df.unpersist()
    both = row["locality-aware"]["remote"] + row["locality-aware"]["local"]
    # records of pairs that were not counted stay as often as with hashing
    stays = expected_locality(planned.tables, planned.pairs, setting.servers, planned.server_of_slot)
    return {**row, "plan": stays, "predicted": (1.0 - stays) * both}


def _run(df: DataFrame, tables: tuple[RoutingTable, ...], padding: int) -> list[int]:
    """Attach padding to the records of each first key, then count the records of each second key."""
    plans = tuple(Plan(table, Histogram.empty(pa.int64(), buckets=BUCKETS)) for table in tables)
    chain: PlannedChain[Grouped] = PlannedChain(df, (("a",), ("b",)), plans)
    padded = chain.applyInArrow(_pads(padding), "a long, b long, body binary")
    rows = padded.applyInArrow(_counts(), "b long, n long").collect()
    return [n for _, n in sorted((row["b"], row["n"]) for row in rows)]


def _pads(padding: int) -> Callable[[pa.Table], pa.Table]:
    def pad(rows: pa.Table) -> pa.Table:
        body = pa.py_buffer(np.random.default_rng().bytes(padding * len(rows)))
        ends = pa.array(np.arange(len(rows) + 1) * padding, pa.int32())
        return rows.append_column(
            "body", pa.BinaryArray.from_buffers(pa.binary(), len(rows), [None, ends.buffers()[1], body])
        )

    return pad


def _counts() -> Callable[[pa.Table], pa.Table]:
    def count(rows: pa.Table) -> pa.Table:
        return pa.table({"b": rows["b"][:1], "n": [len(rows)]})

    return count


def _worst(servers: int) -> tuple[RoutingTable, ...]:
    """Tables under which equal keys never meet: the keys of a slot are distributed over all other slots."""
    keys, cells = np.arange(1, KEYS * servers + 1), np.arange(BUCKETS) % servers
    shifts = (np.zeros(len(keys), np.int64), 1 + keys // servers % (servers - 1))
    return tuple(
        RoutingTable.build(servers, cells, keys, (keys + shift) % servers, key_type=pa.int64())
        for shift in shifts
    )


@contextmanager
def session(cluster: Cluster, **settings: str) -> Iterator[SparkSession]:
    """A session on the cluster, with the UI on, since it provides the shuffle metrics."""
    os.environ.update(cluster.env)
    builder = SparkSession.builder.appName("unskew-bench").config(map=cluster.conf)
    defaults = {
        # padding does not compress, and without compression the bytes can be predicted
        "spark.shuffle.compress": "false",
        "spark.ui.port": "0",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",
    }
    for key, value in {**defaults, **settings}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()


def _summary(row: dict[str, Any]) -> str:
    rates = {n: round(figures["throughput"]) for n, figures in row.items() if isinstance(figures, dict)}
    remote = {n: round(figures["remote"] / 1e6, 1) for n, figures in row.items() if isinstance(figures, dict)}
    return f"records per second {rates}, remote MB {remote}, plan {row['plan']:.2f}"
