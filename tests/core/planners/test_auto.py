"""Auto steps aside where hashing is as good, and says why."""

from __future__ import annotations

import numpy as np
import pytest

from research.workloads import zipf
from unskew.core.histogram import Histogram
from unskew.core.loads import imbalance, lower_bound, slot_loads
from unskew.core.plan import Plan, make_table
from unskew.core.planners.auto import choose, expected_time
from unskew.core.routing import RoutingTable


def test_it_steps_aside_for_uniform_keys() -> None:
    histogram = Histogram.from_arrays(np.arange(1_000_000), np.ones(1_000_000))
    plan = Plan.make(histogram, 8)
    assert plan.table.same_routes(RoutingTable.hashed(8, key_type=histogram.key_type))
    assert "within 2.0% of the least possible" in plan.reason


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


def test_with_few_cores_the_time_decides() -> None:
    histogram = Histogram.from_arrays(np.arange(100_000), zipf(100_000, 0.9))
    assert choose(histogram, 64, cores=64).planner == "keel"
    assert choose(histogram, 64, cores=2).planner == "hash"
    assert "on 2 cores" in choose(histogram, 64, cores=2).reason


def test_a_table_must_promise_the_gain_that_is_asked_for() -> None:
    skewed = Histogram.from_counts({"a": 6, "b": 2, "c": 2}, buckets=16)
    assert choose(skewed, 2, cores=2).planner == "keel"
    assert choose(skewed, 2, cores=2, gain=1.0).planner == "hash"


def test_hashing_is_judged_by_the_partitions_that_it_would_have() -> None:
    twenty = Histogram.from_counts(dict.fromkeys(range(20), 1), buckets=256)
    assert choose(twenty, 2, cores=2, gain=0.1).planner == "keel"
    assert choose(twenty, 2, cores=2, gain=0.1, partitions=200).planner == "hash"
    # one partition would leave a core idle
    assert choose(twenty, 2, cores=2, gain=0.5, partitions=1).planner == "keel"


def test_expected_time_is_that_of_drawn_hashes() -> None:
    two = Histogram.from_counts({"a": 1, "b": 1}, buckets=16)
    # both on one of two slots half of the time: 1 or 2 times even work, 1.5 on average
    assert expected_time(two, 2, 2, draws=4000) == pytest.approx(1.5, abs=0.05)
    assert expected_time(two, 2, 1) == pytest.approx(1.0)


def test_merged_neighbours_run_as_one_task() -> None:
    """Adaptive execution sees the rows that are read. A key whose output is most of the work then gets more."""
    even = Histogram.from_counts(dict.fromkeys(range(20_000), 1), buckets=256)
    costly = Histogram.from_arrays(
        ["hot", *map(str, range(20_000))],
        np.ones(20_001),
        weights=np.array([20_000.0, *np.ones(20_000)]),
        buckets=256,
    )
    assert expected_time(even, 8, 2, merged_share=0.5) < 1.3
    # the hot key, which starts anywhere among eight slots: 1.125 to 1.5, 1.31 in the mean
    assert 1.2 < expected_time(costly, 8, 2) < 1.4
    # now it is in one of two tasks, with half of the others
    assert 1.4 < expected_time(costly, 8, 2, merged_share=0.5) <= 1.6
    assert expected_time(costly, 8, 2, merged_share=0.01) == expected_time(costly, 8, 2)


@pytest.mark.parametrize(
    ("option", "value"), [("cores", 0), ("target", -1.0), ("budget", 2.0), ("gain", -0.1)]
)
def test_bad_options_are_refused_even_where_they_would_not_matter(option: str, value: float) -> None:
    even = Histogram.from_arrays(np.arange(4096), np.ones(4096), buckets=64)
    with pytest.raises(ValueError, match=option):
        make_table("auto", even, 2, **{option: value})
