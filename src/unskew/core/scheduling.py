"""Greedy multiprocessor scheduling: longest first, as in several papers, and in order, as Spark does it."""

from __future__ import annotations

import heapq

import numpy as np
from numpy.typing import NDArray

from unskew.core.histogram import Floats

# rounds per slot, at most: each round lowers the fullest slot
_ROUNDS = 8
# pairs of items that a round may try
_PAIRS = 200_000
# items of two slots for which every division between the two may be tried, and slots beyond which that takes too long
_DIVIDED_ITEMS = 12
_DIVIDED_SLOTS = 256
# a gain must be more than rounding
_LESS = 1e-12


def longest_first(weights: Floats, slots: int) -> NDArray[np.int32]:
    """Give each item, heaviest first, to the least loaded slot; the lowest slot wins a tie.

    Within 4/3 − 1/(3N) of the least possible maximum (Graham 1969). Costs one heap operation per item.
    Items of equal weight keep their order.

    >>> longest_first(np.array([3.0, 3.0, 2.0, 2.0, 2.0]), 2).tolist()
    [0, 1, 0, 1, 0]
    """
    return fill(weights, np.zeros(slots))


def fill(weights: Floats, loads: Floats) -> NDArray[np.int32]:
    """The same on slots that already carry `loads` (which are not changed).

    >>> fill(np.array([2.0, 1.0]), np.array([5.0, 0.0])).tolist()
    [1, 1]
    """
    heap = list(zip(loads.tolist(), range(len(loads)), strict=True))
    heapq.heapify(heap)
    order = np.argsort(-weights, kind="stable")
    chosen = []
    for weight in weights[order].tolist():
        load, slot = heap[0]
        chosen.append(slot)
        heapq.heapreplace(heap, (load + weight, slot))
    assigned = np.empty(len(weights), dtype=np.int32)
    assigned[order] = chosen
    return assigned


def evened(weights: Floats, assigned: NDArray[np.int32], slots: int, level: float) -> NDArray[np.int32]:
    """The assignment after relieving the fullest slot again and again, until it is at `level` or nothing helps.

    Each round makes the move or swap after which the higher of the two slots is lowest. If none helps, it divides the
    items of the fullest slot and of another one between the two in the best possible way. This matters where slots
    have a few items each of nearly equal weight, which greedy scheduling cannot even out. With many items there is
    nothing left to do, and where a round would cost too much it is skipped.

    >>> w = np.array([5.0, 4.0, 3.0, 3.0, 3.0])
    >>> evened(w, longest_first(w, 2), 2, 9.0).tolist()
    [0, 0, 1, 1, 1]
    """
    assigned = assigned.copy()
    loads = np.bincount(assigned, weights, slots).astype(np.float64)
    for _ in range(_ROUNDS * slots):
        full = int(loads.argmax())
        if loads[full] <= level:
            break
        if not _swap(weights, assigned, loads, full) and not _divide(weights, assigned, loads, full):
            break
    return assigned


def _swap(weights: Floats, assigned: NDArray[np.int32], loads: Floats, full: int) -> bool:
    """The best move or swap between the fullest slot and another; false if none lowers it."""
    mine = np.flatnonzero(assigned == full)
    slots = len(loads)
    # a further item per slot weighs nothing: swapping with it is a move
    items = np.append(weights, np.zeros(slots))
    if len(mine) * len(items) > _PAIRS:
        return False
    place = np.append(assigned, np.arange(slots, dtype=np.int32))
    less = weights[mine][:, None] - items[None, :]
    higher = np.maximum(loads[full] - less, loads[place][None, :] + less)
    higher[:, place == full] = np.inf
    leaves, comes = np.unravel_index(int(higher.argmin()), higher.shape)
    if higher[leaves, comes] >= loads[full] * (1 - _LESS):
        return False
    receiver = place[comes]
    loads[full] -= less[leaves, comes]
    loads[receiver] += less[leaves, comes]
    assigned[mine[leaves]] = receiver
    if comes < len(assigned):
        assigned[comes] = full
    return True


def _divide(weights: Floats, assigned: NDArray[np.int32], loads: Floats, full: int) -> bool:
    """Divide the items of the fullest slot and of another one between the two; false if no slot helps."""
    mine = np.flatnonzero((assigned == full) & (weights > 0))
    best, chosen = loads[full] * (1 - _LESS), None
    if len(mine) >= _DIVIDED_ITEMS or len(loads) > _DIVIDED_SLOTS:
        return False
    for slot in np.argsort(loads, kind="stable").tolist():
        items = np.append(mine, np.flatnonzero((assigned == slot) & (weights > 0)))
        if slot == full or len(items) > _DIVIDED_ITEMS:
            continue
        ways = (np.arange(1 << (len(items) - 1))[:, None] >> np.arange(len(items))) & 1
        sums = ways @ weights[items]
        higher = np.maximum(sums, weights[items].sum() - sums)
        way = int(higher.argmin())
        if higher[way] < best:
            best, chosen = higher[way], (slot, items, ways[way].astype(np.bool_))
    if chosen is None:
        return False
    slot, items, goes = chosen
    assigned[items] = np.where(goes, slot, full)
    for changed in (slot, full):
        loads[changed] = weights[assigned == changed].sum()
    return True


def makespan(loads: Floats, cores: int) -> float:
    """The end of the last task when tasks start in order on the next free core, as Spark runs them.

    >>> makespan(np.array([1.0, 1.0, 1.0, 3.0]), 2)
    4.0
    """
    free = [0.0] * cores
    for load in loads.tolist():
        heapq.heapreplace(free, free[0] + load)
    return max(free)
