"""The user's function gets the same rows as under plain Spark, and its results and errors are the same, too."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.errors import PySparkRuntimeError, PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

import unskew
from tests.cases import mostly_thorough
from tests.spark.frames import (
    KEYS,
    QUICK_KEYS,
    Frames,
    assert_same,
    exchanges,
    importless,
    physical_plan,
    rows_of,
    setting,
)
from unskew.spark import apply as applying
from unskew.spark.apply import in_arrow, in_bulk
from unskew.spark.group_streams import ConversionSettings, Layout, streamed_groups

# Connect warns about the setting for columns by position.
pytestmark = pytest.mark.filterwarnings("ignore:The SQL config .* has been deprecated")

SETTINGS = ConversionSettings("UTC", True, False, False, False, False)
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
    # a plan for the usual key, which saves measuring it
    if key == "k":
        histogram = unskew.Histogram.from_keys(pa.array([f"k{i}" for i in range(21)]), buckets=64)
        return unskew.groupBy(rows, "k", plan=unskew.plan(histogram, 3, "keel")), rows.groupBy("k")
    return unskew.groupBy(rows, *names, slots=3, planner="keel", buckets=64), rows.groupBy(*names)


def describe() -> Callable[..., Any]:
    """Everything about a frame, except the order of its rows."""

    def text(value: Any) -> str:
        return f"{type(value).__name__} {getattr(value, 'dtype', '')} {value!r}"

    def description(key: tuple[Any, ...], rows: pd.DataFrame) -> pd.DataFrame:
        head = f"{[text(part) for part in key]} {rows.index!r} {rows.columns!r} {rows.dtypes.to_dict()} {rows.attrs}"
        cells = [[text(v) for v in rows.sort_values("id")[name]] for name in rows]
        return pd.DataFrame({"head": [head], "cells": [str(cells)]})

    return description


def describe_arrow() -> Callable[..., Any]:
    def description(key: tuple[Any, ...], rows: pa.Table) -> pa.Table:
        head = f"{[(type(part).__name__, part.type, part) for part in key]} {rows.schema.to_string()}"
        nullable = [(field.nullable, field.metadata) for field in rows.schema]
        cells = str(rows.sort_by("id").to_pylist())
        return pa.table({"head": [f"{head} {nullable}"], "cells": [cells]})

    return description


@pytest.mark.since("4.0", "applyInArrow")
@pytest.mark.connect
@pytest.mark.parametrize("columns", [FLAT, NESTED], ids=["flat", "nested"])
@pytest.mark.parametrize("batch", ["5", "10000"])
def test_a_function_sees_the_same(spark: SparkSession, columns: str, batch: str) -> None:
    with setting(spark, session_timeZone="Europe/Oslo", execution_arrow_maxRecordsPerBatch=batch):
        ours, plain = by_key(spark.range(0, 126, 1, 2).selectExpr(*split(columns)))
        schema = "head string, cells string"
        assert_same(ours.applyInPandas(describe(), schema), plain.applyInPandas(describe(), schema))
        assert_same(ours.applyInArrow(describe_arrow(), schema), plain.applyInArrow(describe_arrow(), schema))


@pytest.mark.since("4.2", "nullable integers in pandas")
@pytest.mark.connect
def test_a_function_sees_nullable_integers_where_they_are_asked_for(spark: SparkSession) -> None:
    with setting(spark, execution_pythonUDF_pandas_preferIntExtensionDtype="true"):
        ours, plain = by_key(spark.range(0, 126, 1, 2).selectExpr(*split(FLAT)))
        schema = "head string, cells string"
        assert_same(ours.applyInPandas(describe(), schema), plain.applyInPandas(describe(), schema))


@pytest.mark.parametrize("key", ["l", "c", "d", "n", "e", "t", "u", "w", "o", ["b", "s", "h"]], ids=str)
def test_a_function_gets_the_same_key(spark: SparkSession, key: str | list[str]) -> None:
    with setting(spark, session_timeZone="Europe/Oslo", execution_arrow_maxRecordsPerBatch="16"):
        ours, plain = by_key(spark.range(0, 40, 1, 2).selectExpr(*split(FLAT)), key)
        schema = "head string, cells string"
        assert_same(ours.applyInPandas(describe(), schema), plain.applyInPandas(describe(), schema))


@pytest.mark.connect
@pytest.mark.parametrize("kind", mostly_thorough(KEYS, QUICK_KEYS))
def test_groups_of_every_kind_of_key(frames: Frames, kind: str) -> None:
    def members(rows: pa.Table) -> pa.Table:
        return pa.table({"v": [str(sorted(rows["v"].to_pylist()))]})

    with setting(frames.spark, execution_arrow_maxRecordsPerBatch="20"):
        ours = unskew.groupBy(frames.left, *KEYS[kind], plan=frames.plans[kind])
        plain = frames.left.groupBy(*KEYS[kind])
        assert_same(ours.applyInArrow(members, "v string"), plain.applyInArrow(members, "v string"))


def _by_group(*results: Callable[[pd.DataFrame], Any]) -> Callable[..., Any]:
    """A function that returns another result for each group in turn."""
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


@pytest.mark.since("4.0", "applyInArrow")
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
        list(
            in_arrow(lambda rows: rows.select([]), 1, Layout((0,), ("k", "x")), PAIR, SETTINGS)(iter([batch]))
        )


@pytest.mark.connect
@pytest.mark.parametrize("method", ["applyInPandas", "applyInArrow"])
def test_one_shuffle_and_one_stream_per_partition(frames: Frames, method: str) -> None:
    grouped = unskew.groupBy(frames.left.select("v", "string"), "string", plan=frames.plans["string"])
    result = getattr(grouped, method)(lambda rows: rows, "v long, string string")
    assert exchanges(result) == ["shufflepartitionidpassthrough"]
    assert "MapInArrow" in physical_plan(result)


@pytest.mark.since("4.1", "functions on the pieces of a group")
@pytest.mark.connect
@pytest.mark.parametrize("with_key", [False, True])
@pytest.mark.parametrize("method", ["applyInPandas", "applyInArrow"])
def test_a_function_on_the_pieces_of_a_group(frames: Frames, method: str, with_key: bool) -> None:
    def same(parts: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        yield from parts

    def first_piece(key: tuple[Any, ...], parts: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        # the other pieces are not read, and the key is that of the rows
        piece = next(parts)
        assert str(key[0]) == str(piece["string"][0]), (key, piece)
        yield piece[:1]

    def same_batches(parts: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from parts

    def first_batch(key: tuple[Any, ...], parts: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield next(parts).slice(0, 1)

    functions: dict[tuple[str, bool], Callable[..., Any]] = {
        ("applyInPandas", False): same,
        ("applyInPandas", True): first_piece,
        ("applyInArrow", False): same_batches,
        ("applyInArrow", True): first_batch,
    }
    function = functions[method, with_key]
    rows = frames.left.select("string", "string")
    rows = rows.toDF("string", "again") if with_key else frames.left.select("v", "string")
    grouped = unskew.groupBy(rows, "string", plan=frames.plans["string"])
    ours = getattr(grouped, method)(function, rows.schema)
    assert "MapInArrow" in physical_plan(ours)
    assert_same(ours, getattr(rows.groupBy("string"), method)(function, rows.schema))


def test_large_results_do_not_wait_for_each_other() -> None:
    waiting: list[int] = []

    def results() -> Iterator[pa.Table]:
        for _ in range(300):
            yield pa.table({"x": [1]})
        for _ in range(20):
            waiting.append(1)
            yield pa.table({"x": ["x" * 3_000_000]})

    most = 0
    for batch in in_bulk(
        results(), lambda tables: [pa.RecordBatch.from_pydict({"n": [len(tables)]})], lambda r: r
    ):
        if waiting:
            most = max(most, batch["n"][0].as_py() if len(waiting) > 2 else 0)
    assert 0 < most <= 3


def test_results_too_large_for_one_column_stay_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(applying, "_MOST_BYTES", 100)
    frames_of_two_kinds = [
        pd.DataFrame({"k": ["a" * 80], "x": [1]}),
        pd.DataFrame({"k": ["b" * 80], "x": [None]}),
    ]
    batches = list(applying._one_batch(frames_of_two_kinds, PAIR, SETTINGS))
    assert sorted(row["k"][0] for batch in batches for row in batch.to_pylist()) == ["a", "b"]


def test_a_huge_group_is_streamed_in_pieces() -> None:
    batches = [pa.record_batch({"k": [1] * 4}) for _ in range(100)] + [pa.record_batch({"k": [1, 2, 2]})]
    held = []

    def source() -> Iterator[pa.RecordBatch]:
        for batch in batches:
            held.append(batch.num_rows)
            yield batch

    seen = []
    for first, pieces in streamed_groups(source(), [0]):
        next(pieces)
        seen.append((first["k"][0].as_py(), len(held)))
        if len(seen) == 1:
            assert sum(piece.num_rows for piece in pieces) == 397
    assert seen == [(1, 2), (2, 101)]
    assert list(streamed_groups([], [0])) == []


def split(columns: str) -> list[str]:
    """The expressions of a select list."""
    depth, parts, start = 0, [], 0
    for i, c in enumerate(columns):
        depth += (c in "({") - (c in ")}")
        if c == "," and depth == 0:
            parts.append(columns[start:i])
            start = i + 1
    return [*parts, columns[start:]]


def outcome(result: DataFrame) -> list[str]:
    """The rows, or the text of the error."""
    try:
        return [str(result.schema), *rows_of(result)]
    except PythonException as error:
        lines = [line for line in str(error).splitlines() if re.match(r"\S*(Error|Exception)\S*: ", line)]
        return ["failed", lines[-1]]
