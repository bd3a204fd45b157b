import numpy as np
import pytest

from research import measures
from unskew.core.histogram import Histogram
from unskew.core.planners.parts.resources import constant, linear, quadratic
from unskew.core.routing import RoutingTable

# Figure 1 of Gedik's paper: eight keys, and its first table for two channels
TOY = {"X": 5, "Z": 3, "V": 2, "R": 1, "U": 4, "Y": 3, "W": 3, "L": 1}
TOY_TABLE = {"X": 0, "Z": 0, "V": 0, "R": 0, "U": 1, "Y": 1, "W": 1, "L": 1}


def table_of(places: dict[str, int], slots: int, buckets: int = 8) -> RoutingTable:
    return RoutingTable.build(slots, np.arange(buckets) % slots, list(places), list(places.values()))


@pytest.fixture
def toy() -> Histogram:
    return Histogram.from_counts(TOY, buckets=8)


def test_loads_of_the_toy_example_are_those_of_figure_1(toy: Histogram) -> None:
    table = table_of(TOY_TABLE, 2)
    assert measures.resource_loads(table, toy, linear) * 22 == pytest.approx([11, 11])
    assert measures.resource_loads(table, toy, quadratic) * 22**2 == pytest.approx([39, 35])
    assert measures.resource_loads(table, toy, constant) == pytest.approx([4, 4])
    balance = measures.relative_imbalance(table, toy, "LQL", alpha=(1.5, 1.1, 1.2))
    assert balance.r == pytest.approx((1, 39 / 35, 1))
    assert balance.per_resource == pytest.approx((1 / 1.5, 39 / 35 / 1.1, 1 / 1.2))
    assert balance.overall == pytest.approx((39 / 35 / (1.5 * 1.1 * 1.2)) ** (1 / 3))


def test_moving_u_and_y_of_the_toy_example_costs_7_of_22(toy: Histogram) -> None:
    old, new = table_of(TOY_TABLE, 2), table_of({**TOY_TABLE, "U": 2, "Y": 2}, 3)
    assert measures.relative_migration(old, new, toy) == pytest.approx(7 / (22 / 3))
    assert measures.relative_migration(old, new, toy, "C") == pytest.approx(2 / (8 / 3))
    # the new N counts, also when it is the smaller one
    assert measures.relative_migration(new, old, toy) == pytest.approx(7 / (22 / 2))


def test_memory_is_measured_by_the_state_and_the_rest_by_the_load() -> None:
    h = Histogram.from_counts({"a": 1, "b": 1}, weights={"a": 3, "b": 1}, state={"a": 1, "b": 9}, buckets=2)
    balance = measures.relative_imbalance(table_of({"a": 0, "b": 1}, 2, buckets=2), h, "LLL", alpha=2)
    assert balance.r == pytest.approx((9, 3, 3))


def test_keys_that_are_not_tracked_count_as_their_buckets_mean_key() -> None:
    counts = {f"k{i}": 4.0 for i in range(50)}
    whole = Histogram.from_counts(counts, buckets=8)
    table = RoutingTable.hashed(4, 8)
    for resource in (constant, linear, quadratic, np.sqrt):
        expected = measures.resource_loads(table, whole, resource)
        assert measures.resource_loads(table, whole.trimmed(7), resource) == pytest.approx(expected)


def test_an_unused_slot_makes_the_ratio_infinite() -> None:
    assert measures.max_over_min(np.array([1.0, 0.0])) == float("inf")
    assert measures.max_over_min(np.zeros(3)) == 1.0


def test_percentage_of_imbalance_of_a_single_used_instance_is_900_for_ten() -> None:
    assert measures.percentage_of_imbalance(np.array([5.0, *[0.0] * 9])) == pytest.approx(900)


def test_the_deviation_is_that_of_the_population() -> None:
    assert measures.load_deviation(np.array([1.0, 3.0])) == 1.0
