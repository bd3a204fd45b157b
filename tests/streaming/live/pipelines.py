"""Random event-time pipelines, run by Spark's own operators and by unskew: what each batch emits must be equal."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle  # type: ignore[attr-defined]

import unskew
from tests.streaming.live.live import Live

SECOND = 1_000_000
SCHEMA = "k string, at timestamp, v long"
TTL_OUTPUT = "k string, n long, total long, expired boolean"
EAGER = unskew.Policy(horizon=10**6, patience=1, cooldown=0)
KINDS = ("closed", "changed", "ttl", "ttl aggregate", "chain")

Outputs = dict[int, list[tuple[Any, ...]]]
"""What each batch emitted, in a defined order."""


@dataclass(frozen=True)
class Stage:
    """Files that arrive before a start of the query, and how that start is triggered."""

    tables: tuple[pa.Table, ...]
    trigger: str
    """ "availableNow", "once", or "processingTime": then the query is stopped when it has nothing to do."""


@dataclass(frozen=True)
class Pipeline:
    """An operator with a watermark, its input, and what changes meanwhile. Lengths are in milliseconds."""

    kind: str
    stages: tuple[Stage, ...]
    delay: int
    window: int
    slide: int
    ttl: int = 5000
    slots: int = 2
    max_slots: int = 3
    wishes: tuple[tuple[int, int], ...] = ()
    """(batch, slots): ask for so many slots while that batch runs."""
    policy: unskew.Policy | None = None
    scaling: unskew.LoadRange | None = None

    @classmethod
    def random(cls, seed: int) -> Pipeline:
        random = Random(seed)
        slide = random.choice([500, 1000, 2500, 10_000])
        window = slide * random.choice([1, 1, 2, 3]) + random.choice([0, 0, 250])
        delay = random.choice([1, 1500, 2000, 12_000])
        max_slots = random.randint(1, 3)
        slots = random.randint(1, max_slots)
        source = _source(random, window)
        stages = tuple(
            Stage(
                tuple(next(source) for _ in range(random.randint(1, 3))),
                random.choice(["availableNow", "availableNow", "processingTime", "once"]),
            )
            for _ in range(random.randint(1, 3))
        )
        wishes = tuple((b, random.randint(1, max_slots)) for b in range(8) if random.random() < 0.35)
        return cls(
            KINDS[seed % len(KINDS)],
            stages,
            delay,
            window,
            slide,
            random.choice([1, 700, 5000, 60_000]),
            slots,
            max_slots,
            wishes,
            random.choice([None, EAGER, EAGER]),
            random.choice([None, None, unskew.LoadRange(5, 20)]),
        )

    @property
    def by_window(self) -> bool:
        return not self.kind.startswith("ttl")


def _source(random: Random, window: int) -> Iterator[pa.Table]:
    """Files without end: skewed keys, times that advance, stand still or leap, late records, times without a value."""
    now = random.choice([0, 1_700_000_000]) * SECOND + random.randrange(SECOND)
    keys = random.choice([1, 4, 12])
    while True:
        now += int(random.choice([0, 0.3, 1, 1, 2, 20]) * window * 1000)
        rows = random.choice([0, 1, 5, 20, 40])
        times: list[int | None] = []
        for _ in range(rows):
            lateness = random.choice([0, random.random(), random.random(), random.expovariate(0.5)])
            times.append(None if random.random() < 0.03 else now - int(lateness * window * 1000))
        names = [f"k{int(keys * random.random() ** 2)}" for _ in range(rows)]
        values = [random.randrange(100) for _ in range(rows)]
        at = pa.array(times, pa.int64()).cast(pa.timestamp("us", "UTC"))
        yield pa.table({"k": pa.array(names, pa.string()), "at": at, "v": pa.array(values, pa.int64())})


def native(spark: SparkSession, folder: Path, pipeline: Pipeline) -> Outputs:
    """What Spark's own operators emit."""
    live = Live(spark, folder, SCHEMA)
    outputs: Outputs = {}

    def collect(df: DataFrame, batch: int) -> None:
        outputs[batch] = _sorted(df.collect())

    with _partitions(spark, 2):
        for stage in pipeline.stages:
            live.add(*stage.tables)
            events = live.events().withWatermark("at", f"{pipeline.delay} milliseconds")
            if pipeline.by_window:
                lengths = [f"{n} milliseconds" for n in (pipeline.window, pipeline.slide)]
                rows = events.groupBy("k", F.window("at", *lengths)).agg(
                    F.count("*").alias("n"), F.sum("v").alias("total")
                )
            else:
                rows = events.groupBy("k").transformWithStateInPandas(
                    _ttl_processor(pipeline.ttl), TTL_OUTPUT, "Update", "EventTime"
                )
            mode = "append" if pipeline.kind in ("closed", "chain") else "update"
            writer = rows.writeStream.outputMode(mode).option("checkpointLocation", live.checkpoint)
            query = writer.foreachBatch(collect).trigger(**_trigger(stage)).start()
            _finish(query, stage)
    if pipeline.kind == "ttl aggregate":
        return {batch: [row[:3] for row in rows if not row[3]] for batch, rows in outputs.items()}
    return _chained(outputs) if pipeline.kind == "chain" else outputs


