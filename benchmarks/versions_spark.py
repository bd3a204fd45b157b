"""One version of Spark: routing, measuring, functions on groups and a stream, each beside plain Spark.

`benchmarks.versions` runs this in the environment of the version: data folder and record as arguments.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

import unskew
from benchmarks.batch_spark import in_turns, noop, session
from benchmarks.stream_spark import ROCKSDB, Input, native, run_spark, run_unskew, same, seconds
from research.papers.provenance import commit, machine
from unskew.spark.keys import key_columns
from unskew.spark.slot_expression import seat_column
from unskew.spark.versions.placing import by_seat
from unskew.spark.versions.running import version_of

SLOTS, HEAVY = 64, 128
GROUPS, ROWS_PER_GROUP = 20_000, 10
BATCHES, BATCH_ROWS, BATCH_KEYS, STREAM_SLOTS, WARM_UP = 10, 200_000, 50_000, 2, 4
RESULT = "user string, n long, total double"


def main() -> None:
    """Measure, and write the record."""
    data, record = Path(sys.argv[1]), Path(sys.argv[2])
    settings = {
        "spark.sql.autoBroadcastJoinThreshold": "-1",
        "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.sql.streaming.numRecentProgressUpdates": "1000",
    }
    spark = session("local[2]", **settings)
    df = spark.read.parquet(str(data))
    rows = df.count()
    scale = min(1.0, rows / 1_000_000)
    times = {**routing(df), **measuring(df), **groups(spark, scale), **stream(spark, scale)}
    shuffles = exchanges(df)
    for name, taken in times.items():
        print(f"    {name}: {taken:.3f} s", flush=True)
    figures = {"spark": spark.version, "rows": rows, "seconds": times, "exchanges": shuffles}
    stamp = {"commit": commit(), "machine": machine(), "when": time.strftime("%Y-%m-%d")}
    record.parent.mkdir(exist_ok=True)
    record.write_text(json.dumps({**stamp, **figures}, indent=1, default=float) + "\n")
    spark.stop()


def routing(df: DataFrame) -> dict[str, float]:
    """The shuffle by slot, with the look-up of the slot, beside the shuffle by key."""
    histogram = unskew.measure(df, "user").trimmed(HEAVY)
    table = unskew.plan(histogram, SLOTS, "oracle").table
    seat = seat_column(df.sparkSession, table, key_columns(df, "user").hash())
    runs = {
        "repartition": lambda: noop(df.repartition(SLOTS, "user")),
        "routed": lambda: noop(by_seat(df, SLOTS, seat)),
    }
    return in_turns(runs, repeat=5)


def measuring(df: DataFrame) -> dict[str, float]:
    """Measuring by default, of every row, and of a job while it runs."""

    def observed() -> None:
        observation = unskew.observe(df, "user")
        noop(observation.df)
        assert observation.histogram.total > 0

    runs = {
        "measure": lambda: unskew.measure(df, "user"),
        "measure, exact": lambda: unskew.measure(df, "user", sample=None),
        "observed job": observed,
        "plain job": lambda: noop(df),
    }
    return in_turns(runs, repeat=3)


def groups(spark: SparkSession, scale: float) -> dict[str, float]:
    """A function on many small groups, with the same plan for every run."""
    keys = max(200, int(GROUPS * scale))
    number = F.col("id")
    rows = spark.range(keys * ROWS_PER_GROUP).select(
        F.concat(F.lit("user-"), number % keys).alias("user"), (number * 0.5).alias("value")
    )
    rows = rows.repartition(4).localCheckpoint()
    plan = unskew.plan(unskew.measure(rows, "user"), slots=8)
    runs = {
        "plain groups": lambda: noop(rows.groupBy("user").applyInPandas(total, RESULT)),
        "groups": lambda: noop(unskew.groupBy(rows, "user", plan=plan).applyInPandas(total, RESULT)),
    }
    return in_turns(runs, repeat=2)


def total(rows: Any) -> Any:
    """The function on groups."""
    return pd.DataFrame(
        {"user": [rows["user"].iloc[0]], "n": [len(rows)], "total": [float(rows["value"].sum())]}
    )


def stream(spark: SparkSession, scale: float) -> dict[str, float]:
    """A batch of the live operator beside one of Spark's own aggregation; nothing before Spark 4.0."""
    if not version_of(spark).has_python_state:
        return {}
    spark.conf.set("spark.sql.shuffle.partitions", str(STREAM_SLOTS))
    random = np.random.default_rng(0)
    source = Input()
    for _ in range(BATCHES):
        source.add(random.integers(0, max(100, int(BATCH_KEYS * scale)), max(1000, int(BATCH_ROWS * scale))))
    times = {}
    for turn in range(2):  # the first run of each warms up
        progress, ours, _ = run_unskew(spark, source, f"unskew-{turn}", slots=STREAM_SLOTS)
        times["stream batch"] = seconds(progress, WARM_UP)
        progress, theirs = run_spark(spark, source, f"native-{turn}", native)
        times["native batch"] = seconds(progress, WARM_UP)
        assert same(ours, theirs)
    spark.conf.set("spark.sql.shuffle.partitions", "8")
    return times


def exchanges(df: DataFrame) -> dict[str, tuple[int, int]]:
    """The number of exchanges of each operator: of unskew with a plan, and of plain Spark."""
    plan = unskew.plan(unskew.measure(df, "user"), slots=SLOTS)
    grouped, plain = unskew.groupBy(df, "user", plan=plan), df.groupBy("user")
    rows, window = unskew.window(df, "user", plan=plan)
    numbered = F.row_number().over(Window.partitionBy("user").orderBy("time"))
    values = df.select("user", F.col("value").alias("other"))
    pairs = {
        "agg": (grouped.agg(F.collect_list("value")), plain.agg(F.collect_list("value"))),
        "applyInPandas": (grouped.applyInPandas(total, RESULT), plain.applyInPandas(total, RESULT)),
        "join": (unskew.join(df, values, "user", plan=plan), df.join(values, "user")),
        "window": (
            rows.withColumn("n", F.row_number().over(window.orderBy("time"))),
            df.withColumn("n", numbered),
        ),
    }
    return {name: (_exchanges(ours), _exchanges(theirs)) for name, (ours, theirs) in pairs.items()}


def _exchanges(df: DataFrame) -> int:
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        df.explain()
    return len(re.findall(r"^[\s:+|-]*(?:\*\(\d+\) )?Exchange\b", text.getvalue(), re.MULTILINE))


if __name__ == "__main__":
    main()
