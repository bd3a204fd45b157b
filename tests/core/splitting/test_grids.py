"""Grids of hot keys: every pair meets once, copies are bounded, cells are on distinct slots."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unskew.core.join_load import JoinType
from unskew.core.splitting.grids import HotKeys, dealt_sides, place, shapes

KINDS: list[JoinType] = ["inner", "left", "right", "full", "semi", "anti"]
sizes = st.integers(0, 60)


def hot_keys(rows: list[tuple[int, int]]) -> HotKeys:
    left, right = np.array(rows, float).reshape(-1, 2).T
    return HotKeys(left, right, left, right, left * right)


def best_by_trying(left: int, right: int, kind: JoinType, slots: int, target: float, budget: float) -> float:
    """The fewest copies of any grid that reaches the target within the budget, by trying all of them."""
    deals = dealt_sides(kind)
    copies = [
        left * (b - 1) + right * (a - 1)
        for a, b in itertools.product(range(1, slots + 1), repeat=2)
        if a * b <= slots and (a == 1 or deals[0]) and (b == 1 or deals[1])
        if left / a + right / b + left * right / (a * b) <= target * (1 + 1e-9)
    ]
    return min([n for n in copies if n <= budget], default=float("inf"))


@given(
    st.tuples(sizes, sizes), st.sampled_from(KINDS), st.integers(1, 12), st.floats(1, 500), st.floats(0, 300)
)
def test_the_grid_that_copies_least_of_all_that_reach_the_target(
    key: tuple[int, int], kind: JoinType, slots: int, target: float, budget: float
) -> None:
    keys = hot_keys([key])
    rows, columns = shapes(keys, kind, slots, target, budget)
    least = best_by_trying(*key, kind, slots, target, budget)
    assert keys.copied(rows, columns)[0] <= budget
    if least < float("inf"):
        assert keys.cell_loads(rows, columns)[0] <= target * (1 + 1e-9)
        assert keys.copied(rows, columns)[0] == least


@given(
    st.lists(st.tuples(sizes, sizes), max_size=8),
    st.sampled_from(KINDS),
    st.integers(1, 12),
    st.floats(1, 500),
    st.floats(0, 300),
)
def test_copies_are_bounded_and_only_sides_that_may_be_dealt_are(
    rows: list[tuple[int, int]], kind: JoinType, slots: int, target: float, budget: float
) -> None:
    keys = hot_keys(rows)
    deals = dealt_sides(kind)
    a, b = shapes(keys, kind, slots, target, budget)
    assert keys.copied(a, b).sum() <= budget * (1 + 1e-9)
    assert np.all(a * b <= slots)
    assert deals[0] or np.all(a == 1)
    assert deals[1] or np.all(b == 1)
    whole = keys.cell_loads(np.ones_like(a), np.ones_like(b))
    assert np.all(keys.cell_loads(a, b) <= whole)
    assert np.all((a * b == 1) | (keys.cell_loads(a, b) < whole))


@given(
    st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 5000)), max_size=8),
    st.sampled_from(KINDS),
    st.integers(1, 12),
    st.floats(0, 50_000),
)
def test_heavy_keys_are_on_every_slot_if_that_copies_little(
    rows: list[tuple[int, int]], kind: JoinType, slots: int, spared: float
) -> None:
    keys = hot_keys(rows)
    deals = dealt_sides(kind)
    a, b = shapes(keys, kind, slots, 1.0, spared, spared)
    assert keys.copied(a, b).sum() <= spared * (1 + 1e-9)
    assert deals[0] or np.all(a == 1)
    assert deals[1] or np.all(b == 1)
    if rows and deals[0] and rows[0][0] >= 400 * slots and rows[0][1] * (slots - 1) <= spared:
        assert a[0] * b[0] == slots
        assert keys.copied(a, b)[0] <= rows[0][1] * (slots - 1)


@given(
    st.lists(st.tuples(st.floats(0, 100), st.integers(1, 6)), max_size=20),
    st.lists(st.floats(0, 50), min_size=6, max_size=9),
)
def test_cells_of_an_item_are_on_distinct_slots_and_the_loads_add_up(
    items: list[tuple[float, int]], before: list[float]
) -> None:
    weights = np.array([weight for weight, _ in items])
    cells = np.array([n for _, n in items], np.int64)
    slots, loads = place(weights, cells, np.array(before))
    expected = np.array(before)
    for item, (start, n) in enumerate(zip(np.cumsum(cells) - cells, cells, strict=True)):
        mine = slots[start : start + n]
        assert len(set(mine.tolist())) == n
        expected[mine] += weights[item]
    np.testing.assert_allclose(loads, expected)


def test_more_cells_than_slots_are_refused() -> None:
    with pytest.raises(ValueError, match="3 cells of one key cannot be on distinct slots: there are 2"):
        place(np.ones(1), np.array([3]), np.zeros(2))
