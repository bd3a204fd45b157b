"""What scan, redist and readj have in common."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.planners.gedik_cases import random_problem
from unskew.core.histogram import Histogram
from unskew.core.loads import imbalance, migration, slot_loads
from unskew.core.plan import make_table
from unskew.core.planners.parts.gedik import UTILITIES, pose
from unskew.core.planners.parts.resources import theta
from unskew.core.planners.ring import ring
from unskew.core.routing import RoutingTable

PLANNERS = ("scan", "redist", "readj")
planners = pytest.mark.parametrize("name", PLANNERS)
DEFAULTS: dict[str, Any] = {
    "seed": 0, "alpha": 1.2, "sigma": 0.1, "resources": "LCL", "utility": "APM", "replicas": 1000
}  # fmt: skip


def zipf(keys: int = 2000, z: float = 1.0, buckets: int = 4096) -> Histogram:
    return Histogram.from_arrays(np.arange(keys), np.arange(1, keys + 1) ** -z, buckets=buckets)


@planners
def test_a_key_has_a_row_if_and_only_if_its_frequency_reaches_delta(name: str) -> None:
    h = zipf()
    table = make_table(name, h, 10)
    delta = 0.1 * theta(1.2, 10) / 10
    assert set(table.keys.to_pylist()) == set(np.flatnonzero(h.tracked.weights / h.total >= delta).tolist())
    assert np.array_equal(table.buckets, ring(10, 4096))


@planners
def test_one_slot_needs_no_rows(name: str) -> None:
    assert len(make_table(name, zipf(), 1).hashes) == 0


@planners
@given(seed=st.integers(0, 10**6))
def test_plans_are_valid_and_deterministic(name: str, seed: int) -> None:
    h, slots, previous, options = random_problem(seed)
    table = make_table(name, h, slots, previous, **options)
    assert table == make_table(name, h, slots, previous, **options)
    assert table.slots == slots
    assert np.array_equal(table.buckets, ring(slots, h.buckets, seed=options["seed"]))


@planners
def test_growing_one_by_one_balances_far_better_than_the_ring_and_moves_little(name: str) -> None:
    h = zipf(20_000)
    previous = table = RoutingTable.hashed(1, h.buckets, h.key_type)
    for n in range(1, 11):
        previous, table = table, make_table(name, h, n, table)
    assert imbalance(slot_loads(table, h)) < 0.85 * imbalance(slot_loads(make_table("ring", h, 10), h))
    # in mean slots' worth of state: plain hashing moves 9, the ideal is 1
    assert migration(previous, table, h).state_share * table.slots < 2


@planners
def test_shrinking_empties_the_removed_slots(name: str) -> None:
    h = zipf()
    before = make_table(name, h, 8)
    after = make_table(name, h, 5, before)
    assert after.choices.max() < 5
    stayed = np.isin(h.hashes, before.hashes) & np.isin(h.hashes, after.hashes)
    homes = before.slot_of_hashes(h.hashes[stayed])
    unmoved = after.slot_of_hashes(h.hashes[stayed]) == homes
    assert unmoved[homes < 5].mean() > 0.3


@planners
def test_a_previous_table_of_any_planner_is_a_valid_start(name: str) -> None:
    h = zipf()
    split = RoutingTable.build(6, np.arange(4096) % 6, np.arange(5), [[0, 1]] * 5)
    for previous in (RoutingTable.hashed(6, 4096, h.key_type), make_table("ring", h, 6, seed=9), split):
        table = make_table(name, h, 6, previous)
        assert imbalance(slot_loads(table, h)) < imbalance(slot_loads(make_table("ring", h, 6), h))


@planners
def test_without_state_moving_is_free(name: str) -> None:
    counts = {k: 1.0 / (k + 1) for k in range(40)}
    stateless = Histogram.from_counts(counts, state=dict.fromkeys(counts, 0.0), buckets=64)
    previous = RoutingTable.build(3, np.zeros(64, dtype=int), key_type=stateless.key_type)
    table = make_table(name, stateless, 3, previous, utility="APM")
    assert table.same_routes(make_table(name, stateless, 3, previous, utility="A"))


def test_a_key_with_much_state_and_little_load_is_tracked_too() -> None:
    counts = dict.fromkeys(range(2000), 1.0)
    h = Histogram.from_counts(counts, state={**counts, 7: 500.0}, buckets=64)
    assert make_table("scan", h, 4).keys.to_pylist() == [7]
    assert make_table("scan", h, 4, resources="CCL").keys.to_pylist() == []


@pytest.mark.parametrize("big", ["a", "b"])
def test_state_decides_what_moving_costs(big: str) -> None:
    # equal loads, both on slot 0 of 2: one of the two keys must go, the one with little state
    state = {"a": 0.1, "b": 0.1, big: 10.0}
    h = Histogram.from_counts({"a": 1.0, "b": 1.0}, state=state, buckets=2)
    previous = RoutingTable.build(2, [0, 0], ["a", "b"], [0, 0])
    table = make_table("readj", h, 2, previous)
    assert table.heavy == {"a": 1, "b": 1, big: 0}


def test_the_penalties_are_those_of_equations_18_to_20() -> None:
    h = Histogram.from_counts({"a": 4, "b": 3, "c": 2, "d": 1}, buckets=8)
    old = RoutingTable.build(3, np.zeros(8, dtype=int), ["a", "b", "gone"], [0, 2, 1])
    problem = pose(h, 2, old, **{**DEFAULTS, "resources": "LQL"})
    allowed = theta(1.2, 2)
    # a, d | b, c: both linear loads are 5 | 5, so one quadratic resource alone differs, and ρ is 0
    assert problem.rho(np.array([0.0, 0.17 - 0.13]), np.array([0.5, 0.15])) == 0
    # a, c | b, d: 6 | 4 twice and 20 | 10 once, each over θ times its mean
    rho = problem.rho(np.array([0.2, 0.10]), np.array([0.5, 0.15]))
    assert rho == pytest.approx(((0.2 / (allowed * 0.5)) ** 2 * (0.10 / (allowed * 0.15))) ** (1 / 3))
    # γ: moving a costs its state over a mean slot's state, b must move in any case
    assert problem.moving()[:2] == pytest.approx(np.array([[0, 0.4 / 0.5], [0.3 / 0.5, 0.3 / 0.5]]))


def test_a_row_that_is_lost_counts_as_migration_where_the_ring_is_elsewhere() -> None:
    light = dict.fromkeys(range(1000), 1.0)
    h = Histogram.from_counts({**light, 5000: 1000.0}, buckets=64)
    ring_slot = int(ring(2, 64)[h.trimmed(2).key_buckets[1]])
    key = h.keys.to_pylist()[1]
    for slot in (ring_slot, 1 - ring_slot):
        old = RoutingTable.build(2, ring(2, 64), [key], [slot], key_type=h.key_type)
        problem = pose(h, 2, old, **DEFAULTS)
        expected = 0.0 if slot == ring_slot else 1 / ((1000 + 1) / 2)
        assert problem.sunk == pytest.approx(expected)


def test_utilities_join_balance_and_migration() -> None:
    rho, gamma = np.array(2.0), np.array(0.5)
    values = {name: float(utility(rho, gamma)) for name, utility in UTILITIES.items()}
    log, log10 = np.log(1.5), np.log10(1.5)
    expected = {"A": 2, "APM": 2.5, "APLM": 2 + log, "ATM": 3, "ATLM": 2 * (1 + log)}
    assert values == pytest.approx(expected | {"APLM10": 2 + log10, "ATLM10": 2 * (1 + log10)})


@planners
def test_any_callable_is_a_resource_function(name: str) -> None:
    h = zipf()
    square = make_table(name, h, 5, resources=("L", lambda f: f * f, "L"))
    letters = make_table(name, h, 5, resources="LQL")
    assert square.same_routes(letters)


@planners
@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("alpha", 1.0),
        ("alpha", (1.2, 1.3)),
        ("sigma", 0.0),
        ("sigma", 1.5),
        ("resources", "LX"),
        ("resources", "LXL"),
        ("utility", "B"),
        ("replicas", 0),
    ],
)
def test_bad_options_are_refused_by_name(name: str, option: str, value: Any) -> None:
    with pytest.raises(ValueError, match=option):
        make_table(name, zipf(100), 2, **{option: value})
