"""Consistent hashing: each slot owns many points on a ring, each bucket belongs to the next point."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pyarrow as pa

from unskew.core.hashing import hash_keys
from unskew.core.histogram import Histogram
from unskew.core.planners.declaration import Planner
from unskew.core.routing import RoutingTable, Slots

REPLICAS = 1000
"""Points per slot: its share of the ring is then within about 3 % of 1/N (this is also the paper's number)."""


def plan(
    histogram: Histogram,
    slots: int,
    previous: RoutingTable | None = None,
    *,
    seed: int = 0,
    replicas: int = REPLICAS,
) -> RoutingTable:
    """Every bucket to the owner of its place on a ring; no heavy rows.

    Blind to load, like plain hashing, but a change of N moves little: adding slots moves buckets only to the new
    slots, and removing the last slots moves only what they had, in both cases about their fair share. The
    table depends only on N, `replicas` and `seed`. O(N · replicas) once, then cached.

    `replicas`: points of each slot on the ring; more points make the shares more even.

    Paper: Karger et al. 1997; the fallback hash of Gedik's planners (section 4.1.1) and their baseline
    "consistent".

    >>> h = Histogram.from_counts({"a": 1}, buckets=64)
    >>> before, after = plan(h, 3), plan(h, 4)
    >>> np.unique(after.buckets[before.buckets != after.buckets]).tolist()
    [3]
    """
    return RoutingTable.build(
        slots, ring(slots, histogram.buckets, replicas, seed), key_type=histogram.key_type
    )


@lru_cache(maxsize=128)
def ring(slots: int, buckets: int, replicas: int = REPLICAS, seed: int = 0) -> Slots:
    """The slot of each bucket on the ring; a shared array that cannot be written to."""
    if isinstance(replicas, bool) or not isinstance(replicas, int | np.integer) or replicas < 1:
        raise ValueError(
            f"replicas is the number of points per slot, a whole number of at least 1, not {replicas!r}"
        )
    owners = np.repeat(np.arange(slots), replicas)
    numbers = (np.full(slots * replicas, seed), owners, np.tile(np.arange(replicas), slots))
    columns = [pa.array(column, pa.int64()) for column in numbers]
    points = hash_keys(pa.StructArray.from_arrays(columns, names=["seed", "slot", "replica"])).view(np.uint64)
    order = np.argsort(points, kind="stable")
    # buckets at equal distances: the shares then differ only by the lengths of the arcs
    step = (2**64 - 1) // buckets
    places = np.arange(buckets, dtype=np.uint64) * np.uint64(step) + np.uint64(step // 2)
    following = np.searchsorted(points[order], places) % len(points)
    cells = owners[order][following].astype(np.int32)
    cells.setflags(write=False)
    return cells


PLANNER = Planner(
    "ring",
    plan,
    summary="consistent hashing: each slot owns many points on a ring, a bucket belongs to the next point",
    movement="only to slots that are added or from slots that are removed",
    paper='Karger et al. 1997; in Gedik, section 4.1.1 ("consistent")',
)
