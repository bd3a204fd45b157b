"""Small jobs with known event logs: a skewed group, an even group, a join that Spark splits, a task that fails once.

Usage: python -m tests.spark.event_log_job FOLDER, which then holds `plain`, `zstd` and `rolling`, a log in each.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pandas as pd
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

FLAVOURS: Mapping[str, Mapping[str, str]] = {
    "plain": {"spark.eventLog.rolling.enabled": "false", "spark.eventLog.compress": "false"},
    "zstd": {"spark.eventLog.rolling.enabled": "false", "spark.eventLog.compress": "true"},
    "rolling": {"spark.eventLog.rolling.enabled": "true", "spark.eventLog.compress": "true"},
}

# The tasks of the logs must differ: no merging of small partitions, and a join whose parts are not equal.
ADAPTIVE = {
    "coalescePartitions.enabled": "false",
    "advisoryPartitionSizeInBytes": "10k",
    "skewJoin.skewedPartitionThresholdInBytes": "10k",
    "skewJoin.skewedPartitionFactor": "2",
}


def main(folder: Path) -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    for flavour, settings in FLAVOURS.items():
        logs = folder / flavour
        logs.mkdir()
        session = start(logs, settings)
        session.range(40).groupBy((F.col("id") % 4).alias("even")).count().collect()
        if flavour == "plain":
            uneven(session)
        session.stop()


def uneven(session: SparkSession) -> None:
    """First the task that fails: by its end the Python workers have started."""
    write(session.range(40, numPartitions=4).mapInPandas(fail_once, "id long"))
    write(skewed(session, 2000).groupBy("user").applyInPandas(wait, "user long, v long"))
    write(skewed(session, 40_000).repartition(4).join(session.range(1000).toDF("user"), "user"))


def start(logs: Path, settings: Mapping[str, str]) -> SparkSession:
    builder = SparkSession.builder.master("local[2,2]").appName("event log job")
    chosen = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "OFF",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": logs.as_uri(),
        "spark.sql.autoBroadcastJoinThreshold": "-1",
        "spark.sql.shuffle.partitions": "8",
        **{f"spark.sql.adaptive.{name}": value for name, value in ADAPTIVE.items()},
        **settings,
    }
    session: SparkSession = builder.config(map=chosen).getOrCreate()
    return session


def skewed(session: SparkSession, rows: int = 4000) -> DataFrame:
    """Seven of ten rows have the same user."""
    user = F.when(F.col("id") % 10 < 7, F.lit(0)).otherwise(F.col("id") % 1000)
    return session.range(rows).select(user.alias("user"), F.col("id").alias("v"))


def write(df: DataFrame) -> None:
    df.write.format("noop").mode("overwrite").save()


def wait(rows: pd.DataFrame) -> pd.DataFrame:
    """Two milliseconds per row."""
    time.sleep(0.002 * len(rows))
    return rows.head(1)


def fail_once(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    """The first attempt of the second task fails, and the third is slow although it reads as much as the others."""
    task = TaskContext.get()
    assert task is not None
    if task.partitionId() == 1 and task.attemptNumber() == 0:
        raise RuntimeError("this attempt fails on purpose")
    if task.partitionId() == 2:
        time.sleep(3)
    yield from batches


if __name__ == "__main__":
    main(Path(sys.argv[1]))
