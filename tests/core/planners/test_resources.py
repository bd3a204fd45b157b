import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unskew.core.histogram import Histogram
from unskew.core.planners.parts import resources as m
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
    assert m.resource_loads(table, toy, m.linear) * 22 == pytest.approx([11, 11])
    assert m.resource_loads(table, toy, m.quadratic) * 22**2 == pytest.approx([39, 35])
    assert m.resource_loads(table, toy, m.constant) == pytest.approx([4, 4])
    found = m.relative_imbalance(table, toy, "LQL", alpha=(1.5, 1.1, 1.2))
    assert found.r == pytest.approx((1, 39 / 35, 1))
    assert found.per_resource == pytest.approx((1 / 1.5, 39 / 35 / 1.1, 1 / 1.2))
    assert found.overall == pytest.approx((39 / 35 / (1.5 * 1.1 * 1.2)) ** (1 / 3))


def test_moving_u_and_y_of_the_toy_example_costs_7(toy: Histogram) -> None:
    old, new = table_of(TOY_TABLE, 2), table_of({**TOY_TABLE, "U": 2, "Y": 2}, 3)
    assert m.state_moved(old, new, toy) == 7
    assert m.share_of_state_moved(old, new, toy) == pytest.approx(7 / 22)
    assert m.relative_migration(old, new, toy) == pytest.approx(7 / (22 / 3))
    assert m.relative_migration(old, new, toy, "C") == pytest.approx(2 / (8 / 3))
    # the new N counts, also when it is the smaller one
    assert m.relative_migration(new, old, toy) == pytest.approx(7 / (22 / 2))


def test_memory_is_measured_by_the_state_and_the_rest_by_the_load() -> None:
    h = Histogram.from_counts({"a": 1, "b": 1}, weights={"a": 3, "b": 1}, state={"a": 1, "b": 9}, buckets=2)
    found = m.relative_imbalance(table_of({"a": 0, "b": 1}, 2, buckets=2), h, "LLL", alpha=2)
    assert found.r == pytest.approx((9, 3, 3))


def test_keys_that_are_not_tracked_count_as_their_buckets_mean_key() -> None:
    counts = {f"k{i}": 4.0 for i in range(50)}
    whole = Histogram.from_counts(counts, buckets=8)
    table = RoutingTable.hashed(4, 8)
    for resource in (m.constant, m.linear, m.quadratic, np.sqrt):
        expected = m.resource_loads(table, whole, resource)
        assert m.resource_loads(table, whole.trimmed(7), resource) == pytest.approx(expected)


def test_an_unused_slot_makes_the_ratio_infinite() -> None:
    assert m.max_over_min(np.array([1.0, 0.0])) == float("inf")
    assert m.max_over_min(np.zeros(3)) == 1.0


def test_the_objective_is_imbalance_times_one_plus_migration() -> None:
    assert m.objective(1.5, 0.2) == pytest.approx(1.8)


@given(alpha=st.floats(1.01, 4), slots=st.integers(2, 100))
def test_theta_is_how_far_one_slot_can_be_from_the_mean_within_alpha(alpha: float, slots: int) -> None:
    worst = np.array([alpha, *[1.0] * (slots - 1)])
    assert m.theta(alpha, slots) == pytest.approx(worst.max() / worst.mean() - 1)


def test_thresholds_follow_equation_17() -> None:
    f = np.array([0.5, 0.2, 0.1])
    none = m.deltas(m.as_resources("CCL"), [f] * 3, 1000, 10, (1.2,) * 3, 0.1)
    assert none == pytest.approx((1.0, 1.0, 0.1 * m.theta(1.2, 10) / 10))


def test_the_quadratic_threshold_is_raised_with_the_predicted_mean_load() -> None:
    f, distinct, slots, sigma = np.array([0.5, 0.2, 0.1, 1e-6]), 1000.0, 10, 0.1
    first = np.sqrt(sigma * m.theta(1.2, slots) / (distinct * slots))
    assert f[2] > first > f[3]  # the last one is not collected
    mean = (0.25 + 0.04 + 0.01 + 997 * (0.2 / 997) ** 2) / slots
    found = m.deltas(m.as_resources("CQC"), [f] * 3, distinct, slots, (1.2,) * 3, sigma)[1]
    assert found == pytest.approx(np.sqrt(sigma * m.theta(1.2, slots) * mean))
    assert found > first


