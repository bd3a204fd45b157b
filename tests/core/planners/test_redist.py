from hypothesis import given
from hypothesis import strategies as st

from tests.core.listings import gedik as listing
from tests.core.planners.gedik_cases import as_case, random_problem
from unskew.core.histogram import Histogram
from unskew.core.plan import make_table
from unskew.core.routing import RoutingTable


@given(st.integers(0, 10**6))
def test_redist_equals_algorithm_3(seed: int) -> None:
    h, slots, previous, options = random_problem(seed)
    table = make_table("redist", h, slots, previous, **options)
    assert table.heavy == listing.redist(as_case(h, slots, previous, table, options))


def test_a_lighter_key_goes_first_where_it_fits_much_better() -> None:
    # after 4 | 3 the key of 1 evens the loads at once, so it goes before the key of 2; scan would not do that
    h = Histogram.from_counts({"a": 4, "b": 3, "c": 2, "d": 1}, buckets=4)
    assert make_table("redist", h, 2).heavy == {"a": 0, "b": 1, "d": 1, "c": 0}
    assert make_table("scan", h, 2).heavy == {"a": 0, "b": 1, "c": 1, "d": 0}


def test_equal_keys_stay_where_they_are_if_that_is_even() -> None:
    h = Histogram.from_counts(dict.fromkeys("abcd", 1), buckets=4)
    previous = RoutingTable.build(4, [0, 1, 2, 3], list("abcd"), [3, 1, 0, 2])
    assert make_table("redist", h, 4, previous).heavy == previous.heavy


def test_equal_keys_fill_the_lowest_slots_first() -> None:
    h = Histogram.from_counts(dict.fromkeys("abcd", 1), buckets=4)
    placed = make_table("redist", h, 4).heavy
    by_rank = [placed[key] for key in h.keys.to_pylist()]
    assert by_rank == [0, 1, 2, 3]
