"""A query that is taken back to an earlier batch and runs with other batches from there is still right."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import unskew
from tests.streaming.golden.make import Always
from tests.streaming.live.live import Live, counted, drifting


def take_back(checkpoint: Path, batch: int) -> None:
    """Remove what says that this batch and those after it have run."""
    for folder in ("offsets", "commits"):
        for file in (checkpoint / folder).iterdir():
            if int(file.name.removeprefix(".").removesuffix(".crc")) >= batch:
                file.unlink()


@pytest.mark.thorough
def test_batches_of_another_size_after_going_back(spark: SparkSession, tmp_path: Path) -> None:
    live = Live(spark, tmp_path, "k string, v long")
    tables = drifting(batches=8, rows=300, keys=30, exponent=1.1, change=2)
    live.add(*tables)

    def totals(files: int) -> unskew.StatefulStream:
        reader = spark.readStream.schema(live.schema).option("maxFilesPerTrigger", files)
        stream = unskew.stream(reader.parquet(str(live.source)), "k")
        return stream.aggregate(n=unskew.count(), total=unskew.sum("v"))

    live.run(totals(1), policy=Always())
    take_back(tmp_path / "checkpoint", 3)
    query = live.run(totals(2), policy=Always())
    final = {k: v for batch in counted(tables, lambda row: row["k"]) for k, v in batch.items()}
    rows = unskew.state(live.checkpoint, spark).toArrow().to_pylist()
    assert {row["k"]: (row["n"], row["total"]) for row in rows} == final
    assert len(rows) == len(final)
    assert any("replay" in line for line in query.journal())


def test_state_that_an_earlier_run_stored_does_not_stand_in_for_a_part_that_the_sink_does_not_read(
    spark: SparkSession, tmp_path: Path
) -> None:
    live = Live(spark, tmp_path, "k string, v long")
    tables = drifting(batches=4, rows=300, keys=30, exponent=1.1, change=2)
    live.add(*tables)

    def run(files: int) -> None:
        reader = spark.readStream.schema(live.schema).option("maxFilesPerTrigger", files)
        stream = unskew.stream(reader.parquet(str(live.source)), "k")
        totals = stream.aggregate(n=unskew.count(), total=unskew.sum("v"))
        query = live.start(totals, lambda df, _: df.limit(1).collect(), slots=1, trigger="availableNow")
        query.awaitTermination()

    run(files=1)
    take_back(tmp_path / "checkpoint", 1)
    run(files=3)
    final = {k: v for batch in counted(tables, lambda row: row["k"]) for k, v in batch.items()}
    rows = unskew.state(live.checkpoint, spark).toArrow().to_pylist()
    assert {row["k"]: (row["n"], row["total"]) for row in rows} == final
