"""What the user's function sees, returns and gets wrong is the same as under plain Spark."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark import cloudpickle
from pyspark.errors import PySparkRuntimeError, PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

import unskew
from tests.spark.frames import KEYS, POOLS, Frames, assert_same, exchanges, physical_plan, rows_of, setting
from unskew.spark.group_apply import (
    Settings,
    frames,
    group_starts,
    in_arrow,
    in_bulk,
    in_pandas,
    whole_groups,
)

# Connect says so of the setting for columns by position
pytestmark = pytest.mark.filterwarnings("ignore:The SQL config .* has been deprecated")

SETTINGS = Settings("UTC", True, False, False, False, False)
PAIR = T.StructType([T.StructField("k", T.StringType()), T.StructField("x", T.LongType())])

FLAT = """
    id, concat('k', id % 21) k, cast(id as int) i, if(id % 7 = 3 and id % 2 = 0, null, id) l,
    if(id % 7 in (2, 5), null, cast(id as smallint)) h, cast(id as tinyint) y, id % 2 = 0 b,
    if(id % 7 = 4 and id > 9, null, id % 2 = 1) c, if(id % 5 = 0, null, id / 3) d, cast(id / 7 as float) f,
    if(id % 3 = 0, null, concat('s', id)) s, if(id % 4 = 0, null, cast(concat('b', id) as binary)) n,
    if(id % 4 = 1, null, cast(id / 8 as decimal(12, 3))) e,
    if(id % 4 = 2, null, date_add(date'2024-03-30', cast(id as int))) t,
    if(id % 4 = 3, null, timestamp'2024-03-30 22:30:00.123456' + make_interval(0, 0, 0, 0, id)) u,
    if(id % 4 = 3, null, timestamp_ntz'2024-03-30 22:30:00' + make_interval(0, 0, 0, id)) w, null o
"""
NESTED = """
    id, concat('k', id % 21) k, array(id, if(id % 7 = 3, null, 1L)) a, if(id % 7 = 1, null, array(id / 2)) aa,
    named_struct('x', cast(id as int), 'y', if(id % 7 = 2, null, timestamp'2024-03-30 22:30:00')) st,
    if(id % 7 = 5, null, map('m', id)) m, array(named_struct('z', date'2024-01-01')) az, array('p', null) p,
    make_dt_interval(id) iv, parse_json(concat('{"v":', id, '}')) va, cast(id as int) i
"""


def by_key(rows: DataFrame, key: str | list[str] = "k") -> tuple[Any, Any]:
    """The same groups twice: ours under a plan of three slots, and plain Spark's."""
    names = [key] if isinstance(key, str) else key
    if key == "k":  # saves the measurement
        histogram = unskew.Histogram.from_keys(pa.array([f"k{i}" for i in range(21)]), buckets=64)
        return unskew.groupBy(rows, "k", plan=unskew.plan(histogram, 3, "keel")), rows.groupBy("k")
    return unskew.groupBy(rows, *names, slots=3, planner="keel", buckets=64), rows.groupBy(*names)


def describe() -> Callable[..., Any]:
    """All that can be told of a frame, but the order of its rows."""

    def told(value: Any) -> str:
        return f"{type(value).__name__} {getattr(value, 'dtype', '')} {value!r}"

    def seen(key: tuple[Any, ...], rows: pd.DataFrame) -> pd.DataFrame:
        head = f"{[told(part) for part in key]} {rows.index!r} {rows.columns!r} {rows.dtypes.to_dict()} {rows.attrs}"
        cells = [[told(v) for v in rows.sort_values("id")[name]] for name in rows]
        return pd.DataFrame({"head": [head], "cells": [str(cells)]})

    return seen


