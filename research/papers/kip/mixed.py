"""Mixed of Fang et al. (HPDC 2017), a rival in Figure 2: hashing, and a routing table of bounded size on top.

From hashing alone there is nothing to clean and no state to spare, so Mixed is its least-load fit decreasing (LLFD):
slots above (1 + θ) × the mean give up their heaviest keys, which then go, heaviest first, to the least loaded slot that
has room. Where none has, a slot makes room by giving up lighter keys. Only keys that leave the slot of their hash need
a row. θ is the least for which the rows suffice, as in the KIP paper, which found it by an extra loop.
"""

from __future__ import annotations

import heapq

import numpy as np

from research.papers.generators import Numbers
from unskew.core.histogram import Floats

STEPS = 12
"""Halvings of the interval in which θ is sought."""

REACH = 8
"""Keys that are considered, as a multiple of the rows: only the heaviest can pay for a row."""


def mixed_loads(hashed: Numbers, counts: Numbers, slots: int, rows: int) -> Floats:
    """The loads of the slots with the least θ that `rows` rows suffice for; `hashed` has each key's slot by hash.

    >>> hashed, counts = np.array([0, 0, 0, 1, 1]), np.array([6, 5, 1, 1, 1])
    >>> mixed_loads(hashed, counts, slots=2, rows=1).tolist()
    [6.0, 8.0]
    """
    by_hash = np.bincount(hashed, counts, slots).astype(np.float64)
    order = np.argsort(-counts, kind="stable")[: REACH * rows]
    heaviest = list(zip(counts[order].tolist(), hashed[order].tolist(), strict=True))
    best, worst = 0.0, by_hash.max() / by_hash.mean() - 1
    loads = by_hash
    for _ in range(STEPS):
        theta = (best + worst) / 2
        placed = _placed(by_hash, heaviest, (1 + theta) * by_hash.mean(), rows)
        if placed is None:
            best = theta
        else:
            loads, worst = placed, theta
    return loads


def _placed(by_hash: Floats, heaviest: list[tuple[int, int]], limit: float, rows: int) -> Floats | None:
    """The loads if all slots stay within `limit`; None if that takes more rows, or cannot be done."""
    loads = by_hash.tolist()
    home: list[list[tuple[int, int]]] = [[] for _ in loads]
    for number, (count, slot) in enumerate(heaviest):
        home[slot].append((count, number))
    candidates: list[tuple[int, int]] = []
    for slot, load in enumerate(loads):
        while load > limit and home[slot]:
            count, number = home[slot].pop(0)
            load -= count
            heapq.heappush(candidates, (-count, number))
        if load > limit:
            return None
        loads[slot] = load
    moved: set[int] = set()
    # a key that is given up again and again will not find a place
    for _ in range(4 * rows):
        if not candidates:
            return np.array(loads)
        negative, number = heapq.heappop(candidates)
        target = _room(loads, home, candidates, -negative, limit)
        if target is None:
            return None
        loads[target] -= negative
        home[target].append((-negative, number))
        home[target].sort(key=lambda key: (-key[0], key[1]))
        moved.discard(number)
        if target != heaviest[number][1]:
            moved.add(number)
        if len(moved) > rows:
            return None
    return None


def _room(
    loads: list[float],
    home: list[list[tuple[int, int]]],
    candidates: list[tuple[int, int]],
    count: int,
    limit: float,
) -> int | None:
    """The least loaded slot with room for the key; if there is none, the first that can make room by lighter keys."""
    order = sorted(range(len(loads)), key=loads.__getitem__)
    if loads[order[0]] + count <= limit:
        return order[0]
    for slot in order:
        excess, given_up = loads[slot] + count - limit, []
        for key in home[slot]:
            if excess <= 0:
                break
            if key[0] < count:
                given_up.append(key)
                excess -= key[0]
        if excess <= 0:
            for key in given_up:
                home[slot].remove(key)
                loads[slot] -= key[0]
                heapq.heappush(candidates, (-key[0], key[1]))
            return slot
    return None
