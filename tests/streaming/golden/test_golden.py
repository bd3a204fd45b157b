"""A checkpoint that an earlier unskew wrote restarts, goes on, and can be read: its format is a contract.

So is one that was written under Spark 4.0; the others were under 4.3.
"""

from __future__ import annotations

import statistics
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import unskew
from tests.streaming.golden.make import ROWS, run, totals, unpack

ARCHIVES = sorted(Path(__file__).parent.glob("format-*.tar.gz"))


def test_there_is_a_golden_checkpoint() -> None:
    names = ["format-1.tar.gz", "format-2-spark-4.0.tar.gz", "format-2.tar.gz", "format-3.tar.gz"]
    assert [archive.name for archive in ARCHIVES] == names


@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda path: path.name)
def test_a_golden_checkpoint_is_read_restarted_and_right(
    archive: Path, spark: SparkSession, tmp_path: Path
) -> None:
    checkpoint = tmp_path / "checkpoint"
    unpack(archive, checkpoint)
    written = unskew.journal(str(checkpoint))
    committed = max(int(file.name) for file in (checkpoint / "commits").iterdir() if file.name.isdigit())
    assert sum(line["moved"]["rows"] for line in written) > 0
    assert state(checkpoint, spark) == expected(committed + 1)
    query = run(totals(spark), checkpoint, batches=2)
    lines = query.journal()
    assert [line["batch"] for line in lines] == list(range(len(written) + 2))
    committed = max(int(file.name) for file in (checkpoint / "commits").iterdir() if file.name.isdigit())
    assert state(checkpoint, spark) == expected(committed + 1)


def state(checkpoint: Path, spark: SparkSession) -> dict[str, dict[str, Any]]:
    rows = unskew.state(str(checkpoint), spark).drop("entry", "slot").toArrow().to_pylist()
    return {row.pop("user"): {**row, "spread": pytest.approx(row["spread"])} for row in rows}


def expected(batches: int) -> dict[str, dict[str, Any]]:
    """The state after this many batches, from the definition of the records alone."""
    records: dict[str, list[int]] = {}
    for value in range(batches * ROWS):
        records.setdefault("hot" if value % 3 == 0 else f"k{value % 11}", []).append(value)
    return {user: aggregates(amounts) for user, amounts in records.items()}


def aggregates(amounts: list[int]) -> dict[str, Any]:
    ratings = [float(amount % 4) for amount in amounts]
    # all records of a batch have the same timestamp; of records with equal times the smallest (largest) value counts
    batches = [amount // ROWS for amount in amounts]
    top = sorted(Counter(ratings).items(), key=lambda item: (-item[1], item[0]))[:2]
    return {
        "n": len(amounts),
        "rated": len(ratings),
        "total": sum(amounts),
        "least": min(amounts),
        "most": max(amounts),
        "average": pytest.approx(statistics.mean(ratings)),
        "spread": statistics.variance(ratings),
        "earliest": min(a for a, batch in zip(amounts, batches, strict=True) if batch == min(batches)),
        "latest": max(a for a, batch in zip(amounts, batches, strict=True) if batch == max(batches)),
        "values": pytest.approx(len(amounts), rel=1.0),
        "top": [{"value": value, "count": count} for value, count in top],
    }