def describe_arrow() -> Callable[..., Any]:
    def seen(key: tuple[Any, ...], rows: pa.Table) -> pa.Table:
        head = f"{[(type(part).__name__, part.type, part) for part in key]} {rows.schema.to_string()}"
        nullable = [(field.nullable, field.metadata) for field in rows.schema]
        cells = str(rows.sort_by("id").to_pylist())
        return pa.table({"head": [f"{head} {nullable}"], "cells": [cells]})

    return seen


@pytest.mark.spark
@pytest.mark.parametrize("columns", [FLAT, NESTED], ids=["flat", "nested"])
@pytest.mark.parametrize("batch", ["5", "10000"])
def test_a_function_sees_the_same(spark: SparkSession, columns: str, batch: str) -> None:
    with setting(spark, session_timeZone="Europe/Oslo", execution_arrow_maxRecordsPerBatch=batch):
        ours, plain = by_key(spark.range(0, 126, 1, 2).selectExpr(*split(columns)))
        schema = "head string, cells string"
        assert_same(ours.applyInPandas(describe(), schema), plain.applyInPandas(describe(), schema))
        assert_same(ours.applyInArrow(describe_arrow(), schema), plain.applyInArrow(describe_arrow(), schema))


@pytest.mark.spark
def test_a_function_sees_nullable_integers_where_they_are_asked_for(spark: SparkSession) -> None:
    with setting(spark, execution_pythonUDF_pandas_preferIntExtensionDtype="true"):
        ours, plain = by_key(spark.range(0, 126, 1, 2).selectExpr(*split(FLAT)))
        schema = "head string, cells string"
        assert_same(ours.applyInPandas(describe(), schema), plain.applyInPandas(describe(), schema))


@pytest.mark.spark
@pytest.mark.parametrize("key", ["l", "c", "d", "n", "e", "t", "u", "w", "o", ["b", "s", "h"]], ids=str)
def test_a_function_is_told_the_same_key(spark: SparkSession, key: str | list[str]) -> None:
    with setting(spark, session_timeZone="Europe/Oslo", execution_arrow_maxRecordsPerBatch="16"):
        ours, plain = by_key(spark.range(0, 40, 1, 2).selectExpr(*split(FLAT)), key)
        schema = "head string, cells string"
        assert_same(ours.applyInPandas(describe(), schema), plain.applyInPandas(describe(), schema))


@pytest.mark.spark
@pytest.mark.parametrize("kind", KEYS)
def test_groups_of_every_kind_of_key(frames: Frames, kind: str) -> None:
    def members(rows: pa.Table) -> pa.Table:
        return pa.table({"v": [str(sorted(rows["v"].to_pylist()))]})

    with setting(frames.spark, execution_arrow_maxRecordsPerBatch="20"):
        ours = unskew.groupBy(frames.left, *KEYS[kind], plan=frames.plans[kind])
        plain = frames.left.groupBy(*KEYS[kind])
        assert_same(ours.applyInArrow(members, "v string"), plain.applyInArrow(members, "v string"))


def _by_group(*results: Callable[[pd.DataFrame], Any]) -> Callable[..., Any]:
    """A function that returns something else for each group in turn."""
    return lambda rows: results[int(rows["k"].iloc[0][1:]) % len(results)](rows)


