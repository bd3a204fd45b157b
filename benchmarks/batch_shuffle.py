"""Routing and measuring against the shuffle they come with: 10M rows, string keys, 64 slots."""

from __future__ import annotations

import tempfile

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import unskew
from benchmarks.bars import Bar
from benchmarks.batch_spark import in_turns, noop, parquet, session, zipf_keys
from benchmarks.sections import save
from unskew.core.plan import make_table
from unskew.spark.keys import key_columns
from unskew.spark.slot_expression import slot_column

SLOTS, ROWS = 64, 10_000_000


def data(spark: SparkSession, exponent: float = 1.1) -> DataFrame:
    """10M rows of a string key, a time and a value."""
    keys = pa.array(zipf_keys(ROWS, 1_000_000, exponent))
    df = parquet(spark, pa.table({"n": keys}), "keys")
    return df.select(
        F.format_string("user-%07d", "n").alias("user"),
        F.xxhash64("n").alias("time"),
        (F.col("n") * 0.5).alias("value"),
    )


def stored(spark: SparkSession) -> DataFrame:
    """The same, written to Parquet once, so that every run reads the same files."""
    folder = tempfile.mkdtemp(prefix="unskew-bench-") + "/rows"
    data(spark).write.parquet(folder)
    return spark.read.parquet(folder)


def routing() -> None:
    """Slot column + shuffle by slot against repartition(N, key)."""
    spark = session("local[2]")
    df = stored(spark)
    histogram = unskew.measure(df, "user", sample=None)
    key_hash = key_columns(df, "user").hash()
    runs = {"repartition(N, key)": lambda: noop(df.repartition(SLOTS, "user"))}
    for rows in (2 * SLOTS, 1000):
        table = make_table("oracle", histogram.trimmed(rows), SLOTS)
        assert len(table.hashes) == rows
        slot = slot_column(table, key_hash)
        runs[f"{rows} heavy keys"] = lambda slot=slot: noop(df.repartitionById(SLOTS, slot))
    times = in_turns(runs, repeat=5)
    plain = times["repartition(N, key)"]
    bars = [
        Bar(
            "routing: slot column and shuffle / plain shuffle, 128 heavy keys",
            times["128 heavy keys"] / plain,
            1.10,
            unit="×",
        ),
        Bar(
            "routing: slot column and shuffle / plain shuffle, 1000 heavy keys",
            times["1000 heavy keys"] / plain,
            1.20,
            unit="×",
        ),
    ]
    save("batch", "routing", bars, times)


def measure() -> None:
    """A full `measure` against the shuffle it precedes; a sampled one against a job that sorts and scores."""
    spark = session("local[2]")
    df = stored(spark)
    sorted_job = df.repartition(SLOTS, "user").sortWithinPartitions("user", "time")
    runs = {
        "repartition(N, key)": lambda: noop(df.repartition(SLOTS, "user")),
        "measure": lambda: unskew.measure(df, "user", sample=None),
        "measure, auto": lambda: unskew.measure(df, "user", sample="auto"),
        "shuffle and sort": lambda: noop(sorted_job),
    }
    times = in_turns(runs, repeat=5)
    # the whole job would take an hour
    part = df.sample(0.02, seed=0)
    scored = in_turns({"applyInPandas": lambda: noop(_score(part))}, repeat=1, warm_up=0)
    times["applyInPandas on 2 % of the rows"] = scored["applyInPandas"]
    bars = [
        Bar(
            "measure: full measure / the shuffle it precedes",
            times["measure"] / times["repartition(N, key)"],
            1.0,
            unit="×",
        ),
        Bar(
            "measure: measure with default sampling / applyInPandas on 2 % of the rows",
            times["measure, auto"] / times["applyInPandas on 2 % of the rows"],
            0.10,
            unit="×",
            note="the whole job is many times longer",
        ),
    ]
    save("batch", "measure", bars, times)


def _score(df: DataFrame) -> DataFrame:
    def score(rows):  # type: ignore[no-untyped-def]
        rows = rows.sort_values("time")
        return rows.assign(value=rows["value"].cumsum())

    return df.groupBy("user").applyInPandas(score, df.schema)
