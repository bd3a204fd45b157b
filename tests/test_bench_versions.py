"""What `make bench-versions` makes of its records."""

from __future__ import annotations

from typing import Any

from benchmarks.versions import judged


def record(rows: int, **seconds: float) -> dict[str, Any]:
    """A version on which everything takes a second, but for what is given."""
    names = ("repartition", "routed", "measure", "measure, exact", "observed job", "plain groups", "groups")
    return {
        "rows": rows,
        "seconds": dict.fromkeys(names, 1.0) | seconds,
        "exchanges": {"agg": [1, 1], "join": [2, 2]},
    }


def falling_short(records: dict[str, dict[str, Any]]) -> list[str]:
    return [bar.name for bar in judged(records) if not bar.passed]


def test_a_version_is_judged_beside_plain_spark_and_the_newest() -> None:
    assert falling_short({"3.5": record(100), "4.3": record(100)}) == []
    slow = record(100, routed=1.2, measure=1.6, groups=1.1)
    slow["exchanges"]["join"] = [3, 2]
    assert falling_short({"3.5": slow, "4.3": record(100)}) == [
        "3.5: slot and shuffle / repartition(N, key)",
        "3.5: measure / that of 4.3",
        "3.5: applyInPandas of unskew / of Spark",
        "3.5: operators with more exchanges than in plain Spark",
    ]


def test_a_stream_is_judged_where_there_is_one() -> None:
    streams = record(100, **{"stream batch": 3.0, "native batch": 1.0})
    assert falling_short({"4.0": streams}) == ["4.0: batch of a stream / native"]


def test_measuring_is_compared_on_the_same_data_only() -> None:
    records = {"3.5": record(200, measure=9.0), "4.3": record(100)}
    assert [name for name in falling_short(records) if "measure" in name] == []