RESULTS: dict[str, tuple[str, Callable[..., Any]]] = {
    "columns in another order": ("k string, id long", lambda r: r[["id", "k"]]),
    "columns without names": (
        "k string, id long",
        lambda r: pd.DataFrame(list(zip(r["k"], r["id"], strict=True))),
    ),
    "a column too many": ("k string", lambda r: r[["k", "id"]]),
    "a column missing": ("k string, id long, x int", lambda r: r[["k", "id"]]),
    "too few columns without names": ("k string, id long", lambda r: pd.DataFrame([[1]])),
    "an empty frame": ("k string, id long", _by_group(lambda r: r[["k", "id"]], lambda r: pd.DataFrame())),
    "no columns but rows": ("k string, id long", lambda r: pd.DataFrame(index=[1, 2])),
    "no rows": ("k string, id long", _by_group(lambda r: r[["k", "id"]], lambda r: r[["k", "id"]][:0])),
    "None": ("k string", lambda r: None),
    "a Series": ("k string", lambda r: r["k"]),
    "None in columns": (
        "k string, x int, y double",
        lambda r: pd.DataFrame({"k": [None], "x": None, "y": None}),
    ),
    "casts": (
        "k string, x int, y string",
        lambda r: pd.DataFrame({"k": r["k"], "x": r["id"] + 0.5, "y": r["id"]}),
    ),
    "dtypes that differ": (
        "x long",
        _by_group(
            lambda r: pd.DataFrame({"x": [2**53 + 1]}),
            lambda r: pd.DataFrame({"x": [None, 1.0]}),
            lambda r: pd.DataFrame({"x": [2**53 + 1, None]}, dtype=object),
            lambda r: pd.DataFrame({"x": ["17"]}),
            lambda r: pd.DataFrame({"x": pd.array([2**53 + 1, None], "Int64")}),
        ),
    ),
    "objects that differ": (
        "x double",
        _by_group(lambda r: pd.DataFrame({"x": ["1.5"]}), lambda r: pd.DataFrame({"x": [2.5]}, dtype=object)),
    ),
    "a value that does not fit": ("x int", lambda r: pd.DataFrame({"x": ["no number"]})),
    "a type that does not fit": ("x double", lambda r: pd.DataFrame({"x": [{"a": 1}]})),
    "categories": ("k string", lambda r: pd.DataFrame({"k": r["k"].astype("category")})),
    "times": (
        "u timestamp, w timestamp_ntz, t date",
        lambda r: pd.DataFrame({"u": r["u"], "w": r["w"], "t": r["t"]}),
    ),
    "times with a zone": ("u timestamp", lambda r: pd.DataFrame({"u": r["u"].dt.tz_localize("Asia/Tokyo")})),
    "decimals and binaries": ("e decimal(12, 3), n binary, c boolean", lambda r: r[["e", "n", "c"]]),
    "lists": ("a array<long>", lambda r: pd.DataFrame({"a": [list(r["id"].sort_values())]})),
    "structs": ("p struct<x: int, y: string>", lambda r: pd.DataFrame({"p": [{"x": 1, "y": None}]})),
    "a column that may not be null": (
        T.StructType([T.StructField("k", T.StringType(), nullable=False)]),  # type: ignore[dict-item]
        lambda r: r[["k"]],
    ),
    "an error": ("k string", lambda r: r["no such column"]),
    "StopIteration": ("k string", lambda r: next(iter([]))),
}


BY_POSITION = {"legacy_execution_pandas_groupedMap_assignColumnsByName": "false"}
UNSAFELY = {"execution_pandas_convertToArrowArraySafely": "false"}
WITH_COLUMNS = [name for name in RESULTS if "column" in name]
WITH_VALUES = ["casts", "dtypes that differ", "a value that does not fit", "times"]


@pytest.mark.spark
@pytest.mark.parametrize(
    ("name", "values"),
    [
        *((name, {"session_timeZone": "Europe/Oslo"}) for name in RESULTS),
        *((name, BY_POSITION) for name in WITH_COLUMNS),
        *((name, UNSAFELY) for name in WITH_VALUES),
    ],
    ids=[*RESULTS, *(f"{n}, by position" for n in WITH_COLUMNS), *(f"{n}, unsafely" for n in WITH_VALUES)],
)
def test_a_result_is_taken_the_same_way(spark: SparkSession, name: str, values: dict[str, str]) -> None:
    schema, function = RESULTS[name]
    with setting(spark, **values):
        ours, plain = by_key(spark.range(0, 40, 1, 2).selectExpr(*split(FLAT)))
        mine, theirs = (outcome(g.applyInPandas(importless(function), schema)) for g in (ours, plain))
    assert mine == theirs


