"""How fast the live operator is compared with Spark's own stateful operators."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.bars import Bar
from benchmarks.sections import save
from benchmarks.stream_spark import (
    Input,
    native,
    run_spark,
    run_unskew,
    same,
    seconds,
    session,
    with_processor,
    with_state,
)

ROWS, KEYS, SLOTS = 200_000, 50_000, 2


def speed() -> None:
    """200k rows and 50k keys per batch on two cores."""
    spark = session("local[2]")
    spark.conf.set("spark.sql.shuffle.partitions", str(SLOTS))
    random = np.random.default_rng(0)
    source = Input()
    for _ in range(14):
        source.add(random.integers(0, KEYS, ROWS))
    details: dict[str, Any] = {}
    times: dict[str, float] = {}
    # the first run of each warms up the JVM
    for turn in range(2):
        progress, ours, lines = run_unskew(spark, source, f"unskew-{turn}", slots=SLOTS)
        times["unskew"] = seconds(progress, 4)
        progress, theirs = run_spark(spark, source, f"native-{turn}", native)
        times["native"] = seconds(progress, 4)
        assert same(ours, theirs)
    details["journal, a steady batch"] = lines[-2]["seconds"]
    steering = [line["seconds"]["controller"] for line in lines[4:]]
    reports = [line["seconds"]["slots"].get("report", 0.0) for line in lines[4:]]
    overhead = (np.median(steering) + np.median(reports) / 2) / times["unskew"]

    few = Input()
    for batch in range(3):
        for path in sorted((source.root / "in").glob(f"{batch:05d}-*")):
            shutil.copy2(path, few.root / "in")
        few.batches += 1
    progress, checked, _ = run_unskew(spark, few, "unskew", slots=SLOTS)
    for name, build in (
        ("applyInPandasWithState", with_state),
        ("transformWithStateInPandas", with_processor),
    ):
        progress, theirs = run_spark(spark, few, name, build)
        assert same(checked, theirs)
        times[name] = seconds(progress, 1)
        print(f"    {name}: {times[name]:.2f} s", flush=True)
    details |= {"seconds a batch": times}
    live = times["unskew"]
    bars = [
        Bar("speed: batch time of unskew / native aggregation", live / times["native"], 0.8, unit="×"),
        Bar(
            "speed: batch time of applyInPandasWithState / unskew",
            times["applyInPandasWithState"] / live,
            15.0,
            at_least=True,
            unit="×",
        ),
        Bar(
            "speed: batch time of transformWithStateInPandas / unskew",
            times["transformWithStateInPandas"] / live,
            20.0,
            at_least=True,
            unit="×",
        ),
        Bar("speed: time of statistics, reports, policy and journal / batch time", float(overhead), 0.05),
    ]
    save("stream", "speed", bars, details)


def large() -> None:
    """Much state, of which few keys are touched: time, bytes and growth of the checkpoint."""
    spark = session("local[2]")
    spark.conf.set("spark.sql.shuffle.partitions", str(SLOTS))
    random = np.random.default_rng(1)
    details: dict[str, Any] = {}
    for keys, touched in ((200_000, 50_000), (2_000_000, 50_000), (2_000_000, 2_000), (10_000_000, 50_000)):
        source = Input()
        for part in np.array_split(random.permutation(keys), max(1, keys // 1_000_000)):
            source.add(part)
        seeds = source.batches
        for _ in range(16):
            source.add(random.integers(0, keys, touched))
        row: dict[str, Any] = {}
        progress, ours, lines = run_unskew(spark, source, "unskew", slots=SLOTS)
        row["unskew, s"] = seconds(progress, seeds + 4)
        row["unskew, slowest s"] = max(p["batchDuration"] for p in progress[seeds + 4 :]) / 1e3
        row["unskew, checkpoint MB"] = _size(source.checkpoint("unskew"))
        row["unskew, written kB a batch"] = (
            np.mean([line["state"]["written"] for line in lines[seeds:]]) / 1e3
        )
        if keys <= 2_000_000:
            progress, theirs = run_spark(spark, source, "native", native)
            assert same(ours, theirs)
            row["native, s"] = seconds(progress, seeds + 4)
            row["native, checkpoint MB"] = _size(source.checkpoint("native"))
        details[f"{keys} keys, {touched} touched"] = row
        print(
            f"    {keys} keys, {touched} touched: { {k: round(float(v), 2) for k, v in row.items()} }",
            flush=True,
        )
        shutil.rmtree(source.root)
    row = details["2000000 keys, 50000 touched"]
    few = Input()
    for _ in range(3):
        few.add(random.integers(0, 2_000_000, 50_000))
    progress, _ = run_spark(spark, few, "applyInPandasWithState", with_state)
    row["applyInPandasWithState without the other 1.95M keys, s"] = slow = seconds(progress, 1)
    bars = [
        Bar(
            "large: batch time of unskew / native aggregation, 2M keys",
            row["unskew, s"] / row["native, s"],
            0.8,
            unit="×",
        ),
        Bar(
            "large: checkpoint of unskew / native aggregation, 2M keys",
            row["unskew, checkpoint MB"] / row["native, checkpoint MB"],
            2.0,
            unit="×",
        ),
        Bar(
            "large: batch time of applyInPandasWithState / unskew, 2M keys",
            slow / row["unskew, s"],
            10.0,
            at_least=True,
            unit="×",
            note="Spark's operator ran without the 2M keys of state",
        ),
    ]
    save("stream", "large", bars, details)


def _size(folder: str) -> float:
    return sum(f.stat().st_size for f in Path(folder).rglob("*") if f.is_file()) / 1e6
