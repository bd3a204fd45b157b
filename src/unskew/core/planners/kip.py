"""The Key Isolator Partitioner (KIP): keep what fits, isolate heavy keys, fill the rest with hosts."""

from __future__ import annotations

from math import ceil

import numpy as np
from numpy.typing import NDArray

from unskew.core.histogram import Floats, Histogram
from unskew.core.planners.declaration import Planner
from unskew.core.routing import RoutingTable, Slots

_Ints = NDArray[np.int64]


def plan(
    histogram: Histogram,
    slots: int,
    previous: RoutingTable | None = None,
    *,
    seed: int = 0,
    lam: float = 2.0,
    epsilon: float = 0.001,
) -> RoutingTable:
    """Keep each heavy key where it is if it fits, and move buckets only out of slots above the level.

    A slot may be loaded up to MAXLOAD = max(1/N, f₁) + epsilon, as shares of all load. KIP assumes that all buckets
    ("hosts") are equally heavy and ignores what they weigh. Under that assumption a slot exceeds MAXLOAD only by
    heavy keys that fit nowhere, or when no other slot has room. A bucket leaves its slot only if that is above MAXLOAD,
    and a heavy key only if it does not fit; a key that is no longer among the heaviest goes back to its bucket.
    Costs O(H log H + B·N) for B heavy keys.

    `lam`: the heaviest ceil(lam·N) keys are heavy (λ). `epsilon`: the slack ε. The histogram's buckets are
    the hosts; the authors use 100·N of them.

    Readings: KI(k) of a key without a row is its bucket's slot. Without `previous` KI is bucket mod N, plain
    hashing. Hosts move in index order, first fit, until the load is at most MAXLOAD or no slot has room.
    When N shrinks, the buckets of vanished slots first go to bucket mod N, and heavy keys of vanished slots
    try their bucket's slot. When N grows, new slots start empty and take what overloaded slots give up.
    Paper: Zvara et al., "System-aware dynamic partitioning for batch and streaming workloads", section 4,
    algorithm 1.

    >>> h = Histogram.from_counts({"a": 6, "b": 2, "c": 1, "d": 1}, buckets=64)
    >>> table = plan(h, 2)
    >>> sorted(table.slot_of(["b", "c", "d"]) == table.slot_of(["a"]))
    [np.False_, np.False_, np.False_]
    """
    if not 0.0 < lam < np.inf:
        raise ValueError(f"lam is the number of heavy keys per slot, above 0, not {lam}")
    if not 0.0 <= epsilon < np.inf:
        raise ValueError(
            f"epsilon is the share of the load allowed above the level, 0 or more, not {epsilon}"
        )
    start = previous
    if start is None:
        start = RoutingTable.hashed(slots, histogram.buckets, histogram.key_type)
    numbers = np.arange(histogram.buckets)
    hosts = np.where(start.buckets < slots, start.buckets, numbers % slots).astype(np.int32)

    # keys are listed heaviest first
    top = slice(ceil(lam * slots))
    hashes = histogram.hashes[top]
    shares = (histogram.tracked.weights[top] / histogram.total).tolist()
    max_load = max([1.0 / slots, *shares[:1]]) + epsilon
    # 1 − Σf without its rounding: hosts that carry nothing must weigh nothing
    light = histogram.rest.weights.sum() + histogram.tracked.weights[len(shares) :].sum()
    host_load = float(light / histogram.total) / histogram.buckets

    home = hosts[histogram.key_buckets[top]]
    before = start.slot_of_hashes(hashes)
    before = np.where(before < slots, before, home)
    heavy_slots, heavy_loads = _place_keys(shares, before.tolist(), home.tolist(), slots, max_load)
    return RoutingTable.build(
        slots,
        _move_hosts(hosts, heavy_loads, host_load, max_load),
        heavy=histogram.keys[top],
        heavy_slots=heavy_slots,
        hashes=hashes,
        key_type=histogram.key_type,
    )


def _place_keys(
    shares: list[float], before: list[int], home: list[int], slots: int, max_load: float
) -> tuple[Slots, Floats]:
    """The slot of each heavy key, and the load that the heavy keys put on each slot."""
    loads = [0.0] * slots
    chosen = []
    for share, old, hashed in zip(shares, before, home, strict=True):
        if loads[old] < max_load - share:
            slot = old
        elif loads[hashed] < max_load - share:
            slot = hashed
        else:
            slot = loads.index(min(loads))
        loads[slot] += share
        chosen.append(slot)
    return np.array(chosen, dtype=np.int32), np.array(loads)


def _move_hosts(hosts: Slots, heavy_loads: Floats, host_load: float, max_load: float) -> Slots:
    """Lines 11-15: the slot of each host after overloaded slots gave theirs to the first slot with room.

    All hosts weigh the same, so how many a slot gives or takes is known in advance: the hosts that leave, slot by slot
    in index order, are matched with the free places, slot by slot.
    """
    if host_load == 0.0:
        # moving them would change no load
        return hosts
    slots = len(heavy_loads)
    held = np.bincount(hosts, minlength=slots)
    gives = held - np.minimum(held, _most_hosts(heavy_loads, host_load, max_load, strict=False))
    # a slot takes one more host while it holds less than MAXLOAD − HOSTLOAD
    takes = np.maximum(_most_hosts(heavy_loads, host_load, max_load - host_load, strict=True) + 1 - held, 0)
    by_slot = np.argsort(hosts, kind="stable")
    rank = np.arange(len(hosts)) - np.repeat(np.cumsum(held) - held, held)
    leaving = by_slot[rank < np.repeat(gives, held)]
    places = np.repeat(np.arange(slots, dtype=np.int32), np.minimum(takes, len(leaving)))
    moved = min(len(leaving), len(places))
    chosen = hosts.copy()
    chosen[leaving[:moved]] = places[:moved]
    return chosen


def _most_hosts(heavy_loads: Floats, host_load: float, level: float, *, strict: bool) -> _Ints:
    """The largest number n of hosts, or -1, with heavy + n·host at most (strict: below) the level.

    The division may be off by one through rounding; the comparison itself decides.
    """

    def fits(n: _Ints) -> NDArray[np.bool_]:
        load = heavy_loads + host_load * n
        return load < level if strict else load <= level

    # the number of hosts is limited: a tiny host load must not overflow
    guess = np.clip((level - heavy_loads) / host_load, -1.0, 1e9).astype(np.int64) + 1
    for _ in range(3):
        guess -= (guess >= 0) & ~fits(guess)
    return np.maximum(guess, -1)


PLANNER = Planner(
    "kip",
    plan,
    summary="key isolator partitioner: heavy keys are isolated, buckets of equal weight fill the rest",
    movement="a heavy key stays where it fits, a bucket unless its slot is overloaded",
    paper=(
        'Zvara et al., "System-aware dynamic partitioning for batch and streaming workloads", '
        "section 4, algorithm 1"
    ),
)
