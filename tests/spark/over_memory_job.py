"""A window over a key with 90 % of the rows, by plain Spark and cut, in a process with too little memory for the key.

`python -m tests.spark.over_memory_job FOLDER` prints as JSON for each: the answer, bytes spilled, and the most memory
of a task. The event log goes to the folder.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

import unskew
from unskew import windows

ROWS, SLOTS = 500_000, 16


def main(folder: Path) -> None:
    settings = {
        "spark.driver.memory": "600m",
        "spark.memory.fraction": "0.2",  # of what is left above 300 MB
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": str(SLOTS),
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file://{folder}",
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
    }
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    rows = spark.range(0, ROWS, 1, 8).selectExpr(
        "if(id % 10 != 3, 'hot', 'u' || pmod(id, 200)) user",
        "pmod(id * 7919, 100000007) at",
        "id",
        "repeat(cast(id as string), 12) text",
    )
    window = Window.partitionBy("user").orderBy("at")
    functions = {"n": F.row_number(), "total": F.sum("id"), "before": F.lag("text")}
    ways: dict[str, Callable[[], DataFrame]] = {
        "plain": lambda: rows.withColumns({name: each.over(window) for name, each in functions.items()}),
        "cut": lambda: unskew.over(rows, "user", "at", slots=SLOTS, planner="keel").withColumns(
            n=windows.row_number(), total=windows.sum("id"), before=windows.lag("text")
        ),
    }
    findings: dict[str, dict[str, Any]] = {}
    for name, way in ways.items():
        spark.sparkContext.setJobGroup(name, name)
        content = F.xxhash64("id", "n", "total", "before").cast("decimal(38,0)")
        answer = way().agg(F.count(F.lit(1)), F.sum(content)).first()
        findings[name] = {"answer": str(answer), "spilled": 0, "memory": 0}
    spark.stop()
    _add_metrics(folder, findings)
    json.dump(findings, sys.stdout)


def _add_metrics(folder: Path, findings: dict[str, dict[str, Any]]) -> None:
    group_of: dict[int, str] = {}
    for line in next(folder.iterdir()).read_text().splitlines():
        event = json.loads(line)
        if event["Event"] == "SparkListenerJobStart":
            group_of |= dict.fromkeys(event["Stage IDs"], event["Properties"].get("spark.jobGroup.id"))
        elif event["Event"] == "SparkListenerTaskEnd" and event.get("Task Metrics"):
            found = findings[group_of[event["Stage ID"]]]
            found["spilled"] += event["Task Metrics"]["Disk Bytes Spilled"]
            found["memory"] = max(found["memory"], event["Task Metrics"]["Peak Execution Memory"])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
