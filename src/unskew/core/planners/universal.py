"""A 2-universal hash of the buckets: the baseline with a provable chance of collision."""

from __future__ import annotations

from unskew.core.histogram import Histogram
from unskew.core.planners.declaration import Planner
from unskew.core.planners.parts.universal_hash import bucket_numbers, draw
from unskew.core.routing import RoutingTable


def plan(
    histogram: Histogram, slots: int, previous: RoutingTable | None = None, *, seed: int = 0
) -> RoutingTable:
    """Every bucket to slot `((a·x + c) mod p) mod N`, where `seed` draws a and c, and x scatters the buckets.

    The same seed gives the same function, so nothing moves while N stays; a change of N moves all but about 1/N.
    Blind to load. The paper hashes the keys; this hashes the buckets, which for keys of different buckets is the
    same family (`parts/universal_hash.py` says why not by bucket number).
    Paper: Rivetti et al., DEBS 2015, section 5.1 ("Universal").

    >>> h = Histogram.from_counts({"a": 1}, buckets=64)
    >>> plan(h, 4, seed=1).same_routes(plan(h, 4, seed=1)), plan(h, 4, seed=1).same_routes(plan(h, 4, seed=2))
    (True, False)
    """
    chosen = draw(slots, seed)(bucket_numbers(histogram.buckets))
    return RoutingTable.build(slots, chosen, key_type=histogram.key_type)


PLANNER = Planner(
    "universal",
    plan,
    summary="a 2-universal hash of the buckets, with a provable bound on collisions",
    movement="nothing while N stays",
    paper='Rivetti et al., DEBS 2015, section 5.1 ("Universal")',
)
