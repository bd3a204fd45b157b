"""Locality for a single operator: there is nothing to be near to, so only balance remains."""

from __future__ import annotations

from unskew.core.histogram import Histogram
from unskew.core.planners import keel
from unskew.core.planners.declaration import Planner
from unskew.core.routing import RoutingTable


def plan(
    histogram: Histogram,
    slots: int,
    previous: RoutingTable | None = None,
    *,
    seed: int = 0,
    target: float = 0.01,
    budget: float | None = None,
) -> RoutingTable:
    """The table of `keel`: correlated keys can share a server only where there are two operators or more.

    Locality is a property of chained operators: `plan_chain_tables` in `unskew.core.chains.locality` takes the
    histograms of all operators and the pairs of keys between them, and makes their tables together. Under this name
    a single operator gets the balance and the movement of `keel`, whose options these are. So code that takes the name
    of a planner needs no special case.

    Paper: Caneill et al., "Locality-aware routing in stateful streaming applications", section 3.3.

    >>> h = Histogram.from_counts({"a": 50, "b": 30, "c": 20}, buckets=16)
    >>> plan(h, 2).same_routes(keel.plan(h, 2))
    True
    """
    return keel.plan(histogram, slots, previous, seed=seed, target=target, budget=budget)


PLANNER = Planner(
    "locality",
    plan,
    summary="chained operators: correlated keys on one server; a single operator is planned as by `keel`",
    movement="state moves only where the locality gained is worth it",
    paper='Caneill et al., "Locality-aware routing in stateful streaming applications", section 3.3',
    # a diagnosis judges one operator, for which this is `keel`
    compared=False,
)
