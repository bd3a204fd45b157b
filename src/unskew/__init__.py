"""Measured, explicit key placement for skewed Apache Spark jobs and streams.

This module is the whole public API; a user never imports a deeper one.

>>> import unskew
>>> h = unskew.Histogram.from_counts({"a": 10, "b": 3, "c": 3}, buckets=256)
>>> unskew.plan(h, slots=2)
Plan(auto, 2 slots, 3 heavy keys, imbalance 1.250, bound 1.250)
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from unskew.core.histogram import Histogram, History
from unskew.core.planners import NAMES as _PLANNERS
from unskew.core.planning import Plan
from unskew.core.policy import Costs, Decision, Policy
from unskew.core.routing import RoutingTable

__version__ = "0.1.0"

__all__ = [
    "Costs",
    "Decision",
    "Histogram",
    "History",
    "Plan",
    "Policy",
    "RoutingTable",
    "load",
    "plan",
    "planners",
]


def plan(
    histogram: Histogram,
    slots: int,
    planner: str = "auto",
    previous: Plan | RoutingTable | None = None,
    *,
    seed: int = 0,
    **options: Any,
) -> Plan:
    """Plan a routing table for `slots` slots from what was measured.

    `planner` is one of `planners()`; `previous` is the plan or table now in force, from which as little as
    the planner can is moved; `options` are the planner's own (see its docstring).
    """
    return Plan.make(histogram, slots, planner, previous, seed=seed, **options)


def load(path: str | Path) -> Plan:
    """Read a plan that `Plan.save` wrote; a damaged or newer file is refused by name."""
    return Plan.load(path)


def planners() -> tuple[str, ...]:
    """The names of all planners."""
    return _PLANNERS
