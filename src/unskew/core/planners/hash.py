"""Uniform hash partitioning, what Spark does: bucket mod N and no heavy rows."""

from __future__ import annotations

from unskew.core.histogram import Histogram
from unskew.core.planners.declaration import Planner
from unskew.core.routing import RoutingTable


def plan(
    histogram: Histogram, slots: int, previous: RoutingTable | None = None, *, seed: int = 0
) -> RoutingTable:
    """Every bucket to slot `bucket mod N`.

    Blind to load, so two hot keys may share a slot. Keeps everything in place while N stays; a change of
    N moves all but about 1/N. The baseline of every paper ("uniform", UHP).
    """
    return RoutingTable.hashed(slots, histogram.buckets, histogram.key_type)


PLANNER = Planner(
    "hash",
    plan,
    summary="uniform hash partitioning, as Spark does it: bucket mod N, no heavy rows",
    movement="nothing while N stays",
)
