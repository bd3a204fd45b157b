"""Auto steps aside where hashing is as good, and says why."""

from __future__ import annotations

import numpy as np
import pytest

from unskew.core.histogram import Histogram
from unskew.core.loads import imbalance, lower_bound, slot_loads
from unskew.core.planners.auto import choose
from unskew.core.planning import Plan, make_table
from unskew.core.routing import RoutingTable
from unskew.core.workloads import zipf


def test_it_steps_aside_for_uniform_keys() -> None:
    histogram = Histogram.from_arrays(np.arange(1_000_000), np.ones(1_000_000))
    plan = Plan.make(histogram, 8)
    assert plan.table.same_routes(RoutingTable.hashed(8, key_type=histogram.key_type))
    assert "within 2.0% of the bound" in plan.reason


@pytest.mark.parametrize("exponent", [0.5, 0.8, 1.0, 1.5, 2.0])
@pytest.mark.parametrize("slots", [4, 32, 100])
def test_it_is_within_two_percent_of_the_bound(exponent: float, slots: int) -> None:
    histogram = Histogram.from_arrays(np.arange(50_000), zipf(50_000, exponent))
    table = make_table("auto", histogram, slots)
    assert imbalance(slot_loads(table, histogram)) <= 1.02 * lower_bound(histogram, slots)


def test_it_never_goes_back_to_hashing_from_another_table() -> None:
    skewed = Histogram.from_arrays(np.arange(1000), zipf(1000, 1.2))
    even = Histogram.from_arrays(np.arange(1_000_000), np.ones(1_000_000))
    table = make_table("keel", skewed, 8)
    assert choose(even, 8, table).planner == "keel"
    assert choose(even, 8, RoutingTable.hashed(8, key_type=even.key_type)).planner == "hash"


def test_the_reason_gives_the_figures() -> None:
    skewed = Histogram.from_counts({"a": 6, "b": 2, "c": 2}, buckets=16)
    assert "where 1.200 is possible" in choose(skewed, 2).reason
    assert "present table" in choose(skewed, 2, make_table("single", skewed, 2)).reason
