"""Which part should get which server's number, so that the most state stays where it is."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unskew.core.histogram import Floats


def best_matching(gain: Floats) -> NDArray[np.int64]:
    """The column of each row of a square matrix, all different, for which the sum of the cells is largest.

    The Hungarian method with potentials, one row at a time: O(n³), for servers rather than for keys.

    >>> best_matching(np.array([[5.0, 4.0], [4.0, 0.0]])).tolist()
    [1, 0]
    """
    n = len(gain)
    cost = gain.max(initial=0.0) - gain
    # potentials: cost >= row + column everywhere, and equal where matched
    rows, columns = np.zeros(n + 1), np.zeros(n + 1)
    # the row matched to each column; the last column stands for the row that comes in
    owner = np.full(n + 1, -1)
    for row in range(n):
        owner[n] = row
        at, reached = n, np.zeros(n + 1, dtype=np.bool_)
        slack, before = np.full(n, np.inf), np.full(n, n)
        while owner[at] >= 0:
            reached[at] = True
            matched = owner[at]
            left = cost[matched] - rows[matched] - columns[:n]
            nearer = (left < slack) & ~reached[:n]
            slack[nearer], before[nearer] = left[nearer], at
            following = int(np.where(reached[:n], np.inf, slack).argmin())
            step = slack[following]
            rows[owner[reached]] += step
            columns[reached] -= step
            slack[~reached[:n]] -= step
            at = following
        while at != n:
            owner[at] = owner[before[at]]
            at = int(before[at])
        owner[n] = -1
    matching = np.empty(n, dtype=np.int64)
    matching[owner[:n]] = np.arange(n)
    return matching
