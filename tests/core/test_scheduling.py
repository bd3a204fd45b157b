"""Greedy scheduling equals a plain loop and keeps Graham's bound."""

from __future__ import annotations

from itertools import product

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from unskew.core.scheduling import fill, longest_first

WEIGHTS = st.lists(st.integers(0, 20).map(float), max_size=30)


def naive(weights: list[float], loads: list[float]) -> list[int]:
    chosen = [0] * len(weights)
    loads = list(loads)
    for item in sorted(range(len(weights)), key=lambda i: (-weights[i], i)):
        chosen[item] = loads.index(min(loads))
        loads[chosen[item]] += weights[item]
    return chosen


@given(WEIGHTS, st.integers(1, 6))
def test_equals_a_loop(weights: list[float], slots: int) -> None:
    assert longest_first(np.array(weights), slots).tolist() == naive(weights, [0.0] * slots)


@given(WEIGHTS, st.lists(st.integers(0, 50).map(float), min_size=1, max_size=6))
def test_fills_slots_that_already_carry_load(weights: list[float], loads: list[float]) -> None:
    carried = np.array(loads)
    assert fill(np.array(weights), carried).tolist() == naive(weights, loads)
    assert carried.tolist() == loads


@settings(max_examples=60)
@given(st.lists(st.integers(1, 12).map(float), min_size=1, max_size=7), st.integers(1, 3))
def test_is_within_graham_s_bound_of_the_best(weights: list[float], slots: int) -> None:
    best = min(
        max(sum(w for w, s in zip(weights, placed, strict=True) if s == slot) for slot in range(slots))
        for placed in product(range(slots), repeat=len(weights))
    )
    highest = np.bincount(longest_first(np.array(weights), slots), weights).max()
    assert best <= highest <= best * (4 / 3 - 1 / (3 * slots)) + 1e-9


def test_graham_s_bound_is_tight() -> None:
    weights = np.array([5.0, 5, 4, 4, 3, 3, 3])  # the best is 9, three slots: 5+4, 5+4, 3+3+3
    assert np.bincount(longest_first(weights, 3), weights).max() == 11 == round(9 * (4 / 3 - 1 / 9), 9)


def test_items_without_weight_are_placed_too() -> None:
    assert longest_first(np.zeros(3), 2).tolist() == [0, 0, 0]
    assert longest_first(np.zeros(0), 2).tolist() == []