@pytest.mark.parametrize("resource", [np.sqrt, lambda f: f**1.5, lambda f: f * np.log1p(1e6 * f)])
def test_the_threshold_of_any_function_solves_equation_16(resource: m.Resource) -> None:
    f = 1 / np.arange(1, 101)
    f /= f.sum()
    delta = m.deltas((resource, m.constant, m.constant), [f] * 3, 100, 5, (1.5, 1.2, 1.2), 0.2)[0]
    allowed = 0.2 * m.theta(1.5, 5) * resource(f).sum() / 5
    assert resource(np.array(delta)) == pytest.approx(allowed)


def test_a_function_that_always_fits_needs_no_rows_and_one_that_never_fits_needs_all() -> None:
    many, few = np.full(1000, 1e-3), np.array([0.5, 0.5])
    loose = (lambda f: 1.0 + 0.0 * f, m.constant, m.constant)
    assert m.deltas(loose, [many] * 3, 1000, 2, (1.2,) * 3, 0.1)[0] == 1.0
    assert m.deltas(loose, [few] * 3, 2, 2, (1.2,) * 3, 0.1)[0] == 0.0


def test_the_papers_default_tracks_about_forty_keys_for_all_resources() -> None:
    f = 1 / np.arange(1, 10**6 + 1)
    f /= f.sum()
    tracked = {
        letters: int((f >= min(m.deltas(m.as_resources(letters), [f] * 3, 10**6, 10, (1.2,) * 3, 0.1))).sum())
        for letters in ("LCL", "LLL", "LQL")
    }
    assert set(tracked.values()) == {39}


def test_percentage_of_imbalance_of_a_single_used_instance_is_900_for_ten() -> None:
    assert m.percentage_of_imbalance(np.array([5.0, *[0.0] * 9])) == pytest.approx(900)


def test_deviation_and_variance_are_those_of_the_population() -> None:
    loads = np.array([1.0, 3.0])
    assert (m.load_deviation(loads), m.load_variance(loads)) == (1.0, 1.0)


def test_a_key_above_the_mean_is_not_counted_against_the_table() -> None:
    assert m.imbalance_over_bound(np.array([8.0, 1.0, 0.0]), heaviest=8.0) == 1.0
    assert m.imbalance_over_bound(np.array([4.0, 1.0, 1.0]), heaviest=1.0) == 2.0
    assert m.imbalance_over_bound(np.zeros(2), heaviest=0.0) == 1.0


def test_locality_is_the_weighted_share_of_pairs_on_one_slot() -> None:
    assert m.locality([0, 1, 2, 3], [0, 1, 0, 0]) == 0.5
    assert m.locality([0, 1], [0, 0], weights=[3, 1]) == 0.75
    assert m.locality([], []) == 1.0


@pytest.mark.parametrize("resources", ["LL", "LXL", "lcl", ("L", "C")])
def test_unknown_resource_functions_are_refused(resources: object) -> None:
    with pytest.raises(ValueError, match="resource"):
        m.as_resources(resources)  # type: ignore[arg-type]


@pytest.mark.parametrize("alpha", [1.0, 0.5, float("nan"), (1.2, 1.2)])
def test_a_tolerance_that_tolerates_nothing_is_refused(alpha: object) -> None:
    with pytest.raises(ValueError, match="alpha"):
        m.as_tolerances(alpha)  # type: ignore[arg-type]


def test_a_resource_function_must_give_finite_figures() -> None:
    h = Histogram.from_counts({"a": 1}, buckets=2)
    with pytest.raises(ValueError, match="finite"):
        m.resource_loads(RoutingTable.hashed(2, 2), h, lambda f: -f)
