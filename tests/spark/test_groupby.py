"""`groupBy` and `cogroup` against those of plain Spark, on random rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import unskew
from tests.cases import mostly_thorough
from tests.spark.frames import FEW_KEYS, KEYS, QUICK_KEYS, Frames, assert_same, exchanges, rows_of, setting
from unskew.core.hashing import hash_keys

pytestmark = pytest.mark.connect

SUMMARY = "n long, total long, text string"


def summarise() -> Callable[..., Any]:
    """One row per group that sums it up; a nested function, so that the workers need not import this module."""

    def summary(rows: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame(
            {"n": [len(rows)], "total": [rows["v"].sum()], "text": [",".join(map(str, sorted(rows["v"])))]}
        )

    return summary


def describe() -> Callable[..., Any]:
    """The key and the columns that the function gets."""

    def description(key: tuple[Any, ...], rows: pd.DataFrame) -> pd.DataFrame:
        parts = [str(part) for part in key]
        return pd.DataFrame({"n": [len(rows)], "total": [rows["v"].sum()], "text": [f"{parts} {list(rows)}"]})

    return description


def in_batches() -> Callable[..., Any]:
    def summary(parts: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for rows in parts:
            yield pd.DataFrame({"n": len(rows), "total": rows["v"], "text": str(list(rows))})

    return summary


def in_batches_with_key() -> Callable[..., Any]:
    def summary(key: tuple[Any, ...], parts: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for rows in parts:
            yield pd.DataFrame({"n": len(rows), "total": rows["v"], "text": str([str(part) for part in key])})

    return summary


def in_arrow() -> Callable[..., Any]:
    def summary(rows: pa.Table) -> pa.Table:
        text = str(rows.schema.names)
        return pa.table({"n": [rows.num_rows], "total": [pa.compute.sum(rows["v"]).as_py()], "text": [text]})

    return summary


def in_arrow_with_key() -> Callable[..., Any]:
    def summary(key: tuple[Any, ...], rows: pa.Table) -> pa.Table:
        text = str([str(part.as_py()) for part in key])
        return pa.table({"n": [rows.num_rows], "total": [pa.compute.sum(rows["v"]).as_py()], "text": [text]})

    return summary


def in_arrow_batches() -> Callable[..., Any]:
    def summary(parts: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for rows in parts:
            yield pa.RecordBatch.from_pydict(
                {"n": [rows.num_rows], "total": [0], "text": [str(rows.schema.names)]}
            )

    return summary


@pytest.mark.parametrize("kind", mostly_thorough(KEYS, QUICK_KEYS))
def test_groups_of_every_kind_of_key(frames: Frames, kind: str) -> None:
    aggregates = [F.sort_array(F.collect_list("v")).alias("all"), F.sum("v").alias("sum"), F.max("w")]
    grouped = unskew.groupBy(frames.left, *KEYS[kind], plan=frames.plans[kind])
    assert_same(grouped.agg(*aggregates), frames.left.groupBy(*KEYS[kind]).agg(*aggregates))


@pytest.mark.parametrize("kind", mostly_thorough(FEW_KEYS, QUICK_KEYS))
def test_apply_in_pandas_with_every_kind_of_key(frames: Frames, kind: str) -> None:
    grouped = unskew.groupBy(frames.left, *KEYS[kind], plan=frames.plans[kind])
    plain = frames.left.groupBy(*KEYS[kind])
    assert_same(grouped.applyInPandas(summarise(), SUMMARY), plain.applyInPandas(summarise(), SUMMARY))


@pytest.mark.connect(every_value=True)
@pytest.mark.parametrize(
    ("method", "function"),
    [
        ("applyInPandas", describe()),
        ("applyInPandas", in_batches()),
        ("applyInPandas", in_batches_with_key()),
        ("applyInArrow", in_arrow()),
        ("applyInArrow", in_arrow_with_key()),
        ("applyInArrow", in_arrow_batches()),
    ],
)
def test_functions_of_every_form(frames: Frames, method: str, function: Callable[..., Any]) -> None:
    df = frames.left.select("v", "string", "int")
    ours = unskew.groupBy(df, "string", "int", plan=frames.plans["composite"])
    plain = df.groupBy("string", "int")
    assert_same(getattr(ours, method)(function, SUMMARY), getattr(plain, method)(function, SUMMARY))


def test_aggregates_of_every_form(frames: Frames) -> None:
    @F.pandas_udf("double")
    def spread(v: pd.Series) -> float:
        return float(v.max() - v.min())

    df, names = frames.left.select("v", "w", "string", "date"), ["string", "date"]
    ours = unskew.groupBy(df, *names, slots=3, planner="keel", buckets=64)
    plain = df.groupBy(*names)
    assert_same(
        ours.agg({"v": "max", "w": "avg", "*": "count"}), plain.agg({"v": "max", "w": "avg", "*": "count"})
    )
    assert_same(ours.agg(spread("v"), spread("w").alias("w")), plain.agg(spread("v"), spread("w").alias("w")))
    assert_same(ours.count(), plain.count())
    assert_same(ours.sum(), plain.sum())
    assert_same(ours.max("v"), plain.max("v"))
    for name in ("avg", "mean", "min"):
        ours_too, plain_too = getattr(ours, name)("w", "v"), getattr(plain, name)("w", "v")
        assert ours_too.schema == plain_too.schema
    assert_same(ours.avg("w"), plain.avg("w"))
    assert_same(ours.pivot("string", ["hot", ""]).sum("v"), plain.pivot("string", ["hot", ""]).sum("v"))


def test_every_method_of_grouped_data_is_there() -> None:
    from pyspark.sql import GroupedData

    streaming_or_deprecated = {
        "apply",
        "applyInPandasWithState",
        "transformWithState",
        "transformWithStateInPandas",
    }
    theirs = {
        name for name in vars(GroupedData) if not name.startswith("_") and callable(vars(GroupedData)[name])
    }
    ours = set(dir(unskew.Grouped))
    assert theirs - streaming_or_deprecated <= ours


@pytest.mark.parametrize(
    "name", ["__slot", "slot", "a.b", "a b", "ba`ck", "Ünï", "UPPER", "sum(v)", "__hash", "count"]
)
def test_no_name_of_the_users_gets_in_the_way(frames: Frames, name: str) -> None:
    quoted = "`" + name.replace("`", "``") + "`"
    df = frames.left.select("v", F.col("string").alias(name))
    ours = unskew.groupBy(df, name, plan=frames.plans["string"])
    plain = df.groupBy(F.col(quoted))
    biggest = F.max("v").alias("__slot")
    assert_same(ours.agg(biggest), plain.agg(biggest))
    # PySpark's own applyInPandas refuses the others.
    if name not in ("a.b", "ba`ck"):
        assert_same(ours.applyInPandas(describe(), SUMMARY), plain.applyInPandas(describe(), SUMMARY))


def test_results_that_are_all_called_like_our_slot(frames: Frames) -> None:
    ours = unskew.groupBy(frames.left, "string", plan=frames.plans["string"])
    plain = frames.left.groupBy("string")
    same = [F.max("v").alias("__slot"), F.min("v").alias("__SLOT"), F.sum("v").alias("__slot_")]
    assert ours.agg(*same).columns == plain.agg(*same).columns


def test_the_key_may_be_one_list_and_of_another_case(frames: Frames) -> None:
    ours = unskew.groupBy(frames.left, ["STRING", "int"], plan=frames.plans["composite"])
    assert_same(ours.count(), frames.left.groupBy(["STRING", "int"]).count())


@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_partition_i_works_on_slot_i(frames: Frames, adaptive: str) -> None:
    plan = frames.plans["string"]

    def where(key: tuple[Any, ...], rows: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame({"key": [key[0]], "at": [TaskContext.get().partitionId()]})

    with setting(frames.spark, adaptive_enabled=adaptive):
        grouped = unskew.groupBy(frames.left, "string", plan=plan)
        rows = grouped.applyInPandas(where, "key string, at int").toArrow()
    assert rows["at"].to_pylist() == plan.table.slot_of(rows["key"]).tolist()
    assert set(rows["at"].to_pylist()) == {0, 1, 2}


def test_auto_leaves_it_to_spark_if_hashing_is_as_good(spark: SparkSession) -> None:
    even = spark.range(0, 4000, 1, 2).select((F.col("id") % 2000).alias("k"), F.col("id").alias("v"))
    grouped = unskew.groupBy(even, "k", slots=2)
    assert grouped.plan is None
    result = grouped.agg(F.sort_array(F.collect_list("v")).alias("v"))
    assert exchanges(result) == ["hashpartitioning"]
    assert_same(result, even.groupBy("k").agg(F.sort_array(F.collect_list("v")).alias("v")))


@pytest.mark.classic
def test_functions_run_on_one_partition_at_a_time_also_if_hashing_is_as_good(spark: SparkSession) -> None:
    even = spark.range(0, 4000, 1, 2).select((F.col("id") % 2000).alias("k"), F.col("id").alias("v"))
    grouped = unskew.groupBy(even, "k", slots=2)
    assert grouped.plan is None
    result = grouped.applyInPandas(summarise(), SUMMARY)
    assert exchanges(result) == ["shufflepartitionidpassthrough"]
    assert_same(result, even.groupBy("k").applyInPandas(summarise(), SUMMARY))


@pytest.mark.usefixtures("eager")
def test_auto_acts_where_keys_are_skewed_and_leaves_combining_aggregates(spark: SparkSession) -> None:
    skewed = spark.range(0, 4000, 1, 2).select(
        F.expr("cast(sqrt(id) as int)").alias("k"), F.col("id").alias("v")
    )
    grouped = unskew.groupBy(skewed, "k", slots=8)
    assert exchanges(grouped.agg(F.sum("v"), F.collect_set("v"))) == ["shufflepartitionidpassthrough"]
    assert grouped.plan is not None
    assert grouped.plan.imbalance < 1.1
    assert exchanges(grouped.agg(F.sum("v"))) == ["hashpartitioning"]
    assert exchanges(grouped.count()) == ["hashpartitioning"]


def test_combining_aggregates_start_no_measurement(doomed: DataFrame) -> None:
    assert unskew.groupBy(doomed, "string").agg(F.sum("v").alias("n"), F.max("w")).columns == [
        "string",
        "n",
        "max(w)",
    ]
    assert unskew.groupBy(doomed, "string").count().columns == ["string", "count"]


def sizes() -> tuple[Callable[..., Any], Callable[..., Any]]:
    def size(key: tuple[Any, ...], rows: pd.DataFrame) -> pd.DataFrame:
        assert list(rows) == ["v", "string"]
        return pd.DataFrame({"string": [key[0]], "n": [len(rows)], "parts": [1]})

    def add(rows: pd.DataFrame) -> pd.DataFrame:
        return rows.assign(n=rows["n"].sum(), parts=rows["parts"].sum())[:1]

    return size, add


def arrow_sizes() -> tuple[Callable[..., Any], Callable[..., Any]]:
    def size(rows: pa.Table) -> pa.Table:
        assert rows.schema.names == ["v", "string"]
        return pa.table({"string": rows["string"][:1], "n": [rows.num_rows], "parts": [1]})

    def add(rows: pa.Table) -> pa.Table:
        sums = {name: [pa.compute.sum(rows[name]).as_py()] for name in ("n", "parts")}
        return pa.table({"string": rows["string"][:1], **sums})

    return size, add


def batch_sizes() -> tuple[Callable[..., Any], Callable[..., Any]]:
    def size(parts: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        rows = pd.concat(parts)
        assert list(rows) == ["v", "string"]
        yield pd.DataFrame({"string": rows["string"][:1], "n": [len(rows)], "parts": [1]})

    def add(parts: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        rows = pd.concat(parts)
        yield rows.assign(n=rows["n"].sum(), parts=rows["parts"].sum())[:1]

    return size, add


@pytest.mark.parametrize(
    ("method", "functions", "planner"),
    [
        ("applyInPandas", sizes, "pkg"),
        ("applyInArrow", arrow_sizes, "dkg-pkg"),
        ("applyInPandas", batch_sizes, "auto"),
        ("applyInArrow", arrow_sizes, "wrap-around"),
    ],
)
def test_a_hot_key_is_split_and_merged(frames: Frames, method: str, functions: Any, planner: str) -> None:
    df = frames.left.select("v", "string")
    size, add = functions()
    grouped = unskew.groupBy(df, "string", slots=6, planner=planner, buckets=64)
    result = getattr(grouped, method)(size, "string string, n long, parts long", merge=add).toArrow()
    counts = dict(df.groupBy("string").count().collect())
    assert dict(zip(result["string"].to_pylist(), result["n"].to_pylist(), strict=True)) == counts
    parts = dict(zip(result["string"].to_pylist(), result["parts"].to_pylist(), strict=True))
    assert parts["hot"] > 1
    assert max(parts.values()) <= 6
    if planner in ("auto", "wrap-around"):
        # a third of the rows, of which a slot has a sixth; all other keys fit
        assert parts["hot"] <= 3
        assert sum(parts.values()) <= len(parts) + 5


def test_a_key_of_nearly_all_records_is_split_although_no_table_of_whole_keys_beats_hashing(
    spark: SparkSession,
) -> None:
    df = spark.range(0, 3000, 1, 2).select(
        F.col("id").alias("v"), F.expr("if(id % 100 > 0, 'hot', cast(id as string))").alias("string")
    )
    grouped = unskew.groupBy(df, "string", slots=4)
    assert grouped.plan is None
    size, add = sizes()
    result = grouped.applyInPandas(size, "string string, n long, parts long", merge=add)
    assert result.where("string = 'hot'").collect()[0][1:] == (2970, 4)


def test_a_merge_without_a_hot_key_changes_nothing(frames: Frames) -> None:
    df = frames.left.select("v", "string")
    size, add = sizes()
    result = unskew.groupBy(df, "string", slots=1, buckets=64).applyInPandas(
        size, "string string, n long, parts long", merge=add
    )
    assert rows_of(result.drop("parts")) == rows_of(df.groupBy("string").count())


def pair_up() -> tuple[Callable[..., Any], Callable[..., Any]]:
    def plain(left: pd.DataFrame, right: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame(
            {"n": [len(left)], "total": [len(right)], "text": [f"{list(left)} {sorted(right['v'])}"]}
        )

    def with_key(key: tuple[Any, ...], left: pd.DataFrame, right: pd.DataFrame) -> pd.DataFrame:
        return plain(left, right).assign(text=str([str(part) for part in key]))

    return plain, with_key


def pair_up_in_arrow() -> tuple[Callable[..., Any], Callable[..., Any]]:
    def plain(left: pa.Table, right: pa.Table) -> pa.Table:
        return pa.table({"n": [left.num_rows], "total": [right.num_rows], "text": [str(left.schema.names)]})

    def with_key(key: tuple[Any, ...], left: pa.Table, right: pa.Table) -> pa.Table:
        text = str([str(part.as_py()) for part in key])
        return pa.table({"n": [left.num_rows], "total": [right.num_rows], "text": [text]})

    return plain, with_key


@pytest.mark.parametrize(
    ("method", "functions"), [("applyInPandas", pair_up), ("applyInArrow", pair_up_in_arrow)]
)
@pytest.mark.parametrize("with_key", [False, True])
def test_cogroup(frames: Frames, method: str, functions: Any, with_key: bool) -> None:
    left = frames.left.select("v", "string", "int")
    right = frames.right.select("v", F.col("int").alias("number"), F.col("string").alias("text"))
    function = functions()[with_key]
    ours = unskew.groupBy(left, "string", "int", slots=3, planner="keel", buckets=64).cogroup(
        unskew.groupBy(right, "text", "number")
    )
    plain = left.groupBy("string", "int").cogroup(right.groupBy("text", "number"))
    result = getattr(ours, method)(function, SUMMARY)
    assert exchanges(result) == ["shufflepartitionidpassthrough"] * 2
    assert_same(result, getattr(plain, method)(function, SUMMARY))
    assert ours.plan is not None
    assert ours.plan.histogram.records == 360


@pytest.mark.parametrize("kind", ["double", "struct"])
def test_cogroup_by_null_nan_and_structs(frames: Frames, kind: str) -> None:
    left, right = (
        unskew.groupBy(df.select("v", kind), kind, plan=frames.plans[kind])
        for df in (frames.left, frames.right)
    )
    plain = frames.left.select("v", kind).groupBy(kind).cogroup(frames.right.select("v", kind).groupBy(kind))
    function = pair_up()[0]
    assert_same(left.cogroup(right).applyInPandas(function, SUMMARY), plain.applyInPandas(function, SUMMARY))


def test_auto_leaves_a_cogroup_to_spark_if_hashing_is_as_good(frames: Frames) -> None:
    sides = [
        unskew.groupBy(df.select("v", "string"), "string", slots=1) for df in (frames.left, frames.right)
    ]
    ours = sides[0].cogroup(sides[1])
    assert ours.plan is None
    assert exchanges(ours.applyInPandas(pair_up()[0], SUMMARY)) == ["hashpartitioning"] * 2


def test_auto_leaves_a_cogroup_to_spark_if_a_plan_cannot_win_back_its_slot_column(
    spark: SparkSession,
) -> None:
    # One key in five has the same load, so two slots may be uneven, but Spark's own partitions keep two cores busy.
    df = spark.range(0, 5000, 1, 2).selectExpr("id % 5 as k", "id as v")
    by_key = unskew.groupBy(df, "k")
    assert by_key.cogroup(by_key).plan is None
    hot = df.selectExpr("if(v % 10 < 9, 0, v) as k", "v")
    assert unskew.groupBy(hot, "k", slots=8).cogroup(unskew.groupBy(df, "k", slots=8)).plan is None


@pytest.mark.classic
def test_plan_apply_puts_slot_i_in_partition_i(frames: Frames) -> None:
    plan = unskew.plan(frames.measured["composite"], slots=5, planner="keel")
    routed = frames.left.transform(plan.apply)
    assert routed.columns == [*frames.left.columns, "slot"]
    assert exchanges(routed) == ["shufflepartitionidpassthrough"]
    rows = routed.select("string", "int", "slot", F.spark_partition_id().alias("at")).toArrow()
    keys = pa.StructArray.from_arrays(
        [rows[n].combine_chunks() for n in ("string", "int")], ["string", "int"]
    )
    assert rows["at"].to_pylist() == rows["slot"].to_pylist() == plan.table.slot_of(keys).tolist()
    loads = np.bincount(rows["slot"].to_numpy(), minlength=5)
    assert loads.tolist() == plan.loads.tolist()


def test_plan_apply_draws_the_slot_of_a_split_key_once(spark: SparkSession) -> None:
    df = spark.range(0, 2000, 1, 2).select(F.lit("hot").alias("k"))
    plan = unskew.plan(unskew.measure(df, "k"), slots=4, planner="pkg", choices=4)
    rows = plan.apply(df).select("slot", F.spark_partition_id().alias("at")).toArrow()
    assert rows["at"].to_pylist() == rows["slot"].to_pylist()
    assert set(rows["at"].to_pylist()) == set(plan.heavy["hot"])


def test_keys_of_one_hash_stay_apart(spark: SparkSession) -> None:
    df = spark.createDataFrame([("a", None), (None, "a"), ("a", None)], "x string, y string")
    assert len(set(hash_keys([("a", None), (None, "a")]).tolist())) == 1
    ours = unskew.groupBy(df, "x", "y", slots=2, planner="keel", buckets=64)
    assert rows_of(ours.count()) == rows_of(df.groupBy("x", "y").count())
