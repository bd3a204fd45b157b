"""Applications that are slow in known ways, each diagnosed by the command while its driver runs.

Usage: python -m tests.spark.skewed_apps FOLDER [NAME …], which then holds `logs`, the event logs of all of them, and
`live`, what `unskew diagnose --app` and `unskew.attach` printed about each.
"""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

import unskew
from unskew.eventlog.causes import Cause

ROWS = 6_000_000
WIDE = 400_000
"""Rows of a side that is too large to broadcast: 50 MB."""


@dataclass(frozen=True)
class App:
    """What it runs, the cause that has to be found, whether unskew could help, and words of the advice."""

    run: Callable[[SparkSession, Path], None]
    cause: Cause | None
    fixable: bool = False
    advice: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)


def hot(null: bool = False) -> Column:
    """Eight of ten rows have the same key."""
    hot_key = F.lit(None) if null else F.lit(0)
    return F.when(F.col("id") % 10 < 8, hot_key).otherwise(F.col("id") % WIDE).cast("long").alias("user")


def rows(session: SparkSession, *, null: bool = False, count: int = ROWS) -> DataFrame:
    return session.range(count, numPartitions=4).select(hot(null=null), F.col("id").alias("v"))


def users(session: SparkSession, count: int) -> DataFrame:
    pad = F.concat(F.sha2(F.col("id").cast("string"), 256), F.lit("-" * 40))
    return session.range(count, numPartitions=4).select(F.col("id").alias("user"), pad.alias("name"))


def write(df: DataFrame) -> None:
    df.write.format("noop").mode("overwrite").save()


def hot_join(session: SparkSession, _folder: Path) -> None:
    several = users(session, WIDE).crossJoin(session.range(2).toDF("copy"))
    write(rows(session).join(several, "user"))


def small_side(session: SparkSession, _folder: Path) -> None:
    write(rows(session).join(users(session, 1000).crossJoin(session.range(8).toDF("copy")), "user"))


def null_keys(session: SparkSession, _folder: Path) -> None:
    write(rows(session, null=True, count=3 * ROWS // 2).join(users(session, WIDE), "user", "left"))


def hot_group(session: SparkSession, _folder: Path) -> None:
    write(session.range(4, numPartitions=4).mapInPandas(lambda batches: batches, "id long"))  # workers start
    write(rows(session, count=2000).groupBy("user").applyInPandas(wait, "user long, v long"))


def wait(rows: pd.DataFrame) -> pd.DataFrame:
    """Three milliseconds per row."""
    time.sleep(0.003 * len(rows))
    return rows.head(1)


def large_file(session: SparkSession, folder: Path) -> None:
    files = folder / "files"
    files.mkdir()
    for number in range(8):
        lines = 1_500_000 if number == 3 else 10_000
        text = "".join(f"line {line}\n" for line in range(lines))
        (files / f"{number}.txt.gz").write_bytes(gzip.compress(text.encode(), 1))
    digest = F.col("value")
    for _ in range(4):
        digest = F.sha2(digest, 512)
    write(session.read.text(str(files)).select(digest.alias("digest")))


def spill(session: SparkSession, _folder: Path) -> None:
    even = session.range(3_000_000, numPartitions=4).select(
        (F.col("id") % 100_003).alias("user"), F.sha2(F.col("id").cast("string"), 256).alias("text")
    )
    write(even.repartition(8, "user").sortWithinPartitions("text"))


def even(session: SparkSession, _folder: Path) -> None:
    session.range(4000).groupBy((F.col("id") % 8).alias("even")).count().collect()


APPS = {
    "hot key in a join": App(hot_join, Cause.DATA, True, 'Use unskew.join(left, right, on="user")'),
    "small side": App(small_side, Cause.DATA, True, "broadcast it"),
    "null keys": App(null_keys, Cause.DATA, True, "spark.sql.shuffle.spreadNullJoinKeys.enabled"),
    "hot key in a group": App(hot_group, Cause.DATA, True, 'unskew.groupBy(df, "user").applyInPandas'),
    "one large file": App(
        large_file, Cause.INPUT, False, "maxPartitionBytes", {"spark.sql.files.maxPartitionBytes": "1m"}
    ),
    "spill": App(
        spill, Cause.SPILL, False, "memory", {"spark.shuffle.spill.numElementsForceSpillThreshold": "50000"}
    ),
    "nothing to fix": App(even, None),
}


def main(folder: Path, names: list[str]) -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    for made in ("logs", "live"):
        (folder / made).mkdir()
    for name in names:
        session = start(name, folder / "logs", APPS[name].settings)
        hints: list[str] = []
        attached = unskew.attach(session, every=0.5, out=hints.append)
        APPS[name].run(session, folder)
        address = session.sparkContext.uiWebUrl
        assert address is not None
        command = [sys.executable, "-m", "unskew", "diagnose", "--app", address, "--json"]
        told = subprocess.run(command, capture_output=True, text=True, check=False)
        assert told.returncode == 0, told.stderr
        attached.stop()
        (folder / "live" / f"{name}.json").write_text(told.stdout, "utf-8")
        (folder / "live" / f"{name}.hints").write_text("\n".join(hints), "utf-8")
        session.stop()


def start(name: str, logs: Path, settings: Mapping[str, str]) -> SparkSession:
    chosen = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "true",
        "spark.ui.port": "0",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "OFF",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": logs.as_uri(),
        "spark.sql.autoBroadcastJoinThreshold": "-1",
        "spark.sql.shuffle.partitions": "8",
        "spark.sql.adaptive.coalescePartitions.enabled": "false",
        **settings,
    }
    builder = SparkSession.builder.master("local[2]").appName(name).config(map=chosen)
    session: SparkSession = builder.getOrCreate()
    return session


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:] or list(APPS))
