"""What a plan says about its shuffles and its sources."""

from __future__ import annotations

from typing import Any

import pytest

from unskew.eventlog.plans import Partitioning, Shuffle, shuffles, source_kind


def node(
    name: str, text: str, *children: dict[str, Any], counters: dict[str, int] | None = None
) -> dict[str, Any]:
    metrics = [{"name": key, "accumulatorId": number} for key, number in (counters or {}).items()]
    return {"nodeName": name, "simpleString": text, "metrics": metrics, "children": list(children)}


def exchange(key: str, number: int, *children: dict[str, Any]) -> dict[str, Any]:
    counters = {"records read": number, "data size": number + 1}
    text = f"Exchange hashpartitioning({key}, 200), ENSURE_REQUIREMENTS, [plan_id=1]"
    return node("Exchange", text, *children, counters=counters)


def test_both_sides_of_a_join_know_each_other() -> None:
    join = node(
        "SortMergeJoin(skew=true)",
        "SortMergeJoin(skew=true) [user#1, day#2], [who#3, day#4], LeftOuter",
        node("Sort", "Sort", exchange("user#1, day#2", 10)),
        node("Sort", "Sort", exchange("who#3, day#4", 20)),
    )
    by_counter = shuffles(join)
    left, right = by_counter[10], by_counter[20]
    assert (left.is_left, right.is_left) == (True, False)
    assert left.how == right.how == "LeftOuter"
    assert (left.compared, right.compared) == (("user", "day"), ("who", "day"))
    sizes = {11: 1000, 21: 7}
    assert (left.sized(sizes).size, left.sized(sizes).other_size) == (1000, 7)
    assert (right.sized(sizes).size, right.sized(sizes).other_size) == (7, 1000)


def test_the_first_row_of_every_key() -> None:
    limit = "WindowGroupLimit [user#1], [at#2 DESC NULLS LAST], row_number(), {}, Final"
    for count, first in ((1, True), (10, False)):
        plan = node("Window", "Window", node("WindowGroupLimit", limit.format(count), exchange("user#1", 5)))
        assert shuffles(plan)[5].keeps_first == first
    grouped = node("HashAggregate", "HashAggregate", exchange("user#1", 5))
    above = node("WindowGroupLimit", limit.format(1), exchange("user#1", 7, grouped))
    assert shuffles(above)[5] == Shuffle("HashAggregate", Partitioning.HASH, ("user",))


def test_nulls_that_spark_spreads_are_still_a_hash_of_the_key() -> None:
    text = "Exchange nullawarehashpartitioning(user#1, 200), ENSURE_REQUIREMENTS"
    plan = node("Exchange", text, counters={"records read": 1})
    assert shuffles(plan)[1].partitioning is Partitioning.HASH
    assert shuffles(plan)[1].key == ("user",)


@pytest.mark.parametrize(
    ("name", "text", "kind"),
    [
        (
            "MicroBatchScan",
            "MicroBatchScan[key#1, value#2] class org.apache.spark.sql.kafka010.KafkaScan",
            "kafka",
        ),
        (
            "Scan parquet t",
            "FileScan parquet t[a#1] Batched: true, SelectedBucketsCount: 8 out of 8",
            "bucketed",
        ),
        ("BatchScan cat.t", "BatchScan cat.t[a#1] IcebergScan [filters=, groupedBy=day]", "grouped"),
        ("BatchScan cat.t", "BatchScan cat.t[a#1] IcebergScan [filters=, groupedBy=]", ""),
        ("Scan parquet t", "FileScan parquet t[a#1] Batched: true", ""),
        ("Project", "Project [kafka#1]", ""),
    ],
)
def test_the_source(name: str, text: str, kind: str) -> None:
    assert source_kind(node("Project", "Project", node(name, text))) == kind
