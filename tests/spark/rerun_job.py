"""Split keys on a cluster that loses an executor while it reads the shuffle, again and again.

`python -m tests.spark.rerun_job SETTING=VALUE …` prints as JSON, for each round and operator, whether an executor was
lost and the rows are those that they should be. `test_rerun` runs it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

import unskew
from unskew import windows

ROUNDS = 2
ROWS = 30_000


def main() -> None:
    builder = (
        SparkSession.builder.config("spark.log.level", "OFF")
        .config("spark.sql.autoBroadcastJoinThreshold", "-1")
        .config("spark.sql.shuffle.partitions", "6")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.task.maxFailures", "20")
        .config("spark.stage.maxConsecutiveAttempts", "20")
        .config("spark.scheduler.maxRegisteredResourcesWaitingTime", "120s")
        .config("spark.scheduler.minRegisteredResourcesRatio", "1.0")
        .config("spark.shuffle.io.maxRetries", "1")
        .config("spark.shuffle.io.retryWait", "100ms")
        # rows arrive in pieces, so their order changes
        .config("spark.reducer.maxBlocksInFlightPerAddress", "1")
    )
    for setting in sys.argv[1:]:
        name, _, value = setting.partition("=")
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    json.dump([one_round(session) for _ in range(ROUNDS)], sys.stdout)
    session.stop()


def one_round(session: SparkSession) -> dict[str, list[bool]]:
    """Four fifths of the left rows have one key; some of them are equal in every column, others in none."""
    rows = session.range(0, ROWS, 1, 8).select(
        F.expr("if(id % 5 > 0, 'hot', concat('k', id % 50))").alias("k"),
        F.expr("if(id % 2 = 0, 0, id)").alias("v"),
        "id",
    )
    left = rows.repartition(6, F.col("id") % 101).drop("id")
    right = session.range(0, 50, 1, 2).select(
        F.expr("if(id < 3, 'hot', concat('k', id))").alias("k"), F.col("id").alias("w")
    )
    plain, window = rows.drop("id"), Window.partitionBy("k").orderBy("v")
    jobs = {
        "join": (
            partial(passed_on, unskew.join(left, right, "k", "left", slots=5, planner="split")),
            plain.join(F.broadcast(right), "k", "left"),
        ),
        "over": (
            partial(
                passed_on,
                unskew.over(left, "k", "v", slots=5, planner="keel").withColumns(
                    place=windows.rank(), total=windows.sum("v")
                ),
            ),
            plain.withColumns({"place": F.rank().over(window), "total": F.sum("v").over(window)}),
        ),
        "merge": (
            partial(merging, left),
            plain.groupBy("k").agg(F.count("*").alias("n"), F.sum("v").alias("total")),
        ),
    }
    outcome = {}
    for name, (unskewed, expected) in jobs.items():
        flag = Path(tempfile.mkdtemp()) / "killed"
        found = counted(unskewed(str(flag)))
        outcome[name] = [flag.exists(), found == counted(expected)]
    return outcome


def passed_on(rows: DataFrame, flag: str) -> DataFrame:
    """The rows, of which a task kills its executor."""
    return rows.mapInArrow(dying_once(flag), rows.schema)


def merging(rows: DataFrame, flag: str) -> DataFrame:
    """Rows and sum of each key from partial results, of which a task kills its executor."""
    die = dying_once(flag)

    def summed(group: pd.DataFrame) -> pd.DataFrame:
        list(die(iter([pa.record_batch({"n": [1]})])))
        return pd.DataFrame({"k": group["k"].head(1), "n": [len(group)], "total": [group["v"].sum()]})

    grouped = unskew.groupBy(rows, "k", slots=5, planner="wrap-around")
    return grouped.applyInPandas(summed, "k string, n long, total long", merge=merged)


def merged(parts: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame({"k": parts["k"].head(1), "n": [parts["n"].sum()], "total": [parts["total"].sum()]})


def dying_once(flag: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Passes rows on; the first task that has read some kills its executor, once others have ended."""

    def passing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import time

        from pyspark import TaskContext

        context = TaskContext.get()
        last = context is not None and context.partitionId() == 3
        for batch in batches:
            if last and not Path(flag).exists():
                time.sleep(1)
                Path(flag).touch()
                worker_factory = Path(f"/proc/{os.getppid()}/stat").read_text("utf-8")
                os.kill(int(worker_factory.rpartition(")")[2].split()[1]), signal.SIGKILL)
            yield batch

    passing.__module__ = "__main__"
    return passing


def counted(df: DataFrame) -> Counter[str]:
    """The rows, with how often each of them occurs."""
    return Counter(map(str, df.collect()))


if __name__ == "__main__":
    main()
