"""Keys are distinguished by value, as Spark's grouping does, even if they share a hash."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.streaming.worker.slot_world import KEYS, alike
from unskew.streaming.storage.key_groups import find_rows, groups_of, same_keys, window_ids
from unskew.streaming.worker.packing import normal_keys

ROWS = st.sampled_from(sorted(KEYS)).flatmap(
    lambda kind: st.tuples(
        st.just(kind), st.lists(st.tuples(st.sampled_from(KEYS[kind][1]), st.integers(0, 2)), max_size=14)
    )
)


def columns_of(kind: str, keys: list[tuple[Any, ...]]) -> list[pa.Array]:
    fields = KEYS[kind][0]
    table = pa.table({f"key.{i}": pa.array([k[i] for k in keys], f.type) for i, f in enumerate(fields)})
    return [c.combine_chunks() for c in normal_keys(table).columns]


@given(ROWS)
def test_groups_are_the_keys_in_the_order_of_their_first_rows(drawn: tuple[str, list[Any]]) -> None:
    """Ids collide at random here, but equal keys always have the same id."""
    kind, rows = drawn
    keys = [key for key, _ in rows]
    id_of = {alike(key): n for key, n in reversed(rows)}
    ids = np.array([id_of[alike(key)] for key in keys], np.int64)
    groups, firsts = groups_of(ids, columns_of(kind, keys))
    numbers: dict[Any, int] = {}
    expected = [numbers.setdefault(alike(key), len(numbers)) for key in keys]
    assert groups.tolist() == expected
    assert firsts.tolist() == [expected.index(g) for g in range(len(numbers))]


@given(ROWS, st.data())
def test_each_key_is_found_in_its_row_or_not_at_all(
    drawn: tuple[str, list[Any]], data: st.DataObject
) -> None:
    kind, rows = drawn
    run = sorted({alike(key): (n, key) for key, n in rows}.values(), key=lambda row: row[0])
    places = {alike(key): i for i, (_, key) in enumerate(run)}
    ids = {alike(key): n for n, key in run}
    keys = data.draw(st.lists(st.sampled_from(KEYS[kind][1]), max_size=8))
    found_rows = find_rows(
        np.array([n for n, _ in run], np.int64),
        columns_of(kind, [key for _, key in run]),
        np.array([ids.get(alike(key), 1) for key in keys], np.int64),
        columns_of(kind, keys),
    )
    assert found_rows.tolist() == [places.get(alike(key), -1) for key in keys]


def test_many_keys_may_share_one_hash() -> None:
    """(x, null) and (null, x) have the same hash in Spark, for every x."""
    n = 20_000
    left = pa.array([f"{i}" for i in range(n)] + [None] * n)
    right = pa.array([None] * n + [f"{i}" for i in range(n)])
    groups, firsts = groups_of(np.tile(np.arange(n), 2), [left, right])
    assert groups.tolist() == list(range(2 * n))
    assert len(firsts) == 2 * n


@pytest.mark.parametrize("kind", sorted(KEYS))
def test_keys_are_compared_as_spark_groups_them(kind: str) -> None:
    keys = KEYS[kind][1]
    for left in keys:
        same = same_keys(columns_of(kind, [left] * len(keys)), columns_of(kind, keys))
        assert same.tolist() == [alike(left) == alike(right) for right in keys]


def test_ids_of_windows_differ() -> None:
    hashes, starts = np.meshgrid(np.arange(-50, 50), np.arange(0, 6_000_000_000, 60_000_000))
    assert len(np.unique(window_ids(hashes.ravel(), starts.ravel()))) == hashes.size
