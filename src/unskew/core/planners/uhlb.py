"""UHLB of Guo and Zhou: a 2-universal hash of the buckets, drawn again at each planning."""

from __future__ import annotations

from unskew.core.histogram import Histogram
from unskew.core.planners.declaration import Planner
from unskew.core.planners.parts.universal_hash import bucket_numbers, draw
from unskew.core.routing import RoutingTable


def plan(
    histogram: Histogram, slots: int, previous: RoutingTable | None = None, *, seed: int = 0
) -> RoutingTable:
    """Every bucket to a slot by a fresh 2-universal function, decided by `seed` and the previous version.

    The paper does not say what UHLB moves. Our choice: each planning replaces the whole function and keeps nothing
    in place, so about 1 − 1/N of all state moves. That is the price of a balancer that only rolls the dice again;
    `universal` keeps its function. Blind to load.
    Paper: Guo and Zhou, "Stateful Load Balancing for Parallel Stream Processing", section 5.

    >>> h = Histogram.from_counts({"a": 1}, buckets=64)
    >>> first = plan(h, 4)
    >>> plan(h, 4, first).same_routes(first), plan(h, 4, first).same_routes(plan(h, 4, first))
    (False, True)
    """
    round_number = 0 if previous is None else previous.version + 1
    chosen = draw(slots, seed, round_number)(bucket_numbers(histogram.buckets))
    return RoutingTable.build(slots, chosen, key_type=histogram.key_type)


PLANNER = Planner(
    "uhlb",
    plan,
    summary="a 2-universal hash of the buckets, drawn again at each planning",
    movement="about 1 − 1/N of all state, at each planning",
    paper='Guo and Zhou, "Stateful Load Balancing for Parallel Stream Processing", section 5',
)
