"""Every slot gets the mean, with fewer cuts than slots, and only where a cut is needed."""

from __future__ import annotations

from math import ceil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unskew.core.histogram import Floats
from unskew.core.splitting.wrap_around import Pieces, water_level, wrap_around

loads = st.one_of(
    st.integers(0, 20).map(float), st.floats(0, 1e6, allow_subnormal=False), st.just(0.0), st.just(1e-9)
)


def slot_loads(pieces: Pieces, whole: Floats, slots: int) -> Floats:
    total = np.bincount(pieces.whole, whole, slots).astype(np.float64)
    for row in pieces.cut:
        for slot, load in row:
            total[slot] += load
    return total


@given(st.lists(loads, max_size=12), st.lists(loads, min_size=1, max_size=40), st.integers(1, 16))
def test_every_slot_gets_the_mean_unless_whole_entries_exceed_it(
    cuttable: list[float], whole: list[float], slots: int
) -> None:
    keys, buckets = np.array(cuttable, float), np.array(whole, float)
    pieces = wrap_around(keys, buckets, slots)
    near = 1e-6 * max(pieces.level, 1e-12)
    for load, row in zip(cuttable, pieces.cut, strict=True):
        assert sum(part for _, part in row) == pytest.approx(load, abs=near)
        assert len({slot for slot, _ in row}) == len(row) >= 1
    assert pieces.cuts <= slots - 1
    base = np.bincount(pieces.whole, buckets, slots)
    result = slot_loads(pieces, buckets, slots)
    mean = (keys.sum() + buckets.sum()) / slots
    if base.max() <= mean:
        assert result == pytest.approx(np.full(slots, mean), abs=near)
    # a slot is at the level, or has nothing but whole entries and is above it
    over = base > pieces.level
    assert result[~over] == pytest.approx(np.full((~over).sum(), pieces.level), abs=near)
    assert result[over] == pytest.approx(base[over], abs=near)


@given(st.floats(0.0, 0.99), st.integers(2, 64))
def test_one_hot_key_among_many_light_ones_is_in_as_few_pieces_as_possible(share: float, slots: int) -> None:
    buckets = np.full(4096, (1 - share) / 4096)
    pieces = wrap_around(np.array([share]), buckets, slots, slack=0.02)
    assert len(pieces.cut[0]) <= max(ceil(share * slots), 1)
    assert slot_loads(pieces, buckets, slots).max() <= 1.02 / slots * (1 + 1e-6)


@given(
    st.lists(loads, max_size=12),
    st.lists(loads, min_size=1, max_size=40),
    st.integers(1, 16),
    st.sampled_from([0.01, 0.1]),
)
def test_with_slack_no_slot_exceeds_the_level_by_more(
    cuttable: list[float], whole: list[float], slots: int, slack: float
) -> None:
    keys, buckets = np.array(cuttable, float), np.array(whole, float)
    pieces = wrap_around(keys, buckets, slots, slack)
    result = slot_loads(pieces, buckets, slots)
    assert result.sum() == pytest.approx(keys.sum() + buckets.sum())
    most = max(pieces.level * (1 + slack), np.bincount(pieces.whole, buckets, slots).max())
    assert result.max() <= most * (1 + 1e-6)
    assert pieces.cuts <= slots - 1


def test_a_key_that_fits_is_not_cut() -> None:
    pieces = wrap_around(np.array([3.0, 3.0, 2.0, 1.0, 1.0]), np.zeros(4), 5)
    assert sorted(map(len, pieces.cut)) == [1, 1, 1, 2, 2]
    assert pieces.level == 2.0


def test_a_slot_that_whole_entries_overfill_gets_nothing_else() -> None:
    pieces = wrap_around(np.array([4.0]), np.array([9.0, 1.0]), 3)
    assert slot_loads(pieces, np.array([9.0, 1.0]), 3).tolist() == [9.0, 2.5, 2.5]
    assert water_level(np.array([9.0, 1.0, 0.0]), 4.0) == 2.5


def test_nothing_at_all() -> None:
    pieces = wrap_around(np.zeros(2), np.zeros(3), 2)
    assert (pieces.cuts, pieces.level) == (0, 0.0)
