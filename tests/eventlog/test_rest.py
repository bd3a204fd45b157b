"""A real answer about a query, of Spark 4.3, and the same as an older Spark gives it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from unskew.eventlog import rest
from unskew.eventlog.plans import Partitioning, Shuffle

ANSWER = Path(__file__).parent / "golden" / "rest-query.json"
"""The join of tests/spark/event_log_job.py, whose skew Spark splits."""


def answer() -> dict[str, Any]:
    return json.loads(ANSWER.read_text("utf-8"))  # type: ignore[no-any-return]


JOIN = Shuffle(
    "SortMergeJoin",
    Partitioning.HASH,
    ("user",),
    split_by_spark=True,
    how="Inner",
    compared=("user",),
    size=960_000,
    other_size=15_974,
)


def read(query: dict[str, Any], stage: int, records: int = -1) -> Shuffle | None:
    info = {"stageId": stage, "attemptId": 0, "shuffleReadRecords": records}
    return rest._shuffle(rest._sql(query), info)


def test_a_stage_finds_its_shuffle_by_the_metrics_of_the_plan() -> None:
    assert read(answer(), 14) == JOIN
    repartition = read(answer(), 10)
    assert repartition is not None
    assert repartition.partitioning is Partitioning.ROUND_ROBIN
    assert read(answer(), 7) is None, "it read no shuffle"


def test_an_older_spark_has_the_texts_in_the_formatted_plan_only() -> None:
    query = answer()
    for node in query["nodes"]:
        del node["desc"]
    assert read(query, 14) == JOIN


def test_without_the_name_of_a_stage_the_number_of_records_decides() -> None:
    query = answer()
    for node in query["nodes"]:
        node["metrics"] = [metric for metric in node["metrics"] if metric["name"] == "records read"]
    query["nodes"] = [node for node in query["nodes"] if node["nodeId"] != 9]  # as many records as node 8
    found = read(query, 14, records=40_000)
    assert found is not None
    assert found.key == ("user",)
    assert read(query, 14, records=39_999) is None
