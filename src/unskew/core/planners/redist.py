"""Redist: place the tracked keys from scratch, at each step the key whose best place is best for its load."""

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
    """The pair of unplaced key and slot with the best utility per frequency, again and again until all are placed.

    Like `scan`, which has the same options, but a lighter key may be placed before a heavier one if it fits much
    better; this usually moves less. O(R² · N) for R tracked keys. Among equals the more frequent key goes first,
    and to the lowest slot.

    Gedik, "Partitioning functions for stateful data parallelism in stream processing", section 4.2.3,
    Algorithm 3.

    >>> h = Histogram.from_counts({"a": 4, "b": 3, "c": 2, "d": 1})
    >>> plan(h, 2).heavy == {"a": 0, "b": 1, "d": 1, "c": 0}
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
    left = len(problem)
    # the first `left` rows of each are the unplaced items, still by falling frequency
    items = np.arange(left)
    use, moving, volume = problem.use.copy(), problem.moving(), problem.f[:, None].copy()
    loads = np.zeros((len(use), problem.slots))
    gamma = problem.sunk
    placement = np.zeros(left, dtype=np.int64)
    while left:
        candidates = use[:, :left]
        means = (loads.sum(axis=1)[:, None] + candidates) / problem.slots
        rho = problem.rho(spreads_after_adding(loads, candidates), means[:, :, None])
        utility = problem.utility(rho, moving[:left] + gamma)
        best, slot = divmod(first_of_least(utility / volume[:left]), problem.slots)
        placement[items[best]] = slot
        gamma += moving[best, slot]
        loads[:, slot] += use[:, best]
        left -= 1
        for rows in (items, moving, volume, use.T):
            rows[best:left] = rows[best + 1 : left + 1]
    return placement


PLANNER = Planner(
    "redist",
    plan,
    summary="tracked keys placed from scratch, at each step the best-fitting key for its load; the rest on a ring",
    movement="weighed against balance by the utility function",
    paper=(
        'Gedik, "Partitioning functions for stateful data parallelism in stream processing", '
        "section 4.2.3, algorithm 3"
    ),
    # its time grows with the square of its rows: 4 s with 256 slots, a minute with 512
    max_slots=256,
)
