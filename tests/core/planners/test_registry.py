"""What every planner declares is true, whichever planner is added."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

import unskew
from unskew.core.histogram import Histogram
from unskew.core.plan import make_table
from unskew.core.planners import PLANNERS, Planner, UnsuitablePlannerError, planner_named

SKEWED = Histogram.from_counts({f"k{i}": 100 // (i + 1) for i in range(60)}, buckets=64)

declared = pytest.mark.parametrize("declaration", PLANNERS.values(), ids=PLANNERS)


def options_for(declaration: Planner, histogram: Histogram) -> dict[str, object]:
    return declaration.context_options(cores=2, windows=[histogram])


def test_the_names_are_listed_in_the_order_of_the_registry() -> None:
    names = "hash modulo universal single ring scan redist readj dkg dkg-wosim oracle pkg dkg-pkg"
    later = "wrap-around elb clb uhlb kip keel locality auto"
    assert unskew.planners() == (*names.split(), *later.split())


@declared
def test_the_declaration_agrees_with_the_function(declaration: Planner) -> None:
    assert planner_named(declaration.name) is declaration
    assert declaration.uses_cores == ("cores" in declaration.options)
    assert declaration.uses_windows == ("windows" in declaration.options)
    assert declaration.plan.__doc__


@declared
def test_it_splits_keys_only_if_it_declares_so(declaration: Planner) -> None:
    table = make_table(declaration.name, SKEWED, 8, **options_for(declaration, SKEWED))
    assert table.is_split == declaration.splits


@declared
def test_the_declared_texts_fit_a_row_of_a_table(declaration: Planner) -> None:
    texts = (declaration.summary, declaration.movement, declaration.paper)
    assert not any("\n" in text or "|" in text or text.endswith(".") for text in texts)
    assert declaration.summary
    assert declaration.movement


@declared
@pytest.mark.parametrize("buckets", [1, 2, 3, 16])
def test_any_number_of_slots_is_served_or_refused_as_unsuitable(declaration: Planner, buckets: int) -> None:
    weights = np.random.default_rng(buckets).zipf(1.5, 40) % 1000 + 1
    histogram = Histogram.from_counts(dict(enumerate(weights.tolist())), buckets=buckets)
    for slots in range(1, buckets + 1):
        with contextlib.suppress(UnsuitablePlannerError):
            make_table(declaration.name, histogram, slots, **options_for(declaration, histogram))


def test_a_planner_gets_only_the_context_that_it_uses() -> None:
    windows = [SKEWED, SKEWED, SKEWED]
    assert planner_named("hash").context_options(cores=4, windows=windows) == {}
    assert planner_named("keel").context_options(cores=4, windows=windows) == {"cores": 4}
    assert planner_named("clb").context_options(cores=4, windows=windows) == {"windows": windows}
    assert planner_named("clb").context_options(windows=windows[:1]) == {"windows": windows[:2]}
    assert planner_named("keel").context_options() == planner_named("clb").context_options() == {}


def test_a_planner_without_an_explanation_gives_no_reason() -> None:
    assert planner_named("keel").run(SKEWED, 2)[1] == ""
    assert "where" in planner_named("auto").run(SKEWED, 2, cores=2)[1]
