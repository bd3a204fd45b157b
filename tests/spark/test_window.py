"""`window` against that of plain Spark, on random rows."""

from __future__ import annotations

import pytest
from pyspark.sql import Window
from pyspark.sql import functions as F

import unskew
from tests.cases import mostly_thorough
from tests.spark.frames import FEW_KEYS, KEYS, QUICK_KEYS, Frames, assert_same, exchanges, setting


@pytest.mark.parametrize("kind", mostly_thorough(FEW_KEYS, QUICK_KEYS))
def test_windows(frames: Frames, kind: str) -> None:
    def results(w: object) -> list[object]:
        ordered = w.orderBy("v")  # type: ignore[attr-defined]
        return [
            F.row_number().over(ordered).alias("row"),
            F.lag("v", 2).over(ordered).alias("lag"),
            F.sum("w").over(w).alias("sum"),  # type: ignore[arg-type]
            F.sum("w").over(ordered.rowsBetween(-1, 1)).alias("near"),
        ]

    rows, over = unskew.window(frames.left, *KEYS[kind], plan=frames.plans[kind])
    assert rows.schema == frames.left.schema
    ours = rows.select("v", *KEYS[kind], *results(over))
    plain = frames.left.select("v", *KEYS[kind], *results(Window.partitionBy(*KEYS[kind])))
    assert_same(ours, plain)
    for adaptive in ("true", "false"):
        with setting(frames.spark, adaptive_enabled=adaptive):
            assert exchanges(ours) == ["shufflepartitionidpassthrough"]


@pytest.mark.parametrize("name", ["user", "Current_Date", "localtimestamp"])
def test_a_key_that_is_named_like_a_function_of_sql(frames: Frames, name: str) -> None:
    """Inside a subquery Spark would take the name for the function: one slot for all, and a second shuffle."""
    df = frames.left.withColumnRenamed("string", name)
    rows, over = unskew.window(df, name, plan=frames.plans["string"])
    numbered = rows.select("v", F.row_number().over(over.orderBy("v")).alias("n"))
    assert len(exchanges(numbered)) == 1


def test_auto_leaves_a_window_to_spark_if_hashing_is_as_good(frames: Frames) -> None:
    rows, over = unskew.window(frames.left, ["string", "a.b"][:1], slots=1)
    assert exchanges(rows.select(F.row_number().over(over.orderBy("v")).alias("n"))) == ["hashpartitioning"]
    assert rows is frames.left
