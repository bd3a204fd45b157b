"""What moving state costs a batch, and whether batch times stay flat in a long query."""

from __future__ import annotations

import shutil
import statistics
from dataclasses import dataclass
from typing import Any

import numpy as np

import unskew
from benchmarks.bars import Bar
from benchmarks.sections import save
from benchmarks.stream_spark import Input, native, run_spark, run_unskew, same, seconds, session
from unskew.core.migration.policy import Decision, Policy


@dataclass(frozen=True)
class Always(Policy):
    """Switches whenever the planner has another table, to measure what a migration costs."""

    def decide(self, *_: Any, **__: Any) -> Decision:
        """Always switch."""
        return Decision(True, "to measure what moving costs")


def moving() -> None:
    """State of 1M keys, 50k of them touched per batch: batches that move state against batches that do not."""
    spark = session("local[2]")
    random = np.random.default_rng(2)
    source = Input()
    keys = 1_000_000
    source.add(random.permutation(keys))
    for _ in range(24):
        source.add(random.integers(0, keys, 50_000))
    _, theirs = run_spark(spark, source, "native", native)
    details: dict[str, Any] = {}
    run_unskew(spark, source, "warm", slots=4, policy=None)
    progress, ours, _ = run_unskew(spark, source, "fixed", slots=4, policy=None)
    assert same(ours, theirs)
    still = seconds(progress, 6)
    for name, budget in (
        ("a tenth", unskew.Budget.batched(0.1)),
        ("a fiftieth", unskew.Budget.batched(0.02)),
    ):
        # the table of a planner with another hash function is far away, so every batch has state to move
        options = {"planner": "universal", "policy": Always(), "budget": budget}
        progress, ours, lines = run_unskew(spark, source, name, slots=4, **options)
        assert same(ours, theirs)
        moved = {line["batch"]: line["moved"]["rows"] for line in lines}
        busy = [p["batchDuration"] / 1e3 for p in progress[6:] if moved[p["batchId"]] > 0]
        details[name] = {
            "fixed table, s": still,
            "moving, s": statistics.median(busy),
            "slowest, s": max(busy),
            "batches that moved": len(busy),
            "keys moved a batch": statistics.median(m for b, m in moved.items() if m and b >= 6),
        }
        print(f"    {name}: { {k: round(v, 3) for k, v in details[name].items()} }", flush=True)
    bars = [
        Bar(
            "moving: a batch that moves 10 % of 1M keys / a batch with a fixed table",
            details["a tenth"]["moving, s"] / still,
            1.3,
            unit="×",
        ),
        Bar(
            "moving: the same in steps of 2 % / a batch with a fixed table",
            details["a fiftieth"]["moving, s"] / still,
            1.15,
            unit="×",
        ),
    ]
    save("stream", "moving", bars, details)
    shutil.rmtree(source.root)


def steady() -> None:
    """200 batches: whether the last are slower than the first, and whether time grows faster than rows."""
    spark = session("local[2]")
    random = np.random.default_rng(3)
    source = Input()
    hot = np.arange(20_000)
    for batch in range(200):
        if batch % 10 == 0:
            hot = random.permutation(20_000)
        shares = np.minimum(random.zipf(1.5, 10_000) - 1, 19_999)
        source.add(hot[shares])
    progress, _, lines = run_unskew(spark, source, "long", slots=2)
    times = [p["batchDuration"] / 1e3 for p in progress]
    early, late = statistics.median(times[30:80]), statistics.median(times[-50:])
    details: dict[str, Any] = {
        "early, s": early,
        "late, s": late,
        "controller early, s": statistics.median(line["seconds"]["controller"] for line in lines[30:80]),
        "controller late, s": statistics.median(line["seconds"]["controller"] for line in lines[-50:]),
        "batches that moved": sum(line["moved"]["rows"] > 0 for line in lines),
    }
    shutil.rmtree(source.root)
    for rows in (100_000, 400_000, 1_600_000):
        source = Input()
        for _ in range(8):
            source.add(random.integers(0, 50_000, rows))
        progress, _, _ = run_unskew(spark, source, "rows", slots=2)
        details[f"{rows} rows, s"] = seconds(progress, 3)
        shutil.rmtree(source.root)
    growth = details["1600000 rows, s"] / details["400000 rows, s"]
    print(f"    { {k: round(float(v), 3) for k, v in details.items()} }", flush=True)
    bars = [
        Bar("steady: time of batches 150 to 200 / batches 30 to 80", late / early, 1.1, unit="×"),
        Bar("steady: time with 4 × the rows", growth, 4.0, unit="×"),
    ]
    save("stream", "steady", bars, details)
