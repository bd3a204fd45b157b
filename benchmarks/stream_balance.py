"""How well a drifting stream is balanced, and what that is worth if every record waits."""

from __future__ import annotations

import shutil
import statistics
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql import SparkSession

import unskew
from benchmarks.bars import Bar
from benchmarks.sections import save
from benchmarks.stream_spark import Input, run_unskew, session, zipf

CHANGE = 10
"""Batches after which other keys become hot."""


def drifting(batches: int, rows: int, keys: int, exponent: float, seed: int = 5) -> Input:
    """A Zipf stream whose hot keys change every `CHANGE` batches."""
    random = np.random.default_rng(seed)
    source = Input()
    names = np.arange(keys)
    for batch in range(batches):
        if batch % CHANGE == 0:
            names = random.permutation(keys)
        source.add(names[zipf(rows, keys, exponent, random)])
    return source


def balance() -> None:
    """Max/mean load against its bound, by batch, from the third batch after each change on."""
    spark = session("local[2]")
    details: dict[str, Any] = {}
    worst = 1.0
    for exponent in (1.0, 1.2, 1.5):
        source = drifting(60, 50_000, 20_000, exponent)
        for planner in ("keel", "hash"):
            _, _, lines = run_unskew(
                spark, source, planner, slots=4, placement=unskew.Placement(planner=planner)
            )
            settled = [line for line in lines if line["batch"] % CHANGE >= 2]
            good = np.mean([line["imbalance"] <= 1.05 * line["bound"] for line in settled])
            details[f"z={exponent}, {planner}"] = {
                "within 5 % of the bound": float(good),
                "imbalance": [line["imbalance"] for line in lines],
                "bound": [line["bound"] for line in lines],
                "keys moved": [line["moved"]["rows"] for line in lines],
            }
            print(f"    z={exponent}, {planner}: {good:.1%} of the settled batches within 5 %", flush=True)
            if planner == "keel":
                worst = min(worst, float(good))
        shutil.rmtree(source.root)
    bar = Bar(
        "balance: share of settled batches within 5 % of the bound, worst exponent", worst, 0.9, at_least=True
    )
    save("stream", "balance", [bar], details)


def waiting() -> None:
    """Every record waits 2 ms, 16 slots on 16 cores: throughput against hashing, and what the bound allows."""
    spark = session("local[16]")
    details: dict[str, Any] = {}
    shares = []
    for exponent in (0.8, 1.0, 1.2):
        source = drifting(12, 16_000, 5_000, exponent)
        times = {}
        for planner in ("hash", "keel"):
            run = _wait(spark, source, planner, 16, 0.002)
            times[planner] = statistics.median(run["seconds"][3:])
        bound = statistics.median(run["bound"][3:]) / 16 * 16_000 * 0.002
        floor = _floor(spark)
        row = {**times, "the bound alone, s": bound, "an empty batch, s": floor}
        row["share of what the bound allows"] = (bound + floor) / times["keel"]
        shares.append(row["share of what the bound allows"])
        details[f"z={exponent}"] = row
        print(f"    z={exponent}: { {k: round(v, 3) for k, v in row.items()} }", flush=True)
        shutil.rmtree(source.root)
    note = "the bound includes the time of an empty batch"
    bar = Bar(
        "waiting: throughput / what the bound allows, worst exponent",
        min(shares),
        0.9,
        at_least=True,
        note=note,
    )
    save("stream", "waiting", [bar], details)


def guo() -> None:
    """Batch latency and throughput over N, by planner, like Table 2 and Figures 5 and 6 of Guo and Zhou."""
    spark = session("local[16]")
    source = drifting(9, 4_000, 5_000, 1.0)
    details: dict[str, Any] = {}
    for slots in (1, 2, 4, 8):
        for planner in ("hash", "elb", "clb", "kip", "keel"):
            run = _wait(spark, source, planner, slots, 0.0005)
            times = np.array(run["seconds"][3:])
            details[f"N={slots}, {planner}"] = {
                "max, s": times.max(),
                "mean, s": times.mean(),
                "median, s": float(np.median(times)),
                "95th, s": float(np.quantile(times, 0.95)),
                "records a second": 4_000 / times.mean(),
                "keys moved a batch": float(np.mean(run["moved"])),
            }
            print(f"    N={slots}, {planner}: mean {times.mean():.2f} s, max {times.max():.2f} s", flush=True)
    save("stream", "guo", [], details)


def _wait(spark: SparkSession, source: Input, planner: str, slots: int, wait: float) -> dict[str, Any]:
    """Run a stream in which every record waits, with one planner."""

    def fetch(rows: pd.DataFrame, states: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
        import time

        time.sleep(wait * len(rows))
        states["n"] = states["n"].fillna(0) + rows.groupby(level=0).size()
        return states[["user", "n"]], states

    name = f"{planner}-{slots}"
    shutil.rmtree(source.checkpoint(name), ignore_errors=True)
    operation = unskew.stream(source.read(spark), "user").update(
        fetch, output="user string, n long", state="n long"
    )
    query = operation.start(
        _noop,
        checkpoint=source.checkpoint(name),
        trigger="availableNow",
        slots=slots,
        placement=unskew.Placement(planner=planner),
    )
    query.awaitTermination()
    lines = query.journal()
    return {
        "seconds": [p["batchDuration"] / 1e3 for p in query.recentProgress],
        "bound": [line["bound"] for line in lines],
        "moved": [line["moved"]["rows"] for line in lines],
    }


def _floor(spark: SparkSession) -> float:
    """The batch time of the same operator with next to no records."""
    source = drifting(8, 16, 16, 0.1)
    run = _wait(spark, source, "hash", 16, 0.0)
    shutil.rmtree(source.root)
    return statistics.median(run["seconds"][3:])


def _noop(df: Any, _batch: int) -> None:
    df.write.format("noop").mode("overwrite").save()
