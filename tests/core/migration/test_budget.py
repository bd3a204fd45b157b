"""A budget limits what moves in one batch, and repeated steps still reach the goal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.table_cases import entries_moved, histograms, tables
from unskew.core.histogram import Histogram
from unskew.core.migration.budget import Budget
from unskew.core.routing import RoutingTable

whole = tables(split=False)
budgets = st.one_of(
    st.integers(1, 4).map(Budget.fluid), st.floats(0.01, 1).map(Budget.batched), st.just(Budget.sudden())
)


@given(whole, whole, st.none() | histograms(), budgets)
def test_steps_end_at_the_goal_and_each_makes_progress(
    table: RoutingTable, goal: RoutingTable, histogram: Histogram | None, budget: Budget
) -> None:
    left = entries_moved(table, goal)
    for _ in range(left + 1):
        step = budget.step(table, goal, histogram)
        if left:
            assert entries_moved(step, goal) < left
        if budget.entries is not None:
            assert entries_moved(table, step) <= budget.entries
        for place, a, b in zip(step.buckets, table.buckets, goal.buckets, strict=True):
            assert place in (a, b)
        table, left = step, entries_moved(step, goal)
        if step is goal:
            break
    assert table.same_routes(goal)


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [({"share": 0.0}, "share"), ({"share": 1.5}, "share"), ({"entries": 0}, "entries")],
)
def test_budgets_that_move_nothing_are_refused(wrong: dict[str, float], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        Budget(**wrong)  # type: ignore[arg-type]
