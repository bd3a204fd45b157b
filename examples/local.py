"""What the examples share: a local Spark session, a stream from tables, and a comparison that ignores order."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession


def session() -> SparkSession:
    """The active Spark session, or a new quiet one on this machine, whose workers run this Python."""
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return (
        SparkSession.builder.master("local[2]")
        .appName("unskew example")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )


def agree(plain: DataFrame, ours: DataFrame) -> list[Any]:
    """The rows of both, sorted; they must be the same, in any order."""
    expected, rows = (sorted(df.collect(), key=repr) for df in (plain, ours))
    assert rows == expected, "plain Spark and unskew disagree"
    return rows


def stream_of(spark: SparkSession, batches: Sequence[pa.Table], schema: str) -> DataFrame:
    """The tables as a stream: each table is a file, and each file is a batch."""
    folder = Path(tempfile.mkdtemp(prefix="unskew-example-"))
    for number, table in enumerate(batches):
        path = folder / f"{number:03d}.parquet"
        pq.write_table(table, path)
        os.utime(path, (1e9 + number, 1e9 + number))  # Spark reads the oldest file first
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))


def new_folder() -> str:
    """An empty folder for a checkpoint."""
    return tempfile.mkdtemp(prefix="unskew-example-")
