"""A job that shuffles bytes and prints where they came from and which host read them.

`python -m tests.spark.shuffle_job [SETTING=VALUE …]` prints a line of JSON at once. For each folder named on its
standard input it shuffles once more, with slow readers that touch `reading` in that folder, and prints another line.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from unskew.spark.shuffle_metrics import ShuffleMetrics

ROWS, WIDTH, PARTITIONS = 8000, 1000, 4
SLOW = 2.0
"""Seconds that a slow reader waits before it reads."""


def main() -> None:
    builder = (
        SparkSession.builder.config("spark.log.level", "ERROR")
        # so that the number of bytes is predictable
        .config("spark.shuffle.compress", "false")
        .config("spark.ui.port", "0")
        .config("spark.ui.showConsoleProgress", "false")
    )
    for setting in sys.argv[1:]:
        name, _, value = setting.partition("=")
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    metrics = ShuffleMetrics(spark)
    for _ in range(2):
        counts = counted(shuffled(spark), None)
    report({**counts, **read(metrics)})
    for line in sys.stdin:
        metrics.mark()
        report({**counted(shuffled(spark), Path(line.strip())), **read(metrics)})
    spark.stop()


def shuffled(spark: SparkSession) -> DataFrame:
    rows = spark.range(0, ROWS, 1, PARTITIONS).withColumn("body", F.repeat(F.lit("x"), WIDTH))
    return rows.repartition(PARTITIONS, "id")


def counted(df: DataFrame, slowly: Path | None) -> dict[str, Any]:
    """How many rows were read at each address, and the sum of their ids."""

    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if slowly is not None:
            (slowly / "reading").touch()
            time.sleep(SLOW)
        ids = [i for batch in batches for i in batch["id"].to_pylist()]
        where = os.environ.get("SPARK_LOCAL_IP", "here")
        yield pa.RecordBatch.from_pylist([{"host": where, "rows": len(ids), "sum": sum(ids)}])

    counts = df.mapInArrow(count, "host string, rows long, sum long").collect()
    rows = dict.fromkeys((row["host"] for row in counts), 0)
    for row in counts:
        rows[row["host"]] += row["rows"]
    return {"rows": rows, "sum": sum(row["sum"] for row in counts)}


def read(metrics: ShuffleMetrics) -> dict[str, Any]:
    total, stages = metrics.read(), metrics.by_stage()
    assert total is not None
    assert stages is not None
    return {"local": total.local, "remote": total.remote, "stages": len(stages)}


def report(figures: dict[str, Any]) -> None:
    print(json.dumps(figures), flush=True)  # noqa: T201 (the test reads it)


if __name__ == "__main__":
    main()
