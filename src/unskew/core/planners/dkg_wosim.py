"""DKG without scheduling the buckets (WOSIM): shows what scheduling the light keys is worth."""

from __future__ import annotations

from unskew.core.histogram import Histogram
from unskew.core.planners.declaration import Planner
from unskew.core.planners.dkg import heavy_part
from unskew.core.planners.parts.universal_hash import bucket_numbers, draw
from unskew.core.routing import RoutingTable
from unskew.core.scheduling import longest_first


def plan(
    histogram: Histogram,
    slots: int,
    previous: RoutingTable | None = None,
    *,
    seed: int = 0,
    theta: float = 0.1,
) -> RoutingTable:
    """Heavy keys scheduled among themselves, buckets to slots by a 2-universal function drawn by `seed`.

    The schedule does not know what the buckets weigh, so a heavy key may land on a full slot. Like DKG it ignores
    `previous`. `theta` as in `dkg`. Paper: Rivetti et al., DEBS 2015, section 6, figure 13.

    >>> plan(Histogram.from_counts({"a": 60, "b": 40}, buckets=16), 2).heavy == {"a": 0, "b": 1}
    True
    """
    trimmed = heavy_part(histogram, theta)
    return RoutingTable.build(
        slots,
        draw(slots, seed)(bucket_numbers(histogram.buckets)),
        heavy=trimmed.keys,
        heavy_slots=longest_first(trimmed.tracked.weights, slots),
        hashes=trimmed.hashes,
        key_type=histogram.key_type,
    )


PLANNER = Planner(
    "dkg-wosim",
    plan,
    summary="DKG without scheduling the buckets, which shows what scheduling the light keys is worth",
    movement="no promise",
    paper="Rivetti et al., DEBS 2015, section 6, figure 13",
)