def live_outputs(spark: SparkSession, folder: Path, pipeline: Pipeline) -> Outputs:
    """What unskew emits."""
    live = Live(spark, folder, SCHEMA)
    outputs: Outputs = {}
    running: list[Any] = []
    started = threading.Event()

    def collect(df: DataFrame, batch: int) -> None:
        outputs[batch] = _sorted(df.collect())
        slots = dict(pipeline.wishes).get(batch)
        if slots is not None:
            assert started.wait(60)
            running[-1].scale(slots)

    for stage in pipeline.stages:
        live.add(*stage.tables)
        started.clear()
        running.append(
            live.start(
                operator(live, pipeline),
                collect,
                trigger=_trigger(stage),
                slots=pipeline.slots,
                max_slots=pipeline.max_slots,
                policy=None if pipeline.kind == "chain" else pipeline.policy,
                scaling=pipeline.scaling,
                buckets=16,
            )
        )
        started.set()
        _finish(running[-1], stage)
    return outputs


def operator(live: Live, pipeline: Pipeline) -> Any:
    """The pipeline's operator, as a user of unskew writes it."""
    stream = unskew.stream(live.events(), "k", time="at", watermark=f"{pipeline.delay} milliseconds")
    ttl = f"{pipeline.ttl} ms"
    counts = {"n": unskew.count(), "total": unskew.sum("v")}
    if pipeline.kind == "ttl":
        return stream.update(_count, output=TTL_OUTPUT, state="n long, total long", ttl=ttl, expired=_expired)
    if pipeline.kind == "ttl aggregate":
        return stream.aggregate(ttl=ttl, **counts)
    emit = "changed" if pipeline.kind == "changed" else "closed"
    lengths = {"window": f"{pipeline.window} ms", "slide": f"{pipeline.slide} ms"}
    windows = stream.aggregate(emit=emit, **lengths, **counts)
    if pipeline.kind == "chain":
        return windows.thenBy("k").aggregate(n=unskew.count(), total=unskew.sum("total"))
    return windows


def _count(rows: pd.DataFrame, states: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    by_key = rows.groupby(level=0)["v"]
    states["n"] = states["n"].fillna(0) + by_key.size()
    states["total"] = states["total"].fillna(0) + by_key.sum()
    return states.assign(expired=False), states


def _expired(states: pd.DataFrame) -> pd.DataFrame:
    return states.assign(expired=True)


def _ttl_processor(ttl: int) -> StatefulProcessor:
    """Counts per key, with a timer per key: what a user of Spark alone writes."""

    class Counts(StatefulProcessor):
        def init(self, handle: StatefulProcessorHandle) -> None:
            self.handle = handle
            self.state = handle.getValueState("state", "n long, total long, deadline long")

        def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[Any]:  # noqa: N802 Spark calls it
            n, total, before = self.state.get() or (0, 0, None)
            records = pd.concat(list(rows))
            # a record without a time counts as one at the watermark
            now = pd.Timestamp(timerValues.getCurrentWatermarkInMs(), unit="ms")
            latest = records["at"].dt.tz_localize(None).fillna(now).max()
            deadline = int(np.floor(latest.value / 1e6)) + ttl
            deadline = deadline if before is None else max(deadline, before)
            if before is not None:
                self.handle.deleteTimer(before)
            self.handle.registerTimer(deadline)
            n, total = n + len(records), total + int(records["v"].sum())
            self.state.update((n, total, deadline))
            yield pd.DataFrame({"k": [key[0]], "n": [n], "total": [total], "expired": [False]})

        def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:  # noqa: N802 Spark calls it
            n, total, _ = self.state.get()
            self.state.clear()
            yield pd.DataFrame({"k": [key[0]], "n": [n], "total": [total], "expired": [True]})

        def close(self) -> None:
            pass

    return Counts()


def _chained(windows: Outputs) -> Outputs:
    """How many windows of each key have closed so far, and their total, in each batch that closes some."""
    totals: dict[str, tuple[int, int]] = {}
    outputs: Outputs = {}
    for batch, rows in sorted(windows.items()):
        for key, _, _, total in rows:
            n, before = totals.get(key, (0, 0))
            totals[key] = (n + 1, before + total)
        outputs[batch] = sorted((key, *totals[key]) for key in {row[0] for row in rows})
    return outputs


def _sorted(rows: Iterable[Any]) -> list[tuple[Any, ...]]:
    return sorted(tuple(tuple(v) if isinstance(v, tuple) else v for v in row) for row in rows)


def _trigger(stage: Stage) -> dict[str, Any]:
    return {"processingTime": "0 seconds"} if stage.trigger == "processingTime" else {stage.trigger: True}


def _finish(query: Any, stage: Stage) -> None:
    try:
        if stage.trigger == "processingTime":
            query.processAllAvailable()
        else:
            query.awaitTermination()
    finally:
        query.stop()


@contextmanager
def _partitions(spark: SparkSession, number: int) -> Iterator[None]:
    """What Spark's own operators run with."""
    settings = {
        "spark.sql.shuffle.partitions": str(number),
        "spark.sql.streaming.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
    }
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)
