"""Joins whose hot keys are split, by force, against plain Spark; and how evenly the slots are loaded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import unskew
from tests.spark.frames import assert_same, exchanges, physical_plan, rows_of, setting
from unskew.core.hashing import hash_keys
from unskew.core.join_load import JoinType
from unskew.core.routing import RoutingTable
from unskew.core.splitting.grids import dealt_sides
from unskew.spark import join as join_module

SLOTS = 8
CASES = 90
KINDS: list[JoinType] = ["inner", "left", "right", "full", "semi", "anti"]
OURS = ["shufflepartitionidpassthrough"] * 2


@pytest.fixture(autouse=True)
def shuffled(spark: SparkSession) -> Iterator[None]:
    """Both sides are so small that Spark would broadcast one of them instead of shuffling."""
    with setting(spark, autoBroadcastJoinThreshold="-1", shuffle_partitions="4"):
        yield


def routed(df: DataFrame) -> bool:
    """Whether keys are split and both sides are shuffled by slot, on top of the shuffles of the inputs."""
    return exchanges(df).count(OURS[0]) == 2 and "__grid" in physical_plan(df)


class Cases:
    """A pair of random relations for each key: duplicates, keys that a side lacks, and rows without a key."""

    def __init__(self, seed: int) -> None:
        self.draw = np.random.default_rng(seed)
        self.names = [f"k{i}" for i in range(CASES)]
        self.sides = [self._rows(seed), self._rows(seed + 1)]

    def _rows(self, seed: int) -> pa.Table:
        sizes = self.draw.choice([0, 1, 2, 5, 14], CASES)
        keys = np.repeat(np.array([*self.names, None], object), [*sizes, 9])
        self.draw.shuffle(keys)
        values = self.draw.integers(0, 3, len(keys))
        return pa.table({"k": pa.array(keys.tolist(), pa.string()), ("v", "w")[seed % 2]: values})

    def frames(self, spark: SparkSession, *, behind_a_shuffle: bool) -> list[DataFrame]:
        frames = [spark.createDataFrame(rows) for rows in self.sides]
        if behind_a_shuffle:
            return [df.repartition(3, df.columns[1]) for df in frames]
        return [df.withColumn(df.columns[1], F.col(df.columns[1]) + 0) for df in frames]

    def plan(self, kind: JoinType, keys: list[str] | None = None) -> unskew.SplitPlan:
        """A random grid for each key, of any shape that the join type allows."""
        names = self.names if keys is None else keys
        deals = dealt_sides(kind)
        shapes = []
        for _ in names:
            a = int(self.draw.integers(1, SLOTS + 1)) if deals[0] else 1
            b = int(self.draw.integers(1, SLOTS // a + 1)) if deals[1] else 1
            shapes.append((a, b))
        cells = [self.draw.permutation(SLOTS)[: a * b] for a, b in shapes]
        table = RoutingTable.build(SLOTS, self.draw.integers(0, SLOTS, 64), key_type=pa.string())
        grids = np.array(shapes).reshape(-1, 2)
        return unskew.SplitPlan(
            kind,
            table,
            pa.array(names, pa.string()),
            hash_keys(pa.array(names, pa.string())),
            grids[:, 0],
            grids[:, 1],
            np.concatenate(cells).astype(np.int32),
            np.ones(SLOTS),
        )


@pytest.mark.parametrize("behind_a_shuffle", [False, True])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "full"])
def test_random_relations_under_random_grids(
    spark: SparkSession, kind: JoinType, behind_a_shuffle: bool
) -> None:
    cases = Cases(2 * KINDS.index(kind) + 100 * behind_a_shuffle)
    left, right = cases.frames(spark, behind_a_shuffle=behind_a_shuffle)
    plan = cases.plan(kind)
    ours = unskew.join(left, right, "k", kind, plan=plan)
    assert routed(ours)
    assert_same(ours, left.join(right, "k", kind))
    if behind_a_shuffle and kind in ("semi", "anti"):
        return  # Spark moves such a join under a condition below the user's own repartition: it is left to Spark
    condition = left.k.eqNullSafe(right.k) if behind_a_shuffle else (left.k == right.k) & (left.v > right.w)
    ours = unskew.join(left, right, condition, kind, plan=plan)
    assert routed(ours)
    plain = left.join(right, condition, kind)
    names = [f"c{i}" for i in range(len(plain.columns))]
    assert_same(ours.toDF(*names), plain.toDF(*names))


@pytest.mark.parametrize("behind_a_shuffle", [False, True])
def test_a_full_join_of_keys_on_both_sides_under_random_grids(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, behind_a_shuffle: bool
) -> None:
    cases = Cases(50 + 100 * behind_a_shuffle)
    left, right = cases.frames(spark, behind_a_shuffle=behind_a_shuffle)
    both = sorted(set.intersection(*(set(rows["k"].to_pylist()) for rows in cases.sides)) - {None})
    assert len(both) > CASES // 3
    monkeypatch.setattr("unskew.spark.join_planning.split_plan", lambda *_: cases.plan("full", both))
    ours = unskew.join(left, right, "k", "full", slots=SLOTS, planner="split", buckets=64)
    assert routed(ours)
    assert_same(ours, left.join(right, "k", "full"))


def skewed(spark: SparkSession, hot: int, cold: int, keys: int = 500) -> DataFrame:
    """So many rows with the key `hot`, and so many others."""
    key = F.when(F.col("id") < hot, "hot").otherwise(F.concat(F.lit("k"), F.col("id") % keys))
    return spark.range(0, hot + cold, 1, 4).select(key.alias("k"), (F.col("id") * 7).alias("v"))


def loads(monkeypatch: pytest.MonkeyPatch, call: Callable[[], DataFrame], slots: int) -> np.ndarray:
    """The rows that each slot reads and emits."""
    read: list[DataFrame] = []
    original = join_module.split_rows
    monkeypatch.setattr(
        join_module, "split_rows", lambda *args, **more: read.append(original(*args, **more)) or read[-1]
    )
    joined = call()
    monkeypatch.setattr(join_module, "split_rows", original)
    assert len(read) == 2
    at = F.spark_partition_id().alias("at")
    counts = [
        np.bincount(df.select(at).toArrow()["at"].to_numpy(), minlength=slots) for df in (*read, joined)
    ]
    return np.sum(counts, axis=0)


@pytest.mark.parametrize(
    ("hot", "others", "kind"),
    [
        (2000, 1, "inner"),
        (10_000, 1, "left"),
        (18_000, 1, "semi"),
        (2000, 20, "inner"),
        (10_000, 20, "full"),
        (18_000, 20, "left"),
        (300, 250, "inner"),
        (400, 400, "inner"),
        (400, 150, "left"),  # dealt out on one side, by single rows, since there are few
    ],
)
def test_the_largest_slot_is_near_the_mean(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, hot: int, others: int, kind: JoinType
) -> None:
    left, right = skewed(spark, hot, 20_000 - hot), skewed(spark, others, 1000).withColumnRenamed("v", "w")
    rows = loads(monkeypatch, lambda: unskew.join(left, right, "k", kind, slots=16, planner="split"), 16)
    assert rows.max() <= 1.15 * rows.mean()


@pytest.mark.parametrize("content", ["equal", "equal but for a few", "maps"])
def test_rows_of_a_hot_key_behind_a_shuffle_are_spread(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, content: str
) -> None:
    value = {"equal": F.lit(1), "equal but for a few": F.col("id") % 3, "maps": F.create_map("id", "id")}[
        content
    ]
    rows = (
        spark.range(0, 8000, 1, 2)
        .select(F.lit("hot").alias("k"), value.alias("v"), "id")
        .repartition(2, "id")
    )
    left = rows.drop("id") if content != "maps" else rows
    right = spark.range(1).select(F.lit("hot").alias("k"))
    counts = loads(monkeypatch, lambda: unskew.join(left, right, "k", slots=4, planner="split"), 4)
    assert counts.max() < 1.1 * counts.mean()


@pytest.mark.connect
@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_aqe_leaves_every_cell_where_it_is(spark: SparkSession, adaptive: str) -> None:
    left, right = skewed(spark, 3000, 1000), skewed(spark, 6, 500).withColumnRenamed("v", "w")
    plan = unskew.plan_join(left, right, "k", "left", slots=4)
    assert plan.grids.keys() == {"hot"}
    with setting(
        spark,
        adaptive_enabled=adaptive,
        # AQE would split and merge all partitions that it may.
        adaptive_skewJoin_skewedPartitionThresholdInBytes="1",
        adaptive_skewJoin_skewedPartitionFactor="1",
        adaptive_advisoryPartitionSizeInBytes="100",
    ):
        ours = unskew.join(left, right, "k", "left", plan=plan)
        assert exchanges(ours) == OURS
        rows = ours.select("k", F.spark_partition_id().alias("at")).toArrow()
    assert_same(ours, left.join(right, "k", "left"))
    cold = rows.filter(pa.compute.not_equal(rows["k"], "hot"))
    assert cold["at"].to_pylist() == plan.table.slot_of(cold["k"]).tolist()
    hot = rows.filter(pa.compute.equal(rows["k"], "hot"))
    assert set(hot["at"].to_pylist()) == set(plan.cells.tolist())


@pytest.mark.connect
def test_a_saved_plan_whose_hot_key_is_gone(spark: SparkSession, tmp_path: Path) -> None:
    left, right = skewed(spark, 3000, 1000), skewed(spark, 6, 500).withColumnRenamed("v", "w")
    unskew.plan_join(left, right, ["k"], slots=4).save(tmp_path / "join.plan")
    left = left.where("k != 'hot'")
    ours = unskew.join(left, right, "k", plan=tmp_path / "join.plan")
    assert exchanges(ours) == OURS
    assert_same(ours, left.join(right, "k"))


def test_a_full_join_splits_only_keys_that_both_sides_have(spark: SparkSession) -> None:
    both, right = skewed(spark, 3000, 1000), skewed(spark, 2, 500).withColumnRenamed("v", "w")
    left_only = both.withColumn("k", F.expr("if(k = 'hot', if(v % 2 = 0, 'hot', 'left only'), k)"))
    plan = unskew.plan_join(left_only, right, "k", "full", slots=4)
    assert plan.grids.keys() == {"hot"}
    ours = unskew.join(left_only, right, "k", "full", slots=4, planner="split")
    assert "__split" in physical_plan(ours)
    assert_same(ours, left_only.join(right, "k", "full"))
    # what may be other keys when it runs again is never split
    drawn = left_only.withColumn("k", F.when(F.rand() < 0.5, "hot").otherwise("other"))
    computed = left_only.mapInArrow(lambda batches: batches, left_only.schema)
    for rows in (drawn, computed):
        ours = unskew.join(rows, right, "k", "full", slots=4, planner="split")
        assert "__split" not in physical_plan(ours)


def test_keys_of_other_types_and_several_columns(spark: SparkSession) -> None:
    base = spark.range(0, 3000, 1, 3).select(
        F.expr("if(id % 2 = 0, 1.5D, double(id % 50))").alias("d"),
        F.expr("if(id % 3 = 0, null, date'2024-01-01')").alias("t"),
        F.col("id").alias("v"),
    )
    other = base.where("v < 60").withColumnRenamed("v", "w")
    for kind in ("inner", "left", "full"):
        ours = unskew.join(base, other, ["d", "t"], kind, slots=4, planner="split", most_copied=3.0)
        assert exchanges(ours) == OURS
        assert ("__grid" in physical_plan(ours)) == (kind != "full")
        assert_same(ours, base.join(other, ["d", "t"], kind))


def test_auto_splits_where_a_hot_key_is_the_bound(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, eager: None
) -> None:
    left, right = skewed(spark, 15_000, 5000), skewed(spark, 1, 500).withColumnRenamed("v", "w")
    ours = {}
    for cores in (1, 16):
        monkeypatch.setattr("unskew.spark.join_planning.cores_of", lambda spark, cores=cores: cores)
        ours[cores] = unskew.join(left, right, "k", slots=16)
    assert "__grid" in physical_plan(ours[16])
    assert "__grid" not in physical_plan(ours[1])
    assert rows_of(ours[16]) == rows_of(left.join(right, "k"))


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "another join type": (
        {"how": "right"},
        "deals out the left rows of a key, which a join of type 'right' may not",
    ),
    "a full join": ({"how": "full"}, "a full join splits only keys that are known"),
    "another number of slots": ({"slots": 5}, "the plan is for 4 slots, but slots=5"),
    "other keys": ({"on": "v"}, "the plan is for string keys, but the key here is int64"),
    "a bound that is no share": ({"most_copied": -1}, "most_copied is a share"),
    "whole keys to be split": (
        {"planner": "split", "plan": unskew.Kept("nowhere.plan")},
        "planner='split' makes a plan of its own",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_is_refused_before_a_job_starts(
    spark: SparkSession, doomed: DataFrame, case: str
) -> None:
    changes, message = REFUSED[case]
    rows = doomed.select(F.col("string").alias("k"), "v")
    plan = unskew.SplitPlan(
        "left",
        RoutingTable.hashed(4, 64, pa.string()),
        pa.array(["hot"]),
        hash_keys(pa.array(["hot"])),
        np.array([4]),
        np.array([1]),
        np.arange(4, dtype=np.int32),
        np.ones(4),
    )
    arguments: dict[str, Any] = {"on": "k", "how": "left", "plan": plan, **changes}
    with pytest.raises(ValueError, match=message):
        unskew.join(rows, rows, **arguments)


@pytest.mark.connect
def test_a_diagnosis_compares_the_three_ways(spark: SparkSession) -> None:
    left, right = skewed(spark, 15_000, 5000), skewed(spark, 1, 500).withColumnRenamed("v", "w")
    diagnosis = unskew.diagnose(left, "k", join=right, how="left", slots=8)
    assert diagnosis.join is not None
    assert diagnosis.join.way("split").imbalance < 1.1
    assert diagnosis.join.way("whole").imbalance > 5
    assert "split keys" in str(diagnosis.join)
    with pytest.raises(ValueError, match="there is no join type 'sideways'"):
        unskew.diagnose(left, "k", join=right, how="sideways", slots=8)
    with pytest.raises(ValueError, match="diagnosed by the names of its key columns"):
        unskew.diagnose(left, F.col("k"), join=right, slots=8)


def test_a_side_that_is_only_copied_is_not_sorted_first(spark: SparkSession) -> None:
    left, right = skewed(spark, 3000, 1000), skewed(spark, 3, 500).withColumnRenamed("v", "w").repartition(2)
    ours = unskew.join(left, right, "k", "left", slots=4, planner="split")
    assert routed(ours)
    assert "Sort [__order" not in physical_plan(ours)
    dealt = unskew.join(left.repartition(2), right, "k", "left", slots=4, planner="split")
    assert physical_plan(dealt).count("Sort [__order") == 1


@pytest.mark.parametrize("how", ["left", "full"])
def test_a_hot_key_whose_bytes_are_no_text(spark: SparkSession, how: str) -> None:
    key = "if(id % 3 > 0, cast(unhex('FF') as string), string(id % 50)) as k"
    left, right = spark.range(600).selectExpr(key, "id as v"), spark.range(4).selectExpr(key, "id as w")
    split = unskew.join(left, right, "k", how, slots=4, planner="split")
    summary = F.count("*"), F.sum("v"), F.sum("w")
    assert split.agg(*summary).first() == left.join(right, "k", how).agg(*summary).first()
