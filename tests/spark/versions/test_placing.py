"""Rows reach their slots on every version of Spark: by number, by seat, and by a salt beside the key.

The newest Spark can be treated as an old one, so all ways run on every version that has the tests.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import unskew
from tests.spark.frames import Frames, rows_of, setting
from unskew.core.hashing import hash_keys
from unskew.core.murmur3 import hash_of_ints, state_before_last_int
from unskew.core.plan import Plan
from unskew.spark.versions import running
from unskew.spark.versions.placing import by_slot_and_key, searched_seats
from unskew.spark.versions.running import Version, version_of

SLOTS = 6


@pytest.fixture(params=["as it is", "as an old one"])
def any_spark(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[SparkSession]:
    """The session, once treated as one that can only hash rows."""
    version = version_of(spark)
    if request.param == "as an old one":
        running._versions[spark] = Version(3, 5)
    yield spark
    running._versions[spark] = version


@given(st.integers(1, 3000))
def test_a_seat_for_every_slot(slots: int) -> None:
    hashes = hash_of_ints(searched_seats(slots)).astype(np.int64)
    assert (hashes % slots).tolist() == list(range(slots))


@given(st.integers(-(2**31), 2**31 - 1), st.integers(-(2**31), 2**31 - 1))
def test_the_hash_can_be_inverted(seed: int, wanted: int) -> None:
    state = int(state_before_last_int(np.array([wanted], np.int32))[0])
    mixed = (state ^ (seed & 0xFFFFFFFF)) * pow(0x1B873593, -1, 1 << 32) % (1 << 32)
    number = ((mixed >> 15) | (mixed << 17)) * pow(0xCC9E2D51, -1, 1 << 32) % (1 << 32)
    hashed = hash_of_ints(np.array([number], np.uint32).view(np.int32), seed)
    assert hashed.tolist() == [wanted]


def test_spark_hashes_numbers_the_same_way(spark: SparkSession) -> None:
    numbers = np.array([0, 1, -1, 42, 2**31 - 1, -(2**31)], np.int32)
    rows = (
        spark.createDataFrame([(number,) for number in numbers.tolist()], "n int")
        .select(F.hash("n"))
        .collect()
    )
    assert [row[0] for row in rows] == hash_of_ints(numbers).tolist()


def events(spark: SparkSession, rows: int) -> DataFrame:
    hot = F.when(F.col("id") % 3 == 0, F.lit("hot")).otherwise(F.concat(F.lit("k"), F.col("id") % 97))
    return spark.range(rows).select(hot.alias("k"), F.col("id").alias("v"))


def misplaced(df: DataFrame, plan: Plan) -> list[str]:
    """The keys that are in another partition than that of their slot."""
    rows = df.select("k", F.spark_partition_id().alias("at")).distinct().collect()
    assert rows
    slots = plan.table.slot_of_hashes(hash_keys([row["k"] for row in rows])).tolist()
    return [row["k"] for row, slot in zip(rows, slots, strict=True) if row["at"] != slot]


@pytest.mark.parametrize("partitions", ["3", "50"])
def test_joined_rows_are_where_the_plan_says(any_spark: SparkSession, partitions: str) -> None:
    """Spark may replace a shuffle below a join by one of its own, which the plan of the query does not show."""
    left, right = events(any_spark, 900), events(any_spark, 300).withColumnRenamed("v", "w")
    plan = unskew.plan(unskew.measure(left, "k"), slots=SLOTS)
    with (
        setting(any_spark, autoBroadcastJoinThreshold="-1"),
        setting(any_spark, **{"shuffle.partitions": partitions}),
    ):
        joined = unskew.join(left, right, "k", plan=plan)
        assert misplaced(joined, plan) == []
        assert rows_of(joined) == rows_of(left.join(right, "k"))


def test_grouped_rows_are_where_the_plan_says(any_spark: SparkSession) -> None:
    left = events(any_spark, 900)
    plan = unskew.plan(unskew.measure(left, "k"), slots=SLOTS)
    grouped = unskew.groupBy(left, "k", plan=plan)
    collected = grouped.agg(F.count("v").alias("n"), F.collect_list("v").alias("all")).select("k", "n")
    assert misplaced(collected, plan) == []
    assert rows_of(collected) == rows_of(left.groupBy("k").agg(F.count("v").alias("n")))
    both = grouped.cogroup(unskew.groupBy(left, "k"))
    assert misplaced(both.applyInPandas(lambda key, a, b: a[["k"]].head(1), "k string"), plan) == []


def test_a_salt_for_every_kind_of_key(frames: Frames, any_spark: SparkSession) -> None:
    """Whatever the key is, and with ANSI arithmetic, whose overflow is an error."""
    kinds = [name for name in frames.left.columns if name != "v"]
    slot = F.pmod(F.col("v"), F.lit(SLOTS)).cast("int")
    with setting(any_spark, **{"ansi.enabled": "true"}):
        for kind in kinds:
            rows = frames.left.select(kind, slot.alias("planned"), slot.alias("slot"))
            placed = by_slot_and_key(rows, SLOTS, "slot", [F.col(kind)])
            assert placed.where(F.spark_partition_id() != F.col("planned")).count() == 0, kind
