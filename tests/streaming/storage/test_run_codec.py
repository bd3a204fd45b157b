"""A run comes back from the state store as it was, and is stored without what its other columns tell."""

from __future__ import annotations

import datetime as dt
import decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from unskew.core.hashing import hash_keys
from unskew.streaming.storage import columns
from unskew.streaming.storage.layout import HASH, ID, WINDOW, Layout
from unskew.streaming.storage.run_codec import (
    decoded,
    decoded_counts,
    decoded_run,
    encoded,
    encoded_counts,
    encoded_run,
)

STATE = pa.schema([("n", pa.int64()), ("t", pa.list_(pa.struct([("v", pa.string())])))])
KEYS: dict[str, list[pa.Array]] = {
    "text": [pa.array(["a", None, "", "ü" * 300, "b" * 2000])],
    "bytes": [pa.array([b"\0", None, b"\xff\xfe"])],
    "numbers": [pa.array([0, -1, None, 2**62]), pa.array([1.5, float("nan"), None, 0.0])],
    "small": [pa.array([1, None, -3], pa.int8()), pa.array([True, None, False])],
    "decimal": [pa.array([decimal.Decimal("1.50"), None], pa.decimal128(10, 2))],
    "time": [
        pa.array([dt.date(2020, 1, 1), None]),
        pa.array([dt.datetime(2020, 1, 1, tzinfo=dt.timezone.utc), None], pa.timestamp("us", "UTC")),
    ],
}


def layout_of(keys: list[pa.Array], windowed: bool) -> Layout:
    schema = pa.schema([(f"k{i}", key.type) for i, key in enumerate(keys)])
    return Layout(schema, STATE, windowed, expires=True)


def run_of(keys: list[pa.Array], layout: Layout, hashes: Any = None) -> pa.Table:
    size = len(keys[0])
    names = [f"_{i}" for i in range(len(keys))]
    struct = keys[0] if len(keys) == 1 else pa.StructArray.from_arrays(keys, names)
    values = {f"key.{i}": key for i, key in enumerate(keys)}
    values[HASH] = pa.array(hash_keys(struct) if hashes is None else hashes)
    values["state.n"] = pa.array([None, *range(size - 1)], pa.int64())
    values["deadline"] = pa.array(range(size), pa.int64())
    if layout.windowed:
        values[WINDOW] = pa.array(np.arange(size) * 10)
    rows = layout.rows(values, size)
    return rows.take(pa.array(np.argsort(rows[ID].to_numpy(), kind="stable"))).combine_chunks()


def same(left: pa.Table, right: pa.Table) -> bool:
    """Whether both are equal; Arrow's own comparison tells NaN from NaN."""
    return left.schema.equals(right.schema) and repr(left.to_pydict()) == repr(right.to_pydict())


@pytest.mark.parametrize("windowed", [False, True])
@pytest.mark.parametrize("kind", KEYS)
def test_a_run_comes_back_without_its_hashes_being_stored(kind: str, windowed: bool) -> None:
    layout = layout_of(KEYS[kind], windowed)
    run = run_of(KEYS[kind], layout)
    data = encoded_run(run, layout)
    assert same(decoded_run(data, layout), run)
    assert {ID, HASH}.isdisjoint(decoded(data).column_names)


@pytest.mark.parametrize("windowed", [False, True])
def test_other_hashes_than_sparks_of_the_key_are_stored(windowed: bool) -> None:
    keys = KEYS["text"]
    layout = layout_of(keys, windowed)
    run = run_of(keys, layout, np.arange(len(keys[0])))
    data = encoded_run(run, layout)
    assert HASH in decoded(data).column_names
    assert decoded_run(data, layout).equals(run)


def test_a_run_of_an_earlier_format_is_read() -> None:
    layout = layout_of(KEYS["text"], windowed=True)
    run = run_of(KEYS["text"], layout)
    assert decoded_run(encoded(run), layout).equals(run)


def test_a_run_of_a_newer_format_is_refused() -> None:
    layout = layout_of(KEYS["text"], windowed=False)
    run = run_of(KEYS["text"], layout).replace_schema_metadata({b"unskew.run": b"without anything"})
    with pytest.raises(RuntimeError, match="upgrade unskew"):
        decoded_run(encoded(run), layout)


def test_a_run_is_hashed_and_written_in_parts_of_bounded_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "MAX_BYTES", 4000)
    keys = [pa.array([f"key {i}" for i in range(5000)])]
    layout = layout_of(keys, windowed=False)
    run = run_of(keys, layout)
    data = encoded_run(run, layout)
    assert decoded(data)["key.0"].num_chunks > 10
    assert decoded_run(data, layout).equals(run)


def test_a_run_takes_a_third_of_its_plain_size() -> None:
    users = np.random.default_rng(0).permutation(2_000_000)[:50_000]
    keys = [pa.array([f"user-{user}" for user in users])]
    layout = Layout(pa.schema([("k", pa.string())]), pa.schema([("n", pa.int64()), ("total", pa.int64())]))
    values = {"key.0": keys[0], HASH: pa.array(hash_keys(keys[0]))}
    values |= {f"state.{name}": pa.array(np.ones(len(users), np.int64)) for name in ("n", "total")}
    rows = layout.rows(values, len(users))
    run = rows.take(pa.array(np.argsort(rows[ID].to_numpy()))).combine_chunks()
    assert 3 * len(encoded_run(run, layout)) < len(encoded(run))


@pytest.mark.parametrize("largest", [-1, 0, 1, 255, 256, 65_536, 2**32, 2**62])
def test_counts_come_back(largest: int) -> None:
    counts = np.array([0, largest, 1, largest // 2], np.int64)
    assert decoded_counts(encoded_counts(counts), 4).tolist() == counts.tolist()


def test_counts_of_many_buckets_take_little() -> None:
    counts = np.random.default_rng(0).poisson(500, 4096)
    assert len(encoded_counts(counts)) < 4096 * 8 / 4
