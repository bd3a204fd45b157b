"""Two chained operators in one query: each with its table and its state, planned together."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import unskew
from tests.streaming.live.live import Live

SCHEMA = "region string, tag string, v long"
NUMBERED = "region string, tag string, number long"


def posts(batches: int, rows: int = 400, change: int = 4, seed: int = 0) -> list[pa.Table]:
    """Posts of 12 regions, each with its own tag; the tags are reassigned every `change` batches."""
    random = np.random.default_rng(seed)
    tables = []
    own = np.arange(12)
    for batch in range(batches):
        if batch % change == 0:
            own = random.permutation(12)
        region = random.zipf(1.4, rows) % 12
        tag = np.where(random.random(rows) < 0.9, own[region], random.integers(0, 12, rows))
        tables.append(
            pa.table(
                {
                    "region": [f"r{r}" for r in region],
                    "tag": [f"t{t}" for t in tag],
                    "v": random.integers(0, 9, rows),
                }
            )
        )
    return tables


def numbered(events: Any) -> Any:
    """Numbers the posts of each region, then per tag counts the posts and takes the largest number."""

    def number(rows: pd.DataFrame, states: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
        before = states["n"].fillna(0).astype("int64")
        rows = rows.sort_values("v", kind="stable")
        place = rows.groupby(level=0).cumcount() + 1
        out = rows.assign(number=place + before.reindex(rows.index))[["region", "tag", "number"]]
        return out, states.assign(
            n=before + rows.groupby(level=0).size().reindex(states.index).fillna(0).astype("int64")
        )

    first = unskew.stream(events, "region").update(number, output=NUMBERED, state="n long")
    return first.thenBy("tag").aggregate(n=unskew.count(), latest=unskew.max("number"))


def replayed(tables: list[pa.Table]) -> tuple[Counter[str], list[dict[str, int]]]:
    """Posts per region, and for every batch the tags it touches with their count so far, computed by one thread."""
    regions: Counter[str] = Counter()
    tags: Counter[str] = Counter()
    outputs = []
    for table in tables:
        regions.update(table["region"].to_pylist())
        touched = table["tag"].to_pylist()
        tags.update(touched)
        outputs.append({tag: tags[tag] for tag in touched})
    return regions, outputs


def test_both_operators_keep_their_state_and_every_batch_is_right(
    spark: SparkSession, tmp_path: Path
) -> None:
    live = Live(spark, tmp_path, SCHEMA)
    tables = posts(8)
    regions, expected = replayed(tables)
    live.add(*tables[:5])
    live.run(numbered(live.events()), options={"every": 2}, max_slots=4)
    live.add(*tables[5:])
    # restarts from the checkpoint
    query = live.run(numbered(live.events()), options={"every": 2}, max_slots=4)
    outputs = live.outputs()
    assert [{row["tag"]: row["n"] for row in outputs[b]} for b in range(8)] == expected
    by_region = {row["region"]: row["n"] for row in unskew.state(live.checkpoint, spark).collect()}
    assert by_region == dict(regions)
    by_tag = {row["tag"]: row["n"] for row in unskew.state(live.checkpoint, spark, operator=1).collect()}
    assert sum(by_tag.values()) == 8 * 400
    moved = [sum(line["moved"]["rows"] for line in query.journal(operator)) for operator in (0, 1)]
    assert sum(moved) > 0


@pytest.mark.thorough
def test_scaling_by_hand_applies_to_both_operators(spark: SparkSession, tmp_path: Path) -> None:
    live = Live(spark, tmp_path, SCHEMA)
    tables = posts(6)
    live.add(*tables[:2])
    query = live.run(numbered(live.events()), slots=2, max_slots=3)
    query.scale(3)
    live.add(*tables[2:])
    live.run(numbered(live.events()), slots=2, max_slots=3)
    assert [unskew.journal(live.checkpoint, operator)[-1]["slots"] for operator in (0, 1)] == [3, 3]
    assert {row["tag"]: row["n"] for row in live.output(5)} == replayed(tables)[1][5]


def test_tables_planned_on_a_sample_are_used_from_the_first_batch(
    spark: SparkSession, tmp_path: Path
) -> None:
    tables = posts(3, change=9)
    sample = spark.createDataFrame(tables[0])
    plan = unskew.plan_chain(sample, ["region", "tag"], slots=3, buckets=64)
    live = Live(spark, tmp_path, SCHEMA)
    live.add(*tables)
    query = live.run(numbered(live.events()), plan=plan, policy=None, slots=None, buckets=None)
    assert {row["tag"]: row["n"] for row in live.output(2)} == replayed(tables)[1][2]
    for operator in (0, 1):
        line = query.journal(operator)[-1]
        assert line["imbalance"] < 1.35 * line["bound"]
        assert line["version"] == 1


def test_closed_windows_go_on_to_the_next_operator(spark: SparkSession, tmp_path: Path) -> None:
    live = Live(spark, tmp_path, "k string, at timestamp, v long")
    moments = [dt.datetime(2026, 11, 1, 12, minute, tzinfo=dt.timezone.utc) for minute in (1, 2, 11, 31, 51)]
    for moment in moments:
        live.add(pa.table({"k": ["a", "b", "b"], "at": [moment] * 3, "v": [1, 2, 3]}))
    windows = unskew.stream(live.events(), "k", time="at", watermark="1 minute").aggregate(
        window="10 minutes", n=unskew.count()
    )
    live.run(windows.thenBy("n").aggregate(windows=unskew.count()))
    windows_by_count = {row["n"]: row["windows"] for rows in live.outputs().values() for row in rows}
    # a: 2, 1, 1 and b: 4, 2, 2 records in the windows that closed: from 12:00, 12:10 and 12:30
    assert windows_by_count == {1: 2, 2: 3, 4: 1}


def test_another_number_of_operators_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    live = Live(spark, tmp_path, SCHEMA)
    live.add(*posts(1))
    chain = numbered(live.events())
    live.run(chain)
    with pytest.raises(ValueError, match="the number of chained operators is 1"):
        live.run(unskew.StatefulStream(chain.specs[:1]))
    with pytest.raises(ValueError, match="no operator 2"):
        unskew.state(live.checkpoint, spark, operator=2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"options": {"evry": 3}}, "has no option 'evry'"),
        ({"planner": "pkg"}, "splits keys"),
        ({"policy": unskew.Policy(horizon=9)}, "leave policy out"),
    ],
)
def test_wrong_options_are_refused_before_anything_is_written(
    spark: SparkSession, tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    live = Live(spark, tmp_path, SCHEMA)
    with pytest.raises(ValueError, match=message):
        live.run(numbered(live.events()), **options)
    assert not Path(live.checkpoint).exists()


def test_the_next_key_must_be_among_what_the_operator_emits(spark: SparkSession, tmp_path: Path) -> None:
    events = Live(spark, tmp_path, SCHEMA).events()
    with pytest.raises(ValueError, match="there is no column 'tag'"):
        unskew.stream(events, "region").aggregate(n=unskew.count()).thenBy("tag")
