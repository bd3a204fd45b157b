import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unskew.core.planners.parts import resources as m


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
    # the last key is not collected
    assert f[2] > first > f[3]
    mean = (0.25 + 0.04 + 0.01 + 997 * (0.2 / 997) ** 2) / slots
    delta = m.deltas(m.as_resources("CQC"), [f] * 3, distinct, slots, (1.2,) * 3, sigma)[1]
    assert delta == pytest.approx(np.sqrt(sigma * m.theta(1.2, slots) * mean))
    assert delta > first


@pytest.mark.parametrize("resource", [np.sqrt, lambda f: f**1.5, lambda f: f * np.log1p(1e6 * f)])
def test_the_threshold_of_any_function_solves_equation_16(resource: m.Resource) -> None:
    f = 1 / np.arange(1, 101)
    f /= f.sum()
    delta = m.deltas((resource, m.constant, m.constant), [f] * 3, 100, 5, (1.5, 1.2, 1.2), 0.2)[0]
    allowed = 0.2 * m.theta(1.5, 5) * resource(f).sum() / 5
    assert resource(np.array(delta)) == pytest.approx(allowed)


def test_a_function_that_always_fits_needs_no_rows_and_a_function_that_never_fits_needs_all() -> None:
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


@pytest.mark.parametrize("resources", ["LL", "LXL", "lcl", ("L", "C")])
def test_unknown_resource_functions_are_refused(resources: object) -> None:
    with pytest.raises(ValueError, match="resource"):
        m.as_resources(resources)  # type: ignore[arg-type]


@pytest.mark.parametrize("alpha", [1.0, 0.5, float("nan"), (1.2, 1.2)])
def test_a_tolerance_that_tolerates_nothing_is_refused(alpha: object) -> None:
    with pytest.raises(ValueError, match="alpha"):
        m.as_tolerances(alpha)  # type: ignore[arg-type]


@pytest.mark.parametrize("figure", [-1.0, np.nan, np.inf])
def test_a_resource_function_must_return_finite_figures(figure: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        m.amounts(lambda f: 0.0 * f + figure, np.array([0.5]))
