"""A process that runs one live query per request until its input ends, or until it is killed.

`python -m tests.faults.job MASTER [SETTING=VALUE …]` reads one JSON object per line and answers each with one. It leads
its own process group, so that `UNSKEW_VICTIM` (the group) takes Spark's JVM with it.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import unskew
from unskew.core.migration.policy import Decision, Policy

MARK = "answer: "


@dataclass(frozen=True)
class Always(Policy):
    """Makes every move that the planner proposes, so that a short run has many migrations."""

    def decide(self, current: Any, candidate: Any, *_: Any, **__: Any) -> Decision:
        return Decision(not current.same_routes(candidate), "always")


def updated(rows: pd.DataFrame, states: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    if (rows["v"] < 0).any():
        raise ValueError("negative amount")
    values = rows.groupby(level=0)["v"]
    states["n"] = states["n"].fillna(0) + values.size()
    states["total"] = states["total"].fillna(0) + values.sum()
    return states[["k", "n", "total"]], states


def totals(events: Any, *key: str) -> Any:
    return unskew.stream(events, list(key)).aggregate(n=unskew.count(), total=unskew.sum("v"))


def updating(events: Any) -> Any:
    stream = unskew.stream(events, "k")
    return stream.update(updated, output="k string, n long, total long", state="n long, total long")


def windowed(events: Any) -> Any:
    stream = unskew.stream(events, "k", time="at", watermark="10 minutes")
    return stream.aggregate(window="5 minutes", n=unskew.count(), total=unskew.sum("v"))


def numbered(rows: pd.DataFrame, states: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    states["n"] = states["n"].fillna(0).astype("int64") + rows.groupby(level=0).size()
    return rows.assign(n=states["n"].reindex(rows.index))[["k", "v", "n"]], states


def chained(events: Any) -> Any:
    """By key, then by value: for each value the sum, over its records, of how many records their keys have."""
    first = unskew.stream(events, "k").update(numbered, output="k string, v long, n long", state="n long")
    return first.thenBy("v").aggregate(n=unskew.count(), total=unskew.sum("n"))


KINDS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "totals": ("k string, v long", lambda events: totals(events, "k")),
    "update": ("k string, v long", updating),
    "windows": ("k string, at timestamp, v long", windowed),
    "chain": ("k string, v long", chained),
    "double": ("k double, v long", lambda events: totals(events, "k")),
    "composite": ("a string, b long, v long", lambda events: totals(events, "a", "b")),
}


def main() -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["UNSKEW_VICTIM"] = str(-os.getpgrp())
    spark = make_session(sys.argv[1], sys.argv[2:])
    answer({"ready": True})
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer({"ok": True, **run(spark, request)})
        except Exception as error:  # noqa: BLE001 any error that stops a query is the answer
            answer({"ok": False, "error": f"{type(error).__name__}: {error}"})


def make_session(master: str, settings: list[str]) -> SparkSession:
    builder = (
        SparkSession.builder.master(master)
        .appName("unskew faults")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "1g")
        # the JVM is short-lived: compiling is not worth it
        .config("spark.sql.codegen.wholeStage", "false")
        .config("spark.sql.codegen.factoryMode", "NO_CODEGEN")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
    )
    for setting in settings:
        name, _, value = setting.partition("=")
        builder = builder.config(name, value)
    session: SparkSession = builder.getOrCreate()
    return session


def run(spark: SparkSession, request: dict[str, Any]) -> dict[str, Any]:
    """Handle the files that exist, then write the state to a file; with `hold` go on until killed."""
    schema, operation = KINDS[request["kind"]]
    root = Path(request["root"])
    checkpoint = request.get("checkpoint", str(root / "checkpoint"))
    source = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(request["source"])
    started = time.perf_counter()
    operators = operation(source)
    query = operators.start(
        f"parquet:{root / 'out'}",
        checkpoint=checkpoint,
        slots=3,
        policy=Always(),
        placement=unskew.Placement(planner=request.get("planner", "keel"), buckets=32),
        trigger=None if request.get("hold") else "availableNow",
    )
    if request.get("hold"):
        answer({"holding": True})
    query.awaitTermination()
    last = len(operators.specs) - 1
    pq.write_table(unskew.state(checkpoint, spark, last).toArrow(), root / "state.parquet")
    return {"seconds": round(time.perf_counter() - started, 2)}


def answer(what: dict[str, Any]) -> None:
    print(MARK + json.dumps(what), flush=True)  # noqa: T201 this is how it answers


if __name__ == "__main__":
    main()
