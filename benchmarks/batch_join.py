"""What a routed join pays before it starts: measuring both sides, planning, and the slot of every row."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from pyspark.sql import DataFrame

import unskew
from benchmarks.bars import Bar
from benchmarks.batch_spark import in_turns, noop, session
from benchmarks.sections import save
from benchmarks.split_joins import Case, inputs
from unskew.core.plan import Plan
from unskew.spark.keys import key_columns
from unskew.spark.slot_expression import slot_column

SCALE = 4.0
"""40M × 4M rows: a join that takes long enough for `auto` to measure it at all."""

TURNS = 3


def join() -> None:
    """An inner join by a string key, half of the left rows with one key, placed by a plan that was asked for."""
    spark = session("local[2]")
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    folder = Path(tempfile.mkdtemp(prefix="unskew-bench-"))
    left, right = inputs(spark, folder, Case(0.5, "one to one", "inner"), SCALE)
    asked: list[float] = []

    def routed() -> None:
        started = time.perf_counter()
        joined = unskew.join(left, right, "k", planner="keel")
        asked.append(time.perf_counter() - started)
        noop(joined)

    plan = unskew.plan(unskew.measure(left, "k"), slots=8)
    runs = {
        "plain": lambda: noop(left.join(right, "k")),
        "unskew": routed,
        "keys": lambda: _read(left, right),
        "slots": lambda: _read(left, right, plan),
    }
    times = in_turns(runs, repeat=TURNS)
    times["measuring and planning"] = min(asked)
    spent = times["measuring and planning"] + max(0.0, times["slots"] - times["keys"])
    bar = Bar(
        "join: measuring, planning and the slots of both sides / plain join",
        spent / times["plain"],
        0.05,
        unit="×",
    )
    save("batch", "join", [bar], times)


def _read(left: DataFrame, right: DataFrame, plan: Plan | None = None) -> None:
    """Read the keys of both sides, and compute their slots if there is a plan."""
    for side in (left, right):
        rows = side.select("k")
        if plan is not None:
            rows = rows.withColumn("slot", slot_column(plan.table, key_columns(side, "k").hash()))
        noop(rows)
