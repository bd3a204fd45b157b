"""The policy switches only if the gain pays for the move."""

from __future__ import annotations

import math

import numpy as np
import pytest

from research.workloads import zipf
from unskew.core.histogram import Histogram
from unskew.core.loads import migration, slot_loads
from unskew.core.migration.policy import Costs, Policy
from unskew.core.plan import make_table
from unskew.core.routing import RoutingTable

SKEWED = Histogram.from_arrays(np.arange(1000), 1000 * zipf(1000, 1.0), buckets=256)
HASHED = RoutingTable.hashed(8, 256, SKEWED.key_type)
BETTER = make_table("keel", SKEWED, 8, HASHED)
FREE = Costs(seconds_per_load=1.0, seconds_per_state=0.0)


def test_gain_is_time_of_the_fullest_slot_over_the_horizon_and_cost_is_state_moved() -> None:
    costs = Costs(seconds_per_load=0.5, seconds_per_state=0.25, seconds_per_switch=3.0)
    decision = Policy(horizon=10).decide(HASHED, BETTER, [SKEWED, SKEWED], costs)
    saved = slot_loads(HASHED, SKEWED).max() - slot_loads(BETTER, SKEWED).max()
    assert decision.gain == pytest.approx(10 * 0.5 * saved)
    assert decision.cost == pytest.approx(3.0 + 0.25 * migration(HASHED, BETTER, SKEWED).state)
    assert decision.switch


def test_it_does_not_switch_when_moving_costs_more() -> None:
    costs = Costs(seconds_per_load=1.0, seconds_per_state=1e6)
    decision = Policy().decide(HASHED, BETTER, [SKEWED, SKEWED], costs)
    assert not decision.switch
    assert "moving costs" in decision.reason


def test_hysteresis_asks_for_more_than_break_even() -> None:
    free = Policy(horizon=1).decide(HASHED, BETTER, [SKEWED, SKEWED], FREE)
    just_below = Costs(1.0, 0.0, seconds_per_switch=free.gain * 0.9)
    assert Policy(horizon=1, hysteresis=0.0).decide(HASHED, BETTER, [SKEWED, SKEWED], just_below).switch
    assert not Policy(horizon=1, hysteresis=0.2).decide(HASHED, BETTER, [SKEWED, SKEWED], just_below).switch


def test_one_odd_window_moves_nothing() -> None:
    even = Histogram.from_arrays(np.arange(100_000), np.ones(100_000), buckets=256)
    odd = Histogram.from_arrays(np.arange(1000), 1e5 * zipf(1000, 1.0), buckets=256)
    table = make_table("keel", odd, 8, HASHED)
    policy = Policy(patience=2)
    assert not policy.decide(HASHED, table, [even, even, odd], FREE).switch
    assert policy.decide(HASHED, table, [even, odd, odd], FREE).switch


def test_it_waits_for_enough_windows() -> None:
    assert not Policy(patience=3).decide(HASHED, BETTER, [SKEWED, SKEWED], FREE).switch
    assert not Policy().decide(HASHED, BETTER, [], FREE).switch


def test_cooldown() -> None:
    policy = Policy(cooldown=3)
    assert not policy.decide(HASHED, BETTER, [SKEWED] * 2, FREE, windows_since_switch=2).switch
    assert policy.decide(HASHED, BETTER, [SKEWED] * 2, FREE, windows_since_switch=3).switch


def test_a_table_near_its_bound_is_left_alone() -> None:
    best = make_table("oracle", SKEWED, 8)
    decision = Policy(tolerance=0.05).decide(BETTER, best, [SKEWED, SKEWED], FREE)
    assert not decision.switch
    assert "within 5% of its bound" in decision.reason


def test_the_same_table_is_not_a_switch() -> None:
    assert "keeps" in Policy().decide(HASHED, HASHED, [SKEWED], FREE).reason


@pytest.mark.parametrize(
    "wrong",
    [
        {"horizon": 0},
        {"horizon": math.nan},
        {"patience": 0},
        {"patience": 1.5},
        {"cooldown": -1},
        {"hysteresis": -1.0},
    ],
)
def test_nonsense_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Policy(**wrong)  # type: ignore[arg-type]


def test_costs_are_measured_times() -> None:
    with pytest.raises(ValueError, match="seconds_per_state"):
        Costs(1.0, float("nan"))
