"""Greedy multiprocessor scheduling: longest first, which several papers share, and in order, as Spark does it."""

from __future__ import annotations

import heapq

import numpy as np
from numpy.typing import NDArray

from unskew.core.histogram import Floats


def longest_first(weights: Floats, slots: int) -> NDArray[np.int32]:
    """Give each item, heaviest first, to the least loaded slot; the lowest slot wins a tie.

    Within 4/3 − 1/(3N) of the least possible maximum (Graham 1969). Costs one heap operation an item.
    Items of equal weight go in their given order.

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


def makespan(loads: Floats, cores: int) -> float:
    """The end of the last task when tasks start in order on the next free core, as Spark runs them.

    >>> makespan(np.array([1.0, 1.0, 1.0, 3.0]), 2)
    4.0
    """
    free = [0.0] * cores
    for load in loads.tolist():
        heapq.heapreplace(free, free[0] + load)
    return max(free)
