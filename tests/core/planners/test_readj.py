import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.core.listings import gedik as listing
from tests.core.planners.gedik_cases import as_case, random_problem
from unskew.core.histogram import Histogram
from unskew.core.loads import slot_loads
from unskew.core.plan import make_table
from unskew.core.routing import RoutingTable


@given(st.integers(0, 10**6), st.sampled_from([1, 2, 5]))
@example(21114, 5)  # ends perfectly even but for rounding, which is nothing to improve
@example(23554, 5)  # a swap halves one spread and doubles another, and leaves ρ as it is
def test_readj_equals_algorithm_4(seed: int, max_moves: int) -> None:
    h, slots, previous, options = random_problem(seed)
    table = make_table("readj", h, slots, previous, max_moves=max_moves, **options)
    case = as_case(h, slots, previous, table, options)
    assert table.heavy == listing.readj(case, max_moves)


@given(st.integers(0, 10**6))
def test_the_balance_penalty_never_rises_and_even_keys_stay(seed: int) -> None:
    h, slots, previous, options = random_problem(seed)
    table = make_table("readj", h, slots, previous, **options)
    again = make_table("readj", h, slots, table, **options)
    case = as_case(h, slots, table, again, options)
    assert case.rho(again.heavy) <= case.rho(table.heavy) * (1 + 1e-9)  # type: ignore[arg-type]


def test_a_balanced_placement_stays() -> None:
    h = Histogram.from_counts({"a": 5, "b": 4, "c": 3, "d": 2}, buckets=4)
    previous = RoutingTable.build(2, [0] * 4, list("abcd"), [1, 0, 0, 1])
    assert make_table("readj", h, 2, previous).heavy == previous.heavy


def test_keys_of_a_removed_slot_start_from_the_ring() -> None:
    # one heavy key alone cannot be balanced any better by moving it
    h = Histogram.from_counts({"a": 5}, buckets=4)
    previous = RoutingTable.build(4, [0, 1, 2, 3], ["a"], [3])
    expected = make_table("ring", h, 2).slot_of(["a"])[0]
    assert make_table("readj", h, 2, previous).heavy == {"a": expected}


def test_rounding_is_not_taken_for_imbalance() -> None:
    # thirty times a tenth on each of three slots adds up differently by the order alone
    h = Histogram.from_counts(dict.fromkeys(range(90), 0.1), buckets=64)
    previous = RoutingTable.build(3, np.zeros(64, dtype=int), np.arange(90), np.arange(90) % 3)
    assert make_table("readj", h, 3, previous).heavy == previous.heavy


def test_two_nearly_equal_lowest_slots_do_not_end_the_search() -> None:
    # no swap can lift both lowest slots at once; lifting one slightly, to the other, opens the way
    h = Histogram.from_counts(dict(enumerate([50, 20.000002, 20, 9, 8, 7, 6, 5])), buckets=64)
    previous = RoutingTable.build(4, np.zeros(64, dtype=int), np.arange(8), [0, 1, 2, 3, 3, 3, 3, 3])
    table = make_table("readj", h, 4, previous)
    loads = slot_loads(table, h)
    assert loads.max() == 50
    assert loads.min() > 22


def test_a_swap_finds_what_no_move_can() -> None:
    # 5 + 4 | 3 + 2: any single move makes it worse, swapping 5 and 3, or 4 and 2, or 4 and 3 ... evens it
    h = Histogram.from_counts({"a": 5, "b": 4, "c": 3, "d": 2}, buckets=4)
    previous = RoutingTable.build(2, [0] * 4, list("abcd"), [0, 0, 1, 1])
    after = make_table("readj", h, 2, previous).heavy
    load = np.bincount([after[k] for k in "abcd"], [5, 4, 3, 2])
    assert load.tolist() == [7, 7]


def test_max_moves_may_be_fewer_than_needed() -> None:
    h = Histogram.from_counts({k: 1.0 / (k + 1) for k in range(30)}, buckets=64)
    previous = RoutingTable.build(6, np.zeros(64, dtype=int), np.arange(30), np.zeros(30, dtype=int))
    once = make_table("readj", h, 6, previous, max_moves=1)
    often = make_table("readj", h, 6, previous)
    assert not once.same_routes(often)


@pytest.mark.parametrize("max_moves", [0, -1, 1.5, True])
def test_a_bad_max_moves_is_refused(max_moves: object) -> None:
    h = Histogram.from_counts({"a": 1}, buckets=4)
    with pytest.raises(ValueError, match="max_moves"):
        make_table("readj", h, 2, max_moves=max_moves)
