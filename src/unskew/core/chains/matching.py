"""Which group should carry which number, so that the most stays as it was."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unskew.core.histogram import Floats


def best_matching(kept: Floats) -> NDArray[np.int64]:
    """The column of each row of a square matrix, all different, for which the sum of the cells is largest.

    The Hungarian method with potentials, one row at a time: O(n³), for servers rather than for keys.

    >>> best_matching(np.array([[5.0, 4.0], [4.0, 0.0]])).tolist()
    [1, 0]
    """
    n = len(kept)
    cost = kept.max(initial=0.0) - kept
    rows, columns = np.zeros(n + 1), np.zeros(n + 1)  # potentials: cost >= row + column, equal where matched
    owner = np.full(
        n + 1, -1
    )  # the row matched to each column; the last column stands for the row that comes in
    for row in range(n):
        owner[n] = row
        at, reached = n, np.zeros(n + 1, dtype=np.bool_)
        slack, before = np.full(n, np.inf), np.full(n, n)
        while owner[at] >= 0:
            reached[at] = True
            here = owner[at]
            left = cost[here] - rows[here] - columns[:n]
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
    found = np.empty(n, dtype=np.int64)
    found[owner[:n]] = np.arange(n)
    return found
