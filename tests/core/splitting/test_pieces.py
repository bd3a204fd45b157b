"""Pieces of hot keys: what they cover, how even the slots are, and what is left whole."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from unskew.core.histogram import Histogram
from unskew.core.splitting.pieces import CutKeys, cut_keys, hot_keys

COUNTS = st.lists(st.integers(1, 2000), min_size=1, max_size=30)


def cut(counts: list[int], slots: int, ties: int) -> tuple[Histogram, CutKeys | None, list[int]]:
    """The hot keys of random counts, cut between values that `ties` rows have each."""
    histogram = Histogram.from_counts({f"k{i}": n for i, n in enumerate(counts)}, buckets=256)
    rows = hot_keys(histogram, slots).tolist()
    values = []
    for row in rows:
        load = histogram.tracked.weights[row]
        values.append(np.full(max(1, int(load // ties)), float(ties)))
    return histogram, cut_keys(histogram, slots, rows, values), [len(each) for each in values]


@given(counts=COUNTS, slots=st.integers(1, 12), ties=st.integers(1, 40))
def test_pieces_cover_each_hot_key_once_in_ascending_slots(counts: list[int], slots: int, ties: int) -> None:
    histogram, found, sizes = cut(counts, slots, ties)
    if found is None:
        return
    rows = hot_keys(histogram, slots).tolist()
    assert len(found.pieces) <= len(found.hot) + slots - 1
    for key, row in enumerate(found.hot):
        pieces = [piece for piece in found.pieces if piece.key == key]
        assert len(pieces) > 1
        edges = [0, *(piece.end for piece in pieces)]
        assert [piece.start for piece in pieces] == edges[:-1]
        assert edges[-1] == sizes[rows.index(row)]
        assert np.all(np.diff([piece.slot for piece in pieces]) > 0)
        assert found.table.slot_of_hashes(histogram.hashes[[row]]).tolist() == [slots + key]
    others = np.setdiff1d(np.arange(len(counts)), found.hot)
    assert np.all(found.table.slot_of_hashes(histogram.hashes[others]) < slots)
    assert np.isclose(found.loads.sum(), histogram.total)


@given(counts=COUNTS, slots=st.integers(2, 12))
def test_slots_are_even_where_rows_can_be_told_apart(counts: list[int], slots: int) -> None:
    """What is not hot is at most half of a slot, and there are enough small keys to fill up."""
    histogram, found, _ = cut([*counts, *([1] * 400), 50_000], slots, ties=1)
    assert found is not None
    assert found.loads.max() <= 1.05 * histogram.total / slots


def test_one_order_value_that_is_hot_is_not_cut() -> None:
    histogram = Histogram.from_counts({"a": 1000, "b": 10})
    assert cut_keys(histogram, 4, [0], [np.array([1000.0])]) is None
    found = cut_keys(histogram, 4, [0], [np.array([10.0, 980.0, 10.0])])
    assert found is None or found.loads.max() >= 980.0
