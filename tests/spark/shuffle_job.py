"""A job that shuffles bytes and says where they came from and who read them.

`python -m tests.spark.shuffle_job [SETTING=VALUE …]` answers with a line of JSON at once. Told a folder on its standard
input, it shuffles once more, with slow readers that touch `reading` in that folder, and answers again.
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
        .config("spark.shuffle.compress", "false")  # so that the bytes can be foretold
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
    answer({**counts, **read(metrics)})
    for line in sys.stdin:
        metrics.mark()
        answer({**counted(shuffled(spark), Path(line.strip())), **read(metrics)})
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

    found = df.mapInArrow(count, "host string, rows long, sum long").collect()
    rows = {
        host: sum(row["rows"] for row in found if row["host"] == host) for host in {r["host"] for r in found}
    }
    return {"rows": rows, "sum": sum(row["sum"] for row in found)}


def read(metrics: ShuffleMetrics) -> dict[str, Any]:
    total, stages = metrics.read(), metrics.by_stage()
    assert total is not None
    assert stages is not None
    return {"local": total.local, "remote": total.remote, "stages": len(stages)}


def answer(what: dict[str, Any]) -> None:
    print(json.dumps(what), flush=True)  # noqa: T201 this is how it answers


if __name__ == "__main__":
    main()