ARROW_RESULTS: dict[str, tuple[str, Callable[..., Any]]] = {
    "columns in another order": ("k string, id long", lambda r: r.select(["id", "k"])),
    "a column too many": ("k string", lambda r: r.select(["k", "id"])),
    "a column missing": ("k string, x long", lambda r: r.select(["k"])),
    "another type": ("id int", lambda r: r.select(["id"])),
    "neither columns nor rows": ("id int", lambda r: pa.table({})),
    "no rows": ("id long", lambda r: r.select(["id"]).slice(0, r["id"][0].as_py() % 2)),
    "nested": (
        "a array<long>, st struct<x: int>",
        lambda r: pa.table(
            {
                "a": pa.array([[1, None], None]),
                "st": pa.array([{"x": 1}, None], pa.struct([("x", pa.int32())])),
            }
        ),
    ),
    "a frame": ("id long", lambda r: r.to_pandas()),
    "None": ("id long", lambda r: None),
    "times": ("u timestamp, w timestamp_ntz", lambda r: r.select(["u", "w"])),
}


@pytest.mark.spark
@pytest.mark.parametrize("name", ARROW_RESULTS)
@pytest.mark.parametrize("by_name", ["true", "false"])
def test_an_arrow_result_is_taken_the_same_way(spark: SparkSession, name: str, by_name: str) -> None:
    schema, function = ARROW_RESULTS[name]
    with setting(spark, legacy_execution_pandas_groupedMap_assignColumnsByName=by_name):
        ours, plain = by_key(spark.range(0, 40, 1, 2).selectExpr(*split(FLAT)))
        mine, theirs = (outcome(g.applyInArrow(importless(function), schema)) for g in (ours, plain))
    assert mine == theirs


def test_rows_without_columns_are_an_error() -> None:
    batch = pa.RecordBatch.from_pydict({"k": ["a", "b"], "x": [1, 2]})
    with pytest.raises(PySparkRuntimeError, match="Expected: 2 Actual: 0"):
        list(in_arrow(lambda rows: rows.select([]), 1, [0], PAIR, SETTINGS)(iter([batch])))


@pytest.mark.spark
@pytest.mark.parametrize("method", ["applyInPandas", "applyInArrow"])
def test_one_shuffle_and_one_stream_a_partition(frames: Frames, method: str) -> None:
    grouped = unskew.groupBy(frames.left.select("v", "string"), "string", plan=frames.plans["string"])
    result = getattr(grouped, method)(lambda rows: rows, "v long, string string")
    assert exchanges(result) == ["shufflepartitionidpassthrough"]
    assert "MapInArrow" in physical_plan(result)


