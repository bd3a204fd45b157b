"""Single instance allocation: the worst possible balance, as the other end of the scale."""

from __future__ import annotations

import numpy as np

from unskew.core.histogram import Histogram
from unskew.core.planners.declaration import Planner
from unskew.core.routing import RoutingTable


def plan(
    histogram: Histogram, slots: int, previous: RoutingTable | None = None, *, seed: int = 0
) -> RoutingTable:
    """Everything to slot 0: imbalance N, and nothing ever moves.

    Paper: Rivetti et al., DEBS 2015, section 5.1 ("SIA").

    >>> plan(Histogram.from_counts({"a": 1}, buckets=4), 2).buckets.tolist()
    [0, 0, 0, 0]
    """
    return RoutingTable.build(slots, np.zeros(histogram.buckets, dtype=np.int32), key_type=histogram.key_type)


PLANNER = Planner(
    "single",
    plan,
    summary="everything on one slot: the worst possible balance, as the other end of the scale",
    movement="nothing",
    paper='Rivetti et al., DEBS 2015, section 5.1 ("SIA")',
    # the worst case says nothing about the data
    compared=False,
)
