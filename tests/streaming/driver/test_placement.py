"""A placement refuses what could only fail later, in the middle of a query."""

from __future__ import annotations

from typing import Any

import pytest

import unskew


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"budget": None}, "budget is an unskew.Budget, not None"),
        ({"budget": 0.1}, "budget is an unskew.Budget, not 0.1"),
        ({"scaling": "elastic"}, "scaling is a rule such as unskew.LoadRange"),
        ({"options": ["target"]}, "options are the planner's, by name"),
    ],
)
def test_what_does_not_fit_is_refused_at_once(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        unskew.Placement(**options)


@pytest.mark.parametrize("entries", [0, 2.5, True])
def test_a_budget_counts_whole_entries(entries: Any) -> None:
    with pytest.raises(ValueError, match="entries is a whole number of at least 1"):
        unskew.Budget(entries=entries)
