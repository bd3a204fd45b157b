"""Event time as Spark's own operators have it: the same rows in the same batches, whatever moves and scales."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import unskew
from tests.streaming.live.live import Live
from tests.streaming.live.pipelines import SCHEMA, SECOND, Pipeline, Stage, live_outputs, native
from unskew.streaming.storage.ledger import Ledger

QUICK = (7,)
PIPELINES = int(os.environ.get("UNSKEW_TEST_PIPELINES", "240"))


def table(keys: list[str], seconds: list[float]) -> pa.Table:
    at = pa.array([int(s * SECOND) for s in seconds], pa.int64()).cast(pa.timestamp("us", "UTC"))
    return pa.table({"k": keys, "at": at, "v": pa.array([1] * len(keys), pa.int64())})


def check(spark: SparkSession, folder: Path, pipeline: Pipeline) -> dict[int, list[tuple[Any, ...]]]:
    for name in ("native", "live"):
        (folder / name).mkdir()
    expected = native(spark, folder / "native", pipeline)
    assert live_outputs(spark, folder / "live", pipeline) == expected
    return expected


@pytest.mark.classic
@pytest.mark.connect
def test_slots_added_before_the_stream_goes_quiet_emit_the_windows_that_moved_to_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    live = Live(spark, tmp_path, SCHEMA)
    keys = [f"k{i}" for i in range(20)]
    live.add(table(keys, [1] * 20), table([*keys, "k0"], [*[2] * 20, 100]))
    stream = unskew.stream(live.events(), "k", time="at", watermark="1 millisecond")
    windows = stream.aggregate(window="10 seconds", n=unskew.count())
    options = {"slots": 1, "max_slots": 2, "policy": None}
    live.run(windows, **options, scaling=unskew.LoadRange(5, 10))
    rows = [row for rows in live.outputs().values() for row in rows]
    assert sorted(row["k"] for row in rows) == sorted(keys)
    ledger = Ledger(live.checkpoint)
    last = max(live.outputs())
    assert ledger.turn(last).table.slots == 2
    assert ledger.turn(last + 1).pending == ()


def test_slots_asked_for_before_the_stream_goes_quiet_emit_all_windows(
    spark: SparkSession, tmp_path: Path
) -> None:
    keys = [f"k{i}" for i in range(20)]
    tables = (table(keys, [1] * 20), table(keys, [2] * 20), table([*keys, "k0"], [*[12] * 20, 100]))
    stages = (Stage(tables, "availableNow"),)
    scaled = Pipeline(
        "closed", stages, delay=1, window=10_000, slide=10_000, slots=1, max_slots=2, wishes=((1, 2),)
    )
    windows = check(spark, tmp_path, scaled)
    assert sum(len(rows) for rows in windows.values()) == 40


def test_a_record_is_late_by_the_watermark_of_the_batch_before(spark: SparkSession, tmp_path: Path) -> None:
    tables = (
        table(["a", "b"], [25, 3]),
        table(
            ["a", "b"], [5, 9.5]
        ),  # the watermark has reached second 23, but that of the batch before has not
        table(["a", "b"], [6, 26]),  # now the first is late
    )
    stages = (Stage(tables, "availableNow"),)
    outputs = live_outputs(
        spark, tmp_path, Pipeline("closed", stages, delay=2000, window=10_000, slide=10_000)
    )
    assert [[(row[0], row[2]) for row in rows] for rows in outputs.values()] == [
        [],
        [("a", 1), ("b", 2)],
        [],
        [],
    ]
    assert sum(line["late"] for line in unskew.journal(str(tmp_path / "checkpoint"))) == 1


def cases() -> list[Any]:
    return [
        pytest.param(seed, marks=[] if seed in QUICK else [pytest.mark.thorough]) for seed in range(PIPELINES)
    ]


@pytest.mark.parametrize("seed", cases())
def test_every_batch_of_a_random_pipeline_equals_sparks_own(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    check(spark, tmp_path, Pipeline.random(seed))
