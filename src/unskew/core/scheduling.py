"""Longest processing time first: the greedy multiprocessor scheduling that several papers share."""

from __future__ import annotations

import heapq

import numpy as np
from numpy.typing import NDArray

from unskew.core.histogram import Floats


def longest_first(weights: Floats, slots: int, start: Floats | None = None) -> NDArray[np.int32]:
    """Give each item, heaviest first, to the least loaded slot; the lowest slot wins a tie.

    Within 4/3 − 1/(3N) of the least possible maximum when all slots start empty (Graham 1969). Costs
    one heap operation an item. `start` is the load the slots already have. Items of equal weight go in
    their given order.

    >>> longest_first(np.array([3.0, 3.0, 2.0, 2.0, 2.0]), 2).tolist()
    [0, 1, 0, 1, 0]
    """
    loads = np.zeros(slots) if start is None else start
    heap = list(zip(loads.tolist(), range(slots), strict=True))
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
