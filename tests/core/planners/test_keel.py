"""Keel: balance near the bound, little movement, a knob that trades one for the other."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from research.simulation import outcome, replay
from research.workloads import drifting_windows, zipf
from unskew.core.histogram import Histogram
from unskew.core.loads import imbalance, lower_bound, migration, slot_loads
from unskew.core.plan import make_table
from unskew.core.routing import RoutingTable
from unskew.core.scheduling import makespan


def excess(table: RoutingTable, histogram: Histogram) -> float:
    """How far the table is above the lower bound, as a ratio."""
    return imbalance(slot_loads(table, histogram)) / lower_bound(histogram, table.slots)


@st.composite
def histograms(draw: st.DrawFn, buckets: int = 32) -> Histogram:
    """Small histograms with a few heavy keys, many light ones and state unlike the load."""
    n = draw(st.integers(1, 60))
    figures = st.lists(st.integers(0, 100), min_size=n, max_size=n)
    counts, state = draw(figures), draw(figures)
    return Histogram.from_arrays(np.arange(n), counts, state=state, buckets=buckets)


@pytest.mark.parametrize("exponent", [0.8, 1.0, 1.5, 2.0])
@pytest.mark.parametrize("slots", [10, 50, 200])
def test_a_first_plan_is_within_one_percent_of_the_bound(exponent: float, slots: int) -> None:
    histogram = Histogram.from_arrays(np.arange(100_000), zipf(100_000, exponent))
    assert excess(make_table("keel", histogram, slots), histogram) <= 1.01


@given(histograms(), st.integers(1, 8), st.integers(1, 8), st.floats(0, 0.5))
def test_never_worse_than_the_target_where_the_table_before_met_it(
    histogram: Histogram, slots: int, before: int, target: float
) -> None:
    previous = make_table("keel", histogram, before)
    again = make_table("keel", histogram, before, previous, target=target)
    if excess(previous, histogram) <= 1 + target:
        assert again.same_routes(previous) or migration(previous, again, histogram).state == 0
    changed = make_table("keel", histogram, slots, previous, target=target)
    assert set(np.unique(changed.buckets)) <= set(range(slots))


@given(histograms(), histograms(), st.integers(1, 8), st.integers(1, 8))
def test_growing_and_shrinking_leave_no_entry_on_a_slot_that_is_gone(
    before: Histogram, after: Histogram, old: int, new: int
) -> None:
    table = make_table("keel", after, new, make_table("keel", before, old))
    assert table.buckets.max() < new
    assert not len(table.hashes) or table.choices.max() < new
    assert slot_loads(table, after).sum() == pytest.approx(after.total)


@given(histograms(), histograms(), st.integers(2, 6), st.floats(0, 1))
def test_a_budget_is_not_exceeded(before: Histogram, after: Histogram, slots: int, budget: float) -> None:
    previous = make_table("keel", before, slots, rows=10_000)
    table = make_table("keel", after, slots, previous, budget=budget, rows=10_000)
    # a row whose key is no longer measured is dropped, at no measured cost
    assert migration(previous, table, after).state_share <= budget + 1e-9


@given(histograms(), histograms(), st.integers(1, 8), st.integers(1, 8), st.floats(0, 1), st.integers(0, 20))
def test_what_must_move_anyway_uses_up_the_budget(
    before: Histogram, after: Histogram, old: int, new: int, budget: float, rows: int
) -> None:
    previous = make_table("pkg" if old == new else "oracle", before, old)
    # with a target this loose nothing moves but what has to: vanished slots, rows too many, split rows
    must = migration(previous, make_table("keel", after, new, previous, target=1e9, rows=rows), after)
    table = make_table("keel", after, new, previous, budget=budget, rows=rows)
    assert migration(previous, table, after).state_share <= max(budget, must.state_share) + 1e-9


@pytest.mark.parametrize("slots", [1, 4, 8])
def test_buckets_without_load_are_dealt_out_evenly(slots: int) -> None:
    """Keys that the window did not show will come to them."""
    measured = Histogram.from_arrays(np.arange(100), np.ones(100))
    unseen = Histogram.from_arrays(np.arange(100, 100_000), np.ones(99_900))
    first = make_table("keel", measured, 8)
    for table in (
        first,
        make_table("keel", measured, slots, first),
        make_table("keel", measured, 8, cores=3),
    ):
        assert imbalance(slot_loads(table, unseen)) < 1.1


def test_a_plan_from_scratch_leaves_idle_entries_where_they_are() -> None:
    loads, state = {"a": 5, "b": 1, "c": 5, "d": 0}, {"a": 1, "b": 1, "c": 1, "d": 100}
    histogram = Histogram.from_counts(loads, state=state, buckets=4)
    for idle_at in (0, 1):
        previous = RoutingTable.build(2, [0] * 4, list(loads), [1, 0, 1, idle_at])
        assert migration(previous, make_table("keel", histogram, 2, previous), histogram).state == 1


def test_where_the_target_cannot_be_reached_the_best_balance_is_reached_gently() -> None:
    histogram = Histogram.from_counts({"a": 5, "b": 1, "c": 5}, buckets=4)
    previous = RoutingTable.build(2, [0] * 4, ["a", "b", "c"], [1, 0, 1])
    table = make_table("keel", histogram, 2, previous)
    assert slot_loads(table, histogram).max() == 6  # above 5.5 · 1.01, but no table is better
    assert migration(previous, table, histogram).state == 5


def test_the_least_state_is_moved_among_all_ways_to_the_target() -> None:
    counts = {"a": 40, "b": 30, "c": 20, "d": 10, "e": 10, "f": 10}
    state = {"a": 5, "b": 1, "c": 9, "d": 2, "e": 7, "f": 3}
    histogram = Histogram.from_counts(counts, state=state, buckets=8)
    previous = RoutingTable.build(2, [0] * 8, list(counts), [0, 0, 0, 1, 1, 1])
    cap = 1.1 * lower_bound(histogram, 2)
    reachable = []
    for slots in itertools.product(range(2), repeat=6):
        table = RoutingTable.build(2, [0] * 8, list(counts), slots)
        if imbalance(slot_loads(table, histogram)) <= cap:
            reachable.append(migration(previous, table, histogram).state)
    table = make_table("keel", histogram, 2, previous, target=0.1)
    assert imbalance(slot_loads(table, histogram)) <= cap
    assert migration(previous, table, histogram).state == min(reachable)


def test_a_key_larger_than_a_slot_is_alone_when_the_target_is_zero() -> None:
    histogram = Histogram.from_arrays(np.arange(10_000), zipf(10_000, 1.5))
    table = make_table("keel", histogram, 16, target=0.0)
    loads = slot_loads(table, histogram)
    assert loads.max() == pytest.approx(histogram.heaviest_share * histogram.total, rel=1e-9)


def test_the_knob_trades_balance_for_movement_on_a_drifting_stream() -> None:
    windows = list(drifting_windows(steps=8, keys=20_000, draws=200_000))
    tight, loose = (outcome(replay("keel", windows, 20, target=t)) for t in (0.0, 0.1))
    still = outcome(replay("keel", windows, 20, budget=0.0))
    hashed = outcome(replay("hash", windows, 20))
    assert tight.imbalance < loose.imbalance < still.imbalance < hashed.imbalance
    assert tight.moved > loose.moved > still.moved == hashed.moved == 0


def test_cold_rows_are_merged_back_when_their_bucket_comes_to_them() -> None:
    hot = Histogram.from_counts({"a": 90, "b": 60, "c": 50}, buckets=4)
    cold = Histogram.from_counts({"a": 0, "b": 0, "c": 0, "d": 1}, state={"a": 0, "b": 0, "c": 0}, buckets=4)
    table = make_table("keel", hot, 2)
    assert len(table.hashes) == 3
    later = make_table("keel", cold, 1, table)
    assert not {"a", "b"} & set(later.heavy)


@pytest.mark.parametrize("exponent", [0.5, 0.8, 1.0, 1.5])
@pytest.mark.parametrize("slots", [8, 16, 24, 30])
def test_with_fewer_cores_than_slots_no_core_idles_at_the_end(exponent: float, slots: int) -> None:
    histogram = Histogram.from_arrays(np.arange(2000), zipf(2000, exponent))
    ends = [
        makespan(slot_loads(make_table("keel", histogram, slots, cores=c), histogram), 8) for c in (8, None)
    ]
    least = max(histogram.heaviest_share, 1 / 8) * histogram.total
    table = make_table("keel", histogram, slots, cores=8)
    assert ends[0] <= min(ends[1], 1.1 * least)
    assert excess(table, histogram) <= 1.03


@given(histograms(), st.integers(1, 12), st.integers(1, 12))
def test_knowing_the_cores_never_makes_the_end_later(histogram: Histogram, slots: int, cores: int) -> None:
    with_cores, without = (make_table("keel", histogram, slots, cores=c) for c in (cores, None))
    ends = [makespan(slot_loads(table, histogram), cores) for table in (with_cores, without)]
    assert ends[0] <= ends[1] * (1 + 1e-9)


def test_rows_are_bounded() -> None:
    windows = list(drifting_windows(steps=6, keys=5_000, draws=100_000, shuffled=500, group=50))
    for step in replay("keel", windows, 10, target=0.0, rows=120):
        assert len(step.table.hashes) <= 120


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("cores", 0),
        ("cores", 1.5),
        ("target", -0.1),
        ("target", float("nan")),
        ("budget", 1.5),
        ("grain", 0.0),
        ("rows", -1),
    ],
)
def test_bad_options_are_refused_by_name(option: str, value: float) -> None:
    histogram = Histogram.from_counts({"a": 1})
    with pytest.raises(ValueError, match=option):
        make_table("keel", histogram, 2, **{option: value})
