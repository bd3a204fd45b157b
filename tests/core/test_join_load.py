"""The load of a join from histograms of its sides, held against the rows that the join reads and emits."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unskew.core.histogram import Histogram
from unskew.core.join_load import OUTPUT_COST, JoinType, join_load, matched_load
from unskew.core.loads import imbalance, slot_loads
from unskew.core.plan import Plan

KINDS: list[JoinType] = ["inner", "left", "right", "full", "semi", "anti"]
SIDES = st.dictionaries(st.integers(0, 9), st.integers(1, 5), min_size=1)


def histogram(counts: dict[Any, Any], **options: Any) -> Histogram:
    return Histogram.from_counts(counts, buckets=16, key_type=pa.int64(), **options)


def emitted(kind: JoinType, left: dict[int, int], right: dict[int, int]) -> Counter[int]:
    """The rows per key that the join emits, row by row."""
    rows: Counter[int] = Counter()
    for key in {*left, *right}:
        n, m = left.get(key, 0), right.get(key, 0)
        for _ in range(n):
            matches = {"semi": min(m, 1), "anti": 0}.get(kind, m)
            rows[key] += matches if m else int(kind in ("left", "full", "anti"))
        rows[key] += m if not n and kind in ("right", "full") else 0
    return rows


@pytest.mark.parametrize("kind", KINDS)
@given(left=SIDES, right=SIDES)
def test_a_key_weighs_the_rows_read_and_those_emitted(
    kind: JoinType, left: dict[int, int], right: dict[int, int]
) -> None:
    load = matched_load(histogram(left), histogram(right), kind)
    rows = emitted(kind, left, right)
    expected = {
        key: left.get(key, 0) + right.get(key, 0) + OUTPUT_COST * rows[key] for key in {*left, *right}
    }
    assert dict(load.top(100)) == expected
    assert load.records == sum(left.values()) + sum(right.values())


@pytest.mark.parametrize("kind", KINDS)
def test_keys_that_are_not_tracked_are_estimated_by_bucket(kind: JoinType) -> None:
    left, right = dict.fromkeys(range(200), 4), dict.fromkeys(range(200), 3)
    exact = matched_load(histogram(left), histogram(right), kind)
    for capacities in ((0, 0), (200, 0), (0, 200), (50, 100)):
        sides = [
            histogram(side, capacity=capacity)
            for side, capacity in zip((left, right), capacities, strict=True)
        ]
        load = matched_load(*sides, kind)
        assert load.total == pytest.approx(exact.total)
        assert load.records == pytest.approx(exact.records)


def test_many_rows_emitted_by_few_keys_are_spread_over_the_slots() -> None:
    left = {**dict.fromkeys(range(8), 300), **dict.fromkeys(range(100, 500), 600)}
    right = {**dict.fromkeys(range(8), 300), **dict.fromkeys(range(100, 500), 1)}
    plan = Plan.make(matched_load(histogram(left), histogram(right), "inner"), 8, "keel")
    output = histogram({key: left[key] * right[key] for key in left})
    assert imbalance(slot_loads(plan.table, output)) < 1.05
    by_input = Plan.make(histogram(left).merge(histogram(right)), 8, "keel")
    assert imbalance(slot_loads(by_input.table, output)) > 1.5


def test_a_weight_is_the_unit_of_rows_emitted_as_well() -> None:
    left, right = {1: 4, 2: 4}, {1: 2, 2: 4}
    weights = {1: 40.0, 2: 40.0}
    weighted = matched_load(histogram(left, weights=weights), histogram(right), "inner")
    unit = (80 + 6) / 14
    assert dict(weighted.top()) == pytest.approx(
        {1: 42 + OUTPUT_COST * unit * 8, 2: 44 + OUTPUT_COST * unit * 16}
    )


@pytest.mark.parametrize(
    ("kind", "spread"),
    [
        ("inner", (False, False)),
        ("left", (True, False)),
        ("right", (False, True)),
        ("full", (True, True)),
        ("semi", (False, False)),
        ("anti", (True, False)),
    ],
)
def test_null_keys_are_spread_where_they_are_emitted(kind: JoinType, spread: tuple[bool, bool]) -> None:
    side = histogram({None: 50, 1: 5, 2: 5})
    load = join_load(side, side, kind, slots=4)
    assert (load.spread_left, load.spread_right) == spread
    assert load.spread == sum(spread) * 50 * (1 + OUTPUT_COST)
    assert load.histogram.records == 20
    assert load.hashed.total == pytest.approx(load.histogram.total + load.spread)
    keyed = histogram({1: 5, 2: 5})
    assert load.histogram.total == matched_load(keyed, keyed, kind).total


def test_a_few_null_keys_are_placed_like_any_key() -> None:
    side = histogram({None: 1, 1: 50, 2: 50})
    load = join_load(side, histogram({1: 1}), "left", slots=4)
    assert not load.spread_left
    assert dict(load.histogram.top())[None] == 1 + OUTPUT_COST


def test_nothing_is_lost_where_a_side_is_empty() -> None:
    empty = Histogram.empty(pa.int64(), buckets=16)
    for kind in KINDS:
        assert join_load(empty, empty, kind, 4).histogram.total == 0
        one = join_load(histogram({1: 2}), empty, kind, 4).histogram
        assert one.total == 2 + (OUTPUT_COST * 2 if kind in ("left", "full", "anti") else 0)
        assert np.isfinite(one.total)
