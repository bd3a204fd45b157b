"""Groups cut from the stream of a partition, and their results written to a stream; needs no Spark."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark import cloudpickle
from pyspark.sql import types as T

from tests.spark.frames import POOLS, importless
from unskew.spark.apply import in_arrow, in_bulk, in_pandas
from unskew.spark.group_streams import ConversionSettings, Layout, frames, group_starts, whole_groups

SETTINGS = ConversionSettings("UTC", True, False, False, False, False)
PAIR = T.StructType([T.StructField("k", T.StringType()), T.StructField("x", T.LongType())])

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
    batches_read = 0

    def batches() -> Iterator[pa.RecordBatch]:
        nonlocal batches_read
        for i in range(5):
            batches_read += 1
            yield pa.RecordBatch.from_pydict({"k": [i, i, i + 1]})

    groups = whole_groups(batches(), [0])
    sizes = [(next(groups)[0].num_rows, batches_read) for _ in range(4)]
    assert sizes == [(2, 1), (3, 2), (3, 3), (3, 4)]


def test_changes_to_a_frame_stay_in_it() -> None:
    batch = pa.RecordBatch.from_pydict({"k": [1, 1, 2, 2, 3, 3, 4], "x": [1.0] * 7, "s": ["s"] * 7})
    values = []
    for rows, starts in whole_groups([batch], [0]):
        for _, frame in frames(rows, starts, Layout((0,), tuple(rows.column_names)), SETTINGS):
            values += [*frame["x"], *frame["s"], frame.columns.name]
            frame["x"] = 5.0
            frame.loc[:, "s"] = "changed"
            frame["k"].to_numpy()[:] = 9
            frame.columns.name = "changed"
    assert set(values) == {1.0, "s", None}


def test_a_function_may_overwrite_what_it_returned() -> None:
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
        values: list[float] = []
        for out in apply(function, 1, Layout((0,), ("k",)), schema, SETTINGS)(iter([batch])):
            values += out["x"].to_pylist()
        assert values == list(range(1, 41))


@pytest.mark.parametrize("kinds", [2, 4])
def test_no_group_changes_the_values_or_the_place_of_another(kinds: int) -> None:
    schema = T.StructType([T.StructField("x", T.LongType())])

    def numbers(key: tuple[Any, ...], rows: pd.DataFrame) -> pd.DataFrame:
        big = 2**53 + 1 + 2 * key[0]  # not a float
        values = ([big], [np.nan, 1.0], ["17"], pd.array([big], "Int64"))
        return pd.DataFrame({"x": values[key[0] % kinds]})

    batch = pa.RecordBatch.from_pydict({"k": list(range(40))})
    batches = in_pandas(numbers, 2, Layout((0,), ("k",)), schema, SETTINGS)(iter([batch]))
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
    lengths = [
        len(x)
        for out in in_pandas(grow, 1, Layout((0,), ("k",)), schema, SETTINGS)(iter([batch]))
        for x in out["x"]
    ]
    assert lengths == list(range(1, 21))


def test_results_are_written_many_at_a_time_and_big_ones_alone() -> None:
    def sizes(rows: int, bytes_each: int) -> list[int]:
        result = pa.table({"x": pa.array(["x" * bytes_each] * rows)})
        merged: list[int] = []

        def merge(results: list[Any]) -> list[pa.RecordBatch]:
            merged.append(len(results))
            return pa.concat_tables(results).to_batches()

        assert sum(b.num_rows for b in in_bulk(iter([result] * 1000), merge, lambda r: r)) == 1000 * rows
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
    functions = [
        in_pandas(importless(double), 2, Layout((0,), ("k", "x")), PAIR, SETTINGS),
        in_arrow(importless(same), 1, Layout((0,), ("k", "x")), PAIR, SETTINGS),
    ]
    done = subprocess.run(
        [sys.executable, "-c", script], input=cloudpickle.dumps(functions), capture_output=True, check=False
    )
    assert done.stdout.decode().splitlines() == ["[2, None, 6]", "[1, None, 3]"], done.stderr.decode()
