"""Scan: place the tracked keys one after another, heaviest first, each on its best slot."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from unskew.core.histogram import Histogram
from unskew.core.planners.declaration import Planner
from unskew.core.planners.parts.gedik import Problem, first_of_least, pose, spreads_after_adding
from unskew.core.planners.parts.resources import Resource
from unskew.core.planners.ring import REPLICAS
from unskew.core.routing import RoutingTable


def plan(
    histogram: Histogram,
    slots: int,
    previous: RoutingTable | None = None,
    *,
    seed: int = 0,
    alpha: float | Sequence[float] = 1.2,
    sigma: float = 0.1,
    resources: str | Sequence[str | Resource] = "LCL",
    utility: str = "APM",
    replicas: int = REPLICAS,
) -> RoutingTable:
    """Every key above δ to the slot with the best utility when its turn comes; all others to a consistent ring.

    Untracked keys move only to or from slots that are added or removed, or when they gain or lose their row;
    tracked keys move where the gain in balance is worth it. O(R · N) for R tracked keys. The lowest slot wins a tie.

    Options of all of Gedik's planners:
    `alpha`: tolerated max/min load, one figure, or one each for memory, computation and communication.
    `sigma`: the part of the tolerated imbalance left to untracked keys; a lower one tracks more keys.
    `resources`: how memory, computation and communication grow with a key's frequency: letters C(onstant),
    L(inear), Q(uadratic), or callables. Constant ones are not balanced.
    `utility`: A (balance alone), APM (ρ + γ), APLM (ρ + log(1 + γ)), ATM (ρ(1 + γ)) or ATLM
    (ρ(1 + log(1 + γ))); APLM10 and ATLM10 have the logarithm to base 10, which the paper leaves open.
    `replicas`: points of each slot on the ring.

    Gedik, "Partitioning functions for stateful data parallelism in stream processing", section 4.2.2,
    Algorithm 2.

    >>> h = Histogram.from_counts({"a": 4, "b": 3, "c": 2, "d": 1})
    >>> plan(h, 2).heavy == {"a": 0, "b": 1, "c": 1, "d": 0}
    True
    """
    problem = pose(
        histogram,
        slots,
        previous,
        seed=seed,
        alpha=alpha,
        sigma=sigma,
        resources=resources,
        utility=utility,
        replicas=replicas,
    )
    return problem.table(_place(problem))


def _place(problem: Problem) -> NDArray[np.int64]:
    use, moving = problem.use, problem.moving()
    loads = np.zeros((len(use), problem.slots))
    # the mean load once an item and all before it are placed
    means = np.cumsum(use, axis=1) / problem.slots
    gamma = problem.sunk
    placement = np.zeros(len(problem), dtype=np.int64)
    for item in range(len(problem)):
        added = use[:, item : item + 1]
        rho = problem.rho(spreads_after_adding(loads, added)[:, 0], means[:, item : item + 1])
        slot = first_of_least(problem.utility(rho, moving[item] + gamma))
        placement[item] = slot
        gamma += moving[item, slot]
        loads[:, slot] += added[:, 0]
    return placement


PLANNER = Planner(
    "scan",
    plan,
    summary="tracked keys one after another, heaviest first, each to its best slot; the rest on a ring",
    movement="weighed against balance by the utility function",
    paper=(
        'Gedik, "Partitioning functions for stateful data parallelism in stream processing", '
        "section 4.2.2, algorithm 2"
    ),
)
