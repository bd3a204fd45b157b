"""Batches with little to do: few keys of much state, or no records at all."""

from __future__ import annotations

import shutil
from typing import Any

import numpy as np

from benchmarks.bars import Bar
from benchmarks.sections import save
from benchmarks.stream_spark import Input, native, run_spark, run_unskew, same, seconds, session

KEYS, TOUCHED, BATCHES, SLOTS = 2_000_000, 2_000, 24, 2
WARM_UP = 4


def few() -> None:
    """2 000 of 2M keys per batch."""
    random = np.random.default_rng(6)
    batches = [random.integers(0, KEYS, TOUCHED) for _ in range(BATCHES)]
    _measure("few", "few keys: a batch with 2 000 of 2M keys", batches)


def empty() -> None:
    """Batches whose files have no records, beside 2M keys of state."""
    _measure("empty", "empty batch: a batch without records", [np.zeros(0, np.int64)] * BATCHES)


def _measure(section: str, name: str, batches: list[np.ndarray[Any, Any]]) -> None:
    spark = session("local[2]")
    spark.conf.set("spark.sql.shuffle.partitions", str(SLOTS))
    source = Input()
    for part in np.array_split(np.random.default_rng(7).permutation(KEYS), 2):
        source.add(part)
    seeds = source.batches
    for keys in batches:
        source.add(keys)
    details: dict[str, Any] = {}
    # the first run of each warms up the JVM
    for turn in range(2):
        progress, ours, lines = run_unskew(spark, source, f"unskew-{turn}", slots=SLOTS)
        details["unskew, s"] = seconds(progress, seeds + WARM_UP)
        details["unskew, by part of a batch, ms"] = _parts(progress[seeds + WARM_UP :])
        details["unskew, journal"] = lines[-2]["seconds"]
        progress, theirs = run_spark(spark, source, f"native-{turn}", native)
        details["native, s"] = seconds(progress, seeds + WARM_UP)
        details["native, by part of a batch, ms"] = _parts(progress[seeds + WARM_UP :])
        assert same(ours, theirs)
    print(f"    {details}", flush=True)
    shutil.rmtree(source.root)
    ratio = details["unskew, s"] / details["native, s"]
    save("stream", section, [Bar(f"{name} / native aggregation", ratio, 1.2, unit="×")], details)


def _parts(progress: list[dict[str, Any]]) -> dict[str, float]:
    """The median of each part of a batch that Spark times."""
    parts = progress[0]["durationMs"]
    return {part: float(np.median([p["durationMs"][part] for p in progress])) for part in parts}
