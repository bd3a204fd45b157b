"""A job for a cluster: measure, groupBy and join against plain Spark's, and which processes did the work.

`python -m tests.spark.cluster_job SETTING=VALUE …` prints its findings as JSON. `test_local_cluster` runs it, and so
does the campaign of faults on several hosts.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import unskew

SLOTS = 4


def main() -> None:
    builder = (
        SparkSession.builder.config("spark.log.level", "ERROR")
        .config("spark.sql.autoBroadcastJoinThreshold", "-1")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        # Otherwise the executor that starts first would do all the work.
        .config("spark.scheduler.maxRegisteredResourcesWaitingTime", "120s")
        .config("spark.scheduler.minRegisteredResourcesRatio", "1.0")
    )
    for setting in sys.argv[1:]:
        name, _, value = setting.partition("=")
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    hot = F.expr("if(id % 3 = 0, 'hot', concat('k', cast(sqrt(id) as int)))")
    events = session.range(0, 6000, 1, 4).select(hot.alias("user"), F.col("id").alias("v"))
    users = session.range(0, 50, 1, 2).select(
        F.concat(F.lit("k"), "id").alias("user"), F.col("id").alias("age")
    )
    json.dump(findings(events, users), sys.stdout)
    session.stop()


def findings(events: DataFrame, users: DataFrame) -> dict[str, Any]:
    def summary(rows: pd.DataFrame) -> pd.DataFrame:
        worker = {"worker": [os.getpid()], "executor": [os.getppid()]}
        return pd.DataFrame({"user": rows["user"][:1], "n": [len(rows)], "last": [rows["v"].max()], **worker})

    measured = unskew.measure(events, "user", buckets=256, sample=None)
    plan = unskew.plan(measured, slots=SLOTS, planner="keel")
    counts = dict(events.groupBy("user").count().collect())
    schema = "user string, n long, last long, worker long, executor long"
    groups = unskew.groupBy(events, "user", plan=plan).applyInPandas(summary, schema).collect()
    plain_groups = events.groupBy("user").agg(F.count("v"), F.max("v")).collect()
    joined = unskew.join(events, users, "user", "full", plan=plan)
    plain_joined = events.join(users, "user", "full")
    return {
        "cores": int(events.sparkSession.sparkContext.defaultParallelism),
        "measured": dict(measured.top(1000)) == counts,
        "groups": sorted(tuple(row[:3]) for row in groups) == sorted(tuple(row) for row in plain_groups),
        "join": sorted(map(str, joined.collect())) == sorted(map(str, plain_joined.collect())),
        "rows": [len(groups), joined.count()],
        "processes": len({row["executor"] for row in groups}),
    }


if __name__ == "__main__":
    main()
