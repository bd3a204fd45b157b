from hypothesis import given
from hypothesis import strategies as st

from tests.core.listings import gedik as listing
from tests.core.planners.gedik_cases import as_case, random_problem
from unskew.core.histogram import Histogram
from unskew.core.plan import make_table
from unskew.core.routing import RoutingTable


@given(st.integers(0, 10**6))
def test_scan_equals_algorithm_2(seed: int) -> None:
    h, slots, previous, options = random_problem(seed)
    table = make_table("scan", h, slots, previous, **options)
    assert table.heavy == listing.scan(as_case(h, slots, previous, table, options))


def test_without_a_previous_table_scan_is_longest_first() -> None:
    h = Histogram.from_counts({"a": 5, "b": 4, "c": 3, "d": 3, "e": 2}, buckets=4)
    assert make_table("scan", h, 2).heavy == {"a": 0, "b": 1, "c": 1, "d": 0, "e": 1}


def test_equal_keys_stay_where_they_are_if_that_is_even() -> None:
    h = Histogram.from_counts(dict.fromkeys("abcd", 1), buckets=4)
    previous = RoutingTable.build(4, [0, 1, 2, 3], list("abcd"), [3, 1, 0, 2])
    assert make_table("scan", h, 4, previous).heavy == previous.heavy


def test_balance_alone_forgets_where_keys_were() -> None:
    h = Histogram.from_counts({"a": 5, "b": 4, "c": 3, "d": 3}, buckets=4)
    previous = RoutingTable.build(2, [0] * 4, list("abcd"), [1, 0, 0, 1])
    assert make_table("scan", h, 2, previous, utility="A").same_routes(make_table("scan", h, 2, utility="A"))
    assert make_table("scan", h, 2, previous).heavy == previous.heavy
