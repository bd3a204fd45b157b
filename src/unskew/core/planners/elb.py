"""Eager load balancing (ELB): overloaded slots shed entries until every slot is in a range of load."""

from __future__ import annotations

from heapq import heapify, heappop, heapreplace
from math import ceil
from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.core.histogram import Floats, Histogram
from unskew.core.planners.declaration import Planner
from unskew.core.routing import RoutingTable, Slots


def plan(
    histogram: Histogram,
    slots: int,
    previous: RoutingTable | None = None,
    *,
    seed: int = 0,
    lower: float | None = None,
    upper: float | None = None,
    tolerance: float = 0.2,
    heavy: int | None = None,
    recompute: bool = False,
    remove: Literal["least loaded", "last"] = "least loaded",
) -> RoutingTable:
    """Move entries out of slots above the mean only, the largest that fit first, to the least loaded slots.

    Promise: while no slot vanishes, an entry moves only out of a slot above the mean load, and no slot is
    left below the mean by shedding. Costs O(E log E) for E = H + heavy entries.

    The load range [v, u] is `lower`..`upper`, in absolute loads. With both, N is elastic: the table has
    ceil(2w / (u + v)) slots for the load w, at least 1 and at most `slots`. With neither, the range is the
    mean times 1 ± tolerance/2 and N is `slots`.

    `heavy`: how many of the heaviest tracked keys are entries of their own, so that hot keys can move alone. The
    default is 2N; 0 is the paper's pure substream form. A tracked key that an earlier table took out of its bucket
    also stays an entry: otherwise it would move without being overloaded.

    Readings: a slot sheds entries lighter than θ = min(load − mean, (u − v)/2), and θ shrinks by what is shed, so a
    slot sheds less than (u − v)/2 in all. That is the listing. With `recompute`, θ is recomputed from the load left, as
    the text may be read, and a slot whose entries are small comes down to the mean. Entries without load are not shed:
    they relieve nothing. When no slot below (u + v)/2 is left, the least loaded of all takes the next entry.

    `remove`: which slots vanish when N shrinks. "least loaded" is the paper's choice: the instances that go have the
    least to move. But a slot is a number, and the slots left are 0..N-1: one that stays with a higher number takes
    the number of one that went, and on Spark its state moves with it. "last" removes the highest numbers, so that
    only their state moves.
    Paper: Guo and Zhou, "Stateful Load Balancing for Parallel Stream Processing", section 3, algorithm 1.

    >>> h = Histogram.from_counts({0: 4, 1: 3, 2: 2, 3: 1}, buckets=8)
    >>> plan(h, 4, lower=4, upper=6).slots
    2
    """
    _check(lower, upper, tolerance, heavy, remove)
    if lower is None or upper is None:
        active, mean = slots, histogram.total / slots
        lower, upper = mean * (1.0 - tolerance / 2.0), mean * (1.0 + tolerance / 2.0)
    else:
        active = min(max(ceil(2.0 * histogram.total / (upper + lower)), 1), slots)
    start = previous
    if start is None:
        start = RoutingTable.hashed(active, histogram.buckets, histogram.key_type)
    own = _own_entries(histogram, start, 2 * active if heavy is None else heavy)
    rows = np.flatnonzero(own)
    folded = np.bincount(histogram.key_buckets[~own], histogram.tracked.weights[~own], histogram.buckets)
    loads = np.concatenate([histogram.tracked.weights[rows], histogram.rest.weights + folded])
    placed = np.concatenate([start.slot_of_hashes(histogram.hashes[rows]), start.buckets])
    if active < start.slots:
        placed = renumbered(loads, placed, start.slots, active, remove)[placed]
    chosen = rebalance(loads, placed, active, lower, upper, recompute)
    return RoutingTable.build(
        active,
        chosen[len(rows) :],
        heavy=histogram.keys.take(pa.array(rows)),
        heavy_slots=chosen[: len(rows)],
        hashes=histogram.hashes[rows],
        key_type=histogram.key_type,
    )


