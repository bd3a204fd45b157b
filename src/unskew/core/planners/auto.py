"""Auto: look at the histogram, choose a planner and its options, and say why."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from unskew.core.histogram import Histogram
from unskew.core.loads import imbalance, lower_bound, slot_loads
from unskew.core.planners import hash as plain_hash
from unskew.core.planners import keel
from unskew.core.routing import RoutingTable

STEP_ASIDE = 0.02
"""Plain hashing within 2 % of the bound (and what a sample cannot tell) is left alone: there is no more to gain."""


@dataclass(frozen=True)
class Choice:
    """The planner that was chosen, with which options, and the reason in one sentence."""

    planner: str
    reason: str
    options: dict[str, Any] = field(default_factory=dict)


def plan(
    histogram: Histogram,
    slots: int,
    previous: RoutingTable | None = None,
    *,
    seed: int = 0,
    target: float = 0.01,
    budget: float | None = None,
) -> RoutingTable:
    """The table of the planner that `choose` names.

    >>> h = Histogram.from_counts({k: 1 for k in range(4096)}, buckets=64)
    >>> len(plan(h, 2).hashes)
    0
    """
    choice = choose(histogram, slots, previous, target=target, budget=budget)
    if choice.planner == "hash":
        return plain_hash.plan(histogram, slots, previous, seed=seed)
    return keel.plan(histogram, slots, previous, seed=seed, **choice.options)


def choose(
    histogram: Histogram,
    slots: int,
    previous: RoutingTable | None = None,
    *,
    target: float = 0.01,
    budget: float | None = None,
) -> Choice:
    """Plain hashing where skew does not matter, else `keel`, with the figures that decided.

    Hashing is chosen only when it is also what runs now (or nothing runs yet): going back to it from
    another table would move nearly all state for nothing.

    >>> choose(Histogram.from_counts({"a": 90, "b": 5, "c": 5}, buckets=16), 3).planner
    'keel'
    """
    hashed = RoutingTable.hashed(slots, histogram.buckets, histogram.key_type)
    bound = lower_bound(histogram, slots)
    by_hash = imbalance(slot_loads(hashed, histogram))
    # of many slots that are alike the fullest one in a sample is about three standard errors above the mean
    within = STEP_ASIDE + 3 * histogram.sampling_error(slots)
    if (previous is None or previous.same_routes(hashed)) and by_hash <= bound * (1 + within):
        return Choice("hash", f"hashing gives {by_hash:.3f}, within {within:.1%} of the bound {bound:.3f}")
    options: dict[str, Any] = {"target": target, "budget": budget}
    if previous is not None and previous.slots == slots:
        now = imbalance(slot_loads(previous, histogram))
        return Choice("keel", f"the present table gives {now:.3f} where {bound:.3f} is possible", options)
    return Choice("keel", f"hashing gives {by_hash:.3f} where {bound:.3f} is possible", options)
