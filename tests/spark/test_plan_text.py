"""The text of a routed plan: short, whatever the table, and it names the table.

Spark puts the text into EXPLAIN, its UI, its event log, and the names of columns without an alias.
"""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

import unskew
from tests.spark.frames import exchanges, setting
from unskew.core.histogram import DEFAULT_BUCKETS
from unskew.core.plan import Plan
from unskew.core.routing import RoutingTable
from unskew.spark.slot_expression import fingerprint

SIZES = {6: 60, 200: 1000}
"""Slots → heavy keys."""

OURS = "shufflepartitionidpassthrough"


def plan_for_slots(slots: int) -> Plan:
    draw = np.random.default_rng(slots)
    keys = np.arange(SIZES[slots])
    table = RoutingTable.build(
        slots, draw.integers(0, slots, DEFAULT_BUCKETS), keys, draw.integers(0, slots, len(keys))
    )
    return Plan(table, unskew.Histogram.from_keys(keys))


def explained(df: DataFrame, mode: str) -> str:
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        df.explain(mode=mode)
    return text.getvalue()


def same(rows: pd.DataFrame) -> pd.DataFrame:
    return rows


@pytest.fixture(scope="module", params=["memory", pytest.param("file", marks=pytest.mark.thorough)])
def events(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> DataFrame:
    rows = spark.createDataFrame(pd.DataFrame({"k": np.arange(1000), "v": np.arange(1000)}))
    if request.param == "memory":
        return rows
    path = str(Path(tmp_path_factory.mktemp("rows")) / "events")
    rows.write.parquet(path)
    return spark.read.parquet(path)


def queries(events: DataFrame, plan: Plan | None) -> dict[str, DataFrame]:
    """The same queries under a plan and in plain Spark."""
    right = events.select("k", F.col("v").alias("right_v"))
    if plan is None:
        grouped, rows, by_key = events.groupBy("k"), events, Window.partitionBy("k")
        joined = events.join(right, "k")
    else:
        grouped = unskew.groupBy(events, "k", plan=plan)  # type: ignore[assignment]
        rows, by_key = unskew.window(events, "k", plan=plan)
        joined = unskew.join(events, right, "k", plan=plan)
    return {
        "agg": grouped.agg(F.collect_list("v")),
        "applyInPandas": grouped.applyInPandas(same, events.schema),
        "join": joined,
        "window": rows.select("k", F.sum("v").over(by_key.orderBy("v"))),
        "window with alias": rows.select("k", F.sum("v").over(by_key).alias("total")),
    }


@pytest.mark.parametrize("slots", SIZES)
def test_a_routed_plan_is_at_most_twice_as_long_as_a_plain_one(events: DataFrame, slots: int) -> None:
    with setting(events.sparkSession, autoBroadcastJoinThreshold="-1"):
        ours, plain = queries(events, plan_for_slots(slots)), queries(events, None)
        for name in ours:
            for mode in ("simple", "formatted"):
                assert len(explained(ours[name], mode)) <= 2 * len(explained(plain[name], mode)), (name, mode)
            assert exchanges(ours[name]) == [OURS] * (2 if name == "join" else 1), name


@pytest.mark.parametrize("slots", SIZES)
def test_the_name_of_a_window_column_without_alias_is_short(events: DataFrame, slots: int) -> None:
    rows, by_key = unskew.window(events, "k", "v", plan=composite(plan_for_slots(slots)))
    result = rows.select(F.count("v").over(by_key))
    assert result.columns == [
        "count(v) OVER (PARTITION BY scalarsubquery(k, v), k, v "
        "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)"
    ]
    assert {row[0] for row in result.collect()} == {1}


def composite(plan: Plan) -> Plan:
    """A plan for a key of two numbers."""
    keys = plan.histogram.keys
    pairs = pa.StructArray.from_arrays([keys, keys], names=["k", "v"])
    table = RoutingTable.build(plan.slots, plan.table.buckets, pairs, plan.table.heavy_slots)
    return Plan(table, unskew.Histogram.from_keys(pairs))


def test_plans_show_the_fingerprint_of_the_table_and_the_key(events: DataFrame) -> None:
    plan, other = plan_for_slots(6), plan_for_slots(200)
    shown = rf"Exchange {OURS}\(direct_shuffle_partition_id\(-least\({fingerprint(plan.table)}, bit_count\(xxhash64\(k#"
    for name in ("agg", "applyInPandas", "window"):
        assert re.search(shown, explained(queries(events, plan)[name], "simple")), name
        assert not re.search(shown, explained(queries(events, other)[name], "simple")), name


def test_spark_shows_the_whole_table_if_it_is_told_to(events: DataFrame) -> None:
    with setting(events.sparkSession, debug_maxToStringFields="26"):
        assert len(explained(queries(events, plan_for_slots(6))["agg"], "simple")) > 9_000


@pytest.mark.parametrize("name", ["hash", "1", "slot", "a.b", "back`tick"])
def test_a_window_over_a_column_of_any_name(events: DataFrame, name: str) -> None:
    """The subquery inside has columns of its own, which must not be taken for the key."""
    plan = plan_for_slots(6)
    rows, by_key = unskew.window(events.withColumnRenamed("k", name), name, plan=plan)
    result = rows.select("v", F.spark_partition_id().alias("slot"), F.count("v").over(by_key).alias("count"))
    assert exchanges(result) == [OURS]
    assert result.toPandas()["count"].tolist() == [1] * 1000


def test_a_window_over_an_aggregate(events: DataFrame) -> None:
    rows, by_key = unskew.window(events, "k", plan=plan_for_slots(6))
    totals = rows.groupBy("k").agg(F.sum("v").alias("total"))
    result = totals.select("k", F.sum("total").over(by_key).alias("total"))
    assert sorted(result.collect()) == [(k, k) for k in range(1000)]
