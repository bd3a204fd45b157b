"""Auto: choose a planner and its options by the histogram, and give the reason."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from unskew.core.histogram import Floats, Histogram, sum_by
from unskew.core.loads import imbalance, lower_bound, slot_loads
from unskew.core.planners import hash as plain_hash
from unskew.core.planners import keel
from unskew.core.planners.declaration import Planner
from unskew.core.routing import RoutingTable
from unskew.core.scheduling import makespan

STEP_ASIDE = 0.02
"""Plain hashing within 2 % of the bound, plus what a sample leaves uncertain, stays: there is nothing more to gain."""

# keys heavy enough to matter when hashes are drawn
_JUDGED = 1000


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
    cores: int | None = None,
    gain: float = STEP_ASIDE,
    partitions: int | None = None,
) -> RoutingTable:
    """The table of the planner that `choose` names; the other options are those of `keel`.

    >>> h = Histogram.from_counts({k: 1 for k in range(4096)}, buckets=64)
    >>> len(plan(h, 2).hashes)
    0
    """
    table, _ = plan_with_reason(
        histogram,
        slots,
        previous,
        seed=seed,
        target=target,
        budget=budget,
        cores=cores,
        gain=gain,
        partitions=partitions,
    )
    return table


def plan_with_reason(
    histogram: Histogram,
    slots: int,
    previous: RoutingTable | None = None,
    *,
    seed: int = 0,
    **options: Any,
) -> tuple[RoutingTable, str]:
    """The same table, and why its planner was chosen."""
    choice = choose(histogram, slots, previous, **options)
    if choice.planner == "hash":
        return plain_hash.plan(histogram, slots, previous, seed=seed), choice.reason
    return keel.plan(histogram, slots, previous, seed=seed, **choice.options), choice.reason


def choose(
    histogram: Histogram,
    slots: int,
    previous: RoutingTable | None = None,
    *,
    target: float = 0.01,
    budget: float | None = None,
    cores: int | None = None,
    gain: float = STEP_ASIDE,
    partitions: int | None = None,
) -> Choice:
    """Plain hashing where skew does not matter, else `keel`, with the figures that decided.

    Without `cores`, the fullest slot under hashing is compared with the lower bound. With `cores`, time decides: what
    hash partitioning is expected to take, over several draws of the hash (Spark's own hash differs from ours), is
    compared with the least possible; hashing would spread the keys over `partitions`, or over as many as there are
    slots. Hashing stays unless a table may win more than `gain`. It is chosen only where it is also what runs now, or
    where nothing runs yet: going back to it from another table would move nearly all state for nothing.

    >>> choose(Histogram.from_counts({"a": 90, "b": 5, "c": 5}, buckets=16), 3).planner
    'keel'
    """
    keel.check(target=target, budget=budget, cores=cores)
    if not 0 <= gain < math.inf:
        raise ValueError(
            f"gain is the least relative gain that a table must promise, 0 or more, not {gain!r}"
        )
    hashed = RoutingTable.hashed(slots, histogram.buckets, histogram.key_type)
    # among many equal slots, the fullest one in a sample is about three standard errors above the mean
    within = gain + 3 * histogram.sampling_error(slots)
    if cores is None:
        bound, by_hash = lower_bound(histogram, slots), imbalance(slot_loads(hashed, histogram))
        by_hash_text = f"hashing gives an imbalance of {by_hash:.3f}"
    else:
        width, hashed_over = min(cores, slots), partitions or slots
        bound = lower_bound(histogram, width)
        # both in units of even work on `width` cores
        by_hash = expected_time(histogram, hashed_over, cores) * width / min(cores, hashed_over)
        by_hash_text = f"hashing takes {by_hash:.3f} times as long as even work on {cores} cores"
    if (previous is None or previous.same_routes(hashed)) and by_hash <= bound * (1 + within):
        return Choice("hash", f"{by_hash_text}, within {within:.1%} of the least possible, {bound:.3f}")
    options: dict[str, Any] = {"target": target, "budget": budget, "cores": cores}
    if previous is not None and previous.slots == slots:
        now, least = imbalance(slot_loads(previous, histogram)), lower_bound(histogram, slots)
        return Choice("keel", f"the present table gives {now:.3f} where {least:.3f} is possible", options)
    return Choice("keel", f"{by_hash_text} where {bound:.3f} is possible", options)


def expected_time(
    histogram: Histogram, slots: int, cores: int, draws: int = 16, *, merged_share: float = 0.0
) -> float:
    """The mean length of a job under hash partitioning, in units of perfectly even work on `cores` cores.

    The mean is over `draws` independent hashes, drawn with a fixed seed. Slots run in order, each on the next free
    core. Neighbours that have no more than `merged_share` of the records together are one task, as in adaptive
    execution: it sees what is read, not what it costs. Below it merges 200 slots by threes, which makes a second
    wave of 3 tasks on 64 cores.

    >>> even = Histogram.from_counts(dict.fromkeys(range(10_000), 1))
    >>> round(expected_time(even, 200, 64), 1), round(expected_time(even, 200, 64, merged_share=1 / 64), 1)
    (1.3, 1.8)
    """
    random = np.random.default_rng(0)
    heavy = histogram.trimmed(_JUDGED)
    width = min(cores, slots)
    times = []
    for _ in range(draws):
        drawn = random.integers(slots, size=len(heavy.hashes))
        # there are many light keys: every slot gets an even share of them
        loads, records = (
            sum_by(drawn, tracked, slots) + float(rest.sum()) / slots
            for tracked, rest in (
                (heavy.tracked.weights, heavy.rest.weights),
                (heavy.tracked.counts, heavy.rest.counts),
            )
        )
        if merged_share:
            loads = _merged(loads, records, merged_share * histogram.records)
        times.append(makespan(loads, width))
    return float(np.mean(times)) * width / histogram.total if histogram.total else 1.0


def _merged(loads: Floats, records: Floats, most: float) -> Floats:
    """The loads after merging neighbours as long as they have at most so many records together."""
    merged: list[float] = []
    room = -1.0
    for load, count in zip(loads.tolist(), records.tolist(), strict=True):
        if count <= room:
            merged[-1] += load
            room -= count
        else:
            merged.append(load)
            room = most - count
    return np.array(merged)


PLANNER = Planner(
    "auto",
    plan,
    summary="plain hashing where skew does not matter, else `keel`; gives its reason",
    movement="as with the planner it chooses",
    uses_cores=True,
    explained=plan_with_reason,
)