def renumbered(loads: Floats, placed: Slots, before: int, slots: int, remove: str = "least loaded") -> Slots:
    """The number of each of `before` slots once `slots` are left; -1 for one that vanishes.

    Of equally loaded slots the last vanishes first.
    """
    order = np.arange(before)
    if remove == "least loaded":
        order = np.argsort(-np.bincount(placed, loads, before), kind="stable")
    stays = np.zeros(before, dtype=np.bool_)
    stays[order[:slots]] = True
    number = np.where(stays, np.arange(before), -1).astype(placed.dtype)
    number[np.flatnonzero(number >= slots)] = np.flatnonzero(~stays[:slots])
    return number


def rebalance(
    loads: Floats, placed: Slots, slots: int, lower: float, upper: float, recompute: bool = False
) -> Slots:
    """Algorithm 1 over entries with these `loads` on the slots `placed`: their new slots, of 0..slots-1.

    An entry of a slot that vanishes is placed on -1.
    """
    staying = placed >= 0
    slot_loads = np.bincount(placed[staying], loads[staying], slots).tolist()
    mean = float(loads.sum()) / slots
    under = [(load, slot) for slot, load in enumerate(slot_loads) if load <= mean]
    leaving = _leaving(loads, placed, slot_loads, mean, (upper - lower) / 2.0, recompute)

    chosen = placed.copy()
    heap, full = under, (upper + lower) / 2.0
    heapify(heap)
    for entry in leaving:
        if not heap:
            heap, full = [(load, slot) for slot, load in enumerate(slot_loads)], np.inf
            heapify(heap)
        load, slot = heap[0]
        chosen[entry] = slot
        slot_loads[slot] = load = load + float(loads[entry])
        if load >= full:
            heappop(heap)
        else:
            heapreplace(heap, (load, slot))
    return chosen


def _leaving(
    loads: Floats,
    placed: Slots,
    slot_loads: list[float],
    mean: float,
    most: float,
    recompute: bool,
) -> list[int]:
    """The entries to reassign, heaviest first; takes their load off `slot_loads`.

    θ never grows, so a single pass over the entries, heaviest first, meets them in the order in which slots shed them.
    """
    theta = [min(load - mean, most) for load in slot_loads]
    leaving = []
    order = np.argsort(-loads, kind="stable")
    for entry, slot, load in zip(order.tolist(), placed[order].tolist(), loads[order].tolist(), strict=True):
        if slot < 0:
            leaving.append(entry)
        elif 0.0 < load < theta[slot]:
            leaving.append(entry)
            slot_loads[slot] -= load
            theta[slot] = min(slot_loads[slot] - mean, most) if recompute else theta[slot] - load
    return leaving


def _own_entries(histogram: Histogram, start: RoutingTable, heavy: int) -> NDArray[np.bool_]:
    """Which tracked keys are entries of their own."""
    own: NDArray[np.bool_] = start.slot_of_hashes(histogram.hashes) != start.buckets[histogram.key_buckets]
    # keys are listed heaviest first
    own[:heavy] = True
    return own


def _check(
    lower: float | None, upper: float | None, tolerance: float, heavy: int | None, remove: str
) -> None:
    if (lower is None) != (upper is None):
        raise ValueError(f"lower={lower} and upper={upper}: pass both ends of the load range, or neither")
    if lower is not None and upper is not None and not 0.0 <= lower < upper < np.inf:
        raise ValueError(f"the load range lower={lower}, upper={upper} must satisfy 0 <= lower < upper")
    if not 0.0 < tolerance <= 2.0:
        raise ValueError(
            f"tolerance is the width of the load range over the mean, in (0, 2], not {tolerance}"
        )
    if heavy is not None and (not isinstance(heavy, int) or heavy < 0):
        raise ValueError(f"heavy is a number of keys, 0 or more, or None for 2N, not {heavy!r}")
    if remove not in ("least loaded", "last"):
        raise ValueError(f"remove is 'least loaded' or 'last', not {remove!r}")


PLANNER = Planner(
    "elb",
    plan,
    summary="eager load balancing: overloaded slots shed entries until every slot is in a range of load",
    movement="only out of overloaded slots",
    paper='Guo and Zhou, "Stateful Load Balancing for Parallel Stream Processing", section 3, algorithm 1',
)