@pytest.mark.spark
def test_a_function_on_parts_of_a_group_is_left_to_spark(frames: Frames) -> None:
    def same(parts: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        yield from parts

    grouped = unskew.groupBy(frames.left.select("v", "string"), "string", plan=frames.plans["string"])
    plan = physical_plan(grouped.applyInPandas(same, "v long, string string"))
    assert "FlatMapGroupsInPandas" in plan
    assert "MapInArrow" not in plan


_VALUES = st.sampled_from([None, 0, 1, 2])


@given(st.sampled_from(sorted(POOLS)), st.lists(st.integers(0, 3), max_size=30))
def test_a_group_starts_where_the_key_changes(kind: str, drawn: list[int]) -> None:
    pool = POOLS[kind]
    keys = pool.take(pa.array([i % len(pool) for i in drawn], pa.int64()))
    same = [_equal(a, b) for a, b in zip(keys.to_pylist()[:-1], keys.to_pylist()[1:], strict=True)]
    assert group_starts([keys]).tolist() == [i + 1 for i, equal in enumerate(same) if not equal]


def _equal(a: Any, b: Any) -> bool:
    return a == b or (a is not None and b is not None and a != a and b != b)


def test_a_struct_of_nulls_is_not_null() -> None:
    kind = pa.struct([("a", pa.int32()), ("b", pa.struct([("c", pa.float64())]))])
    values = [
        None,
        {"a": None, "b": None},
        {"a": None, "b": {"c": None}},
        {"a": None, "b": {"c": float("nan")}},
        {"a": None, "b": {"c": float("nan")}},
        {"a": None, "b": {"c": 0.0}},
        {"a": None, "b": {"c": -0.0}},
    ]
    assert group_starts([pa.array(values, kind)]).tolist() == [1, 2, 3, 5]


@given(st.lists(st.tuples(_VALUES, _VALUES)), st.lists(st.integers(0, 12)))
def test_groups_are_whole_wherever_batches_are_cut(
    keys: list[tuple[int | None, int | None]], cuts: list[int]
) -> None:
    keys = sorted(keys, key=str)
    rows = pa.table(
        {
            "a": pa.array([a for a, _ in keys], pa.int32()),
            "n": pa.array(range(len(keys)), pa.int64()),
            "b": pa.array([b for _, b in keys], pa.int64()),
        }
    )
    batches, rest = [], rows.combine_chunks()
    for cut in cuts:
        batches += rest.slice(0, cut).to_batches()
        rest = rest.slice(cut)
    groups = [
        [(row["a"], row["b"]) for row in table.slice(start, end - start).to_pylist()]
        for table, starts in whole_groups([*batches, *rest.to_batches()], [0, 2])
        for start, end in pairwise(starts.tolist())
    ]
    assert [key for group in groups for key in group] == keys
    assert all(len(set(group)) == 1 for group in groups)
    assert len(groups) == len(set(keys))


def test_only_the_batch_and_the_group_in_progress_are_held() -> None:
    asked = 0

    def batches() -> Iterator[pa.RecordBatch]:
        nonlocal asked
        for i in range(5):
            asked += 1
            yield pa.RecordBatch.from_pydict({"k": [i, i, i + 1]})

    found = whole_groups(batches(), [0])
    sizes = [(next(found)[0].num_rows, asked) for _ in range(4)]
    assert sizes == [(2, 1), (3, 2), (3, 3), (3, 4)]


def test_what_is_done_to_a_frame_stays_in_it() -> None:
    batch = pa.RecordBatch.from_pydict({"k": [1, 1, 2, 2, 3, 3, 4], "x": [1.0] * 7, "s": ["s"] * 7})
    values = []
    for rows, starts in whole_groups([batch], [0]):
        for _, frame in frames(rows, starts, [0], SETTINGS):
            values += [*frame["x"], *frame["s"], frame.columns.name]
            frame["x"] = 5.0
            frame.loc[:, "s"] = "changed"
            frame["k"].to_numpy()[:] = 9
            frame.columns.name = "changed"
    assert set(values) == {1.0, "s", None}


def test_a_function_may_write_over_what_it_returned() -> None:
    buffer = np.zeros(1)
    schema = T.StructType([T.StructField("x", T.DoubleType())])

    def next_frame(rows: pd.DataFrame) -> pd.DataFrame:
        buffer[0] += 1
        return pd.DataFrame(buffer, columns=["x"], copy=False)

    def next_table(rows: pa.Table) -> pa.Table:
        buffer[0] += 1
        return pa.table({"x": pa.array(buffer)})

    batch = pa.RecordBatch.from_pydict({"k": list(range(40))})
    for apply, function in ((in_pandas, next_frame), (in_arrow, next_table)):
        buffer[0] = 0
        found = []
        for out in apply(function, 1, [0], schema, SETTINGS)(iter([batch])):
            found += out["x"].to_pylist()
        assert found == list(range(1, 41))


@pytest.mark.parametrize("kinds", [2, 4])
def test_no_group_changes_the_values_or_the_place_of_another(kinds: int) -> None:
    schema = T.StructType([T.StructField("x", T.LongType())])

    def numbers(key: tuple[Any, ...], rows: pd.DataFrame) -> pd.DataFrame:
        big = 2**53 + 1 + 2 * key[0]  # no float is equal to it
        values = ([big], [np.nan, 1.0], ["17"], pd.array([big], "Int64"))
        return pd.DataFrame({"x": values[key[0] % kinds]})

    batch = pa.RecordBatch.from_pydict({"k": list(range(40))})
    batches = in_pandas(numbers, 2, [0], schema, SETTINGS)(iter([batch]))
    big = 2**53 + 1 + 2 * np.arange(40)
    expected = [([big[k]], [None, 1], [17], [big[k]])[k % kinds] for k in range(40)]
    assert [x for out in batches for x in out["x"].to_pylist()] == [x for part in expected for x in part]


def test_a_list_may_grow_after_it_was_returned() -> None:
    grown: list[int] = []
    schema = T.StructType([T.StructField("x", T.ArrayType(T.LongType()))])

    def grow(rows: pd.DataFrame) -> pd.DataFrame:
        grown.append(len(grown))
        return pd.DataFrame({"x": [grown]})

    batch = pa.RecordBatch.from_pydict({"k": list(range(20))})
    found = [len(x) for out in in_pandas(grow, 1, [0], schema, SETTINGS)(iter([batch])) for x in out["x"]]
    assert found == list(range(1, 21))


def test_results_are_written_many_at_a_time_and_big_ones_alone() -> None:
    def sizes(rows: int, bytes_each: int) -> list[int]:
        one = pa.table({"x": pa.array(["x" * bytes_each] * rows)})
        merged: list[int] = []

        def merge(results: list[Any]) -> list[pa.RecordBatch]:
            merged.append(len(results))
            return pa.concat_tables(results).to_batches()

        assert sum(b.num_rows for b in in_bulk(iter([one] * 1000), merge, lambda r: r)) == 1000 * rows
        assert sum(merged) == 1000
        return merged

    assert max(sizes(1, 10)) == 256
    assert max(sizes(5000, 1)) == 2
    assert max(sizes(1, 1 << 20)) <= 2


def test_the_workers_need_no_unskew() -> None:
    def double(key: tuple[Any, ...], rows: pd.DataFrame) -> pd.DataFrame:
        return rows.assign(x=rows["x"] * 2)

    def same(rows: pa.Table) -> pa.Table:
        return rows

    script = (
        "import sys; sys.modules['unskew'] = sys.modules['tests'] = None\n"
        "import pyarrow as pa; from pyspark import cloudpickle\n"
        "batch = pa.RecordBatch.from_pydict({'k': ['a', 'a', 'b'], 'x': [1, None, 3]})\n"
        "for apply in cloudpickle.loads(sys.stdin.buffer.read()):\n"
        "    print([row for out in apply(iter([batch])) for row in out['x'].to_pylist()])"
    )
    sent = [
        in_pandas(importless(double), 2, [0], PAIR, SETTINGS),
        in_arrow(importless(same), 1, [0], PAIR, SETTINGS),
    ]
    done = subprocess.run(
        [sys.executable, "-c", script], input=cloudpickle.dumps(sent), capture_output=True, check=False
    )
    assert done.stdout.decode().splitlines() == ["[2, None, 6]", "[1, None, 3]"], done.stderr.decode()


def split(columns: str) -> list[str]:
    """The expressions of a select list."""
    depth, parts, start = 0, [], 0
    for i, c in enumerate(columns):
        depth += (c in "({") - (c in ")}")
        if c == "," and depth == 0:
            parts.append(columns[start:i])
            start = i + 1
    return [*parts, columns[start:]]


def importless(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function without the name of this module, which the workers cannot import."""
    function.__module__ = "__main__"
    return function


def outcome(result: DataFrame) -> list[str]:
    """The rows, or what the error says."""
    try:
        return [str(result.schema), *rows_of(result)]
    except PythonException as error:
        lines = [line for line in str(error).splitlines() if re.match(r"\S*(Error|Exception)\S*: ", line)]
        return ["failed", lines[-1]]
