"""Gedik's default experiment: channels added one at a time under a Zipf load (section 5.1).

python benchmarks/gedik.py
"""

from __future__ import annotations

from functools import lru_cache
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np

from unskew.core.histogram import Histogram
from unskew.core.measures import relative_imbalance, relative_migration
from unskew.core.planning import make_table
from unskew.core.routing import RoutingTable

RUNS = 5  # the paper's
BUCKETS = 2**18  # a quarter of the keys: what buckets add to the unevenness of the ring is not seen
BASELINES = frozenset({"hash", "ring"})


class Outcome(NamedTuple):
    """b and m of the last step."""

    b: float
    m: float


@lru_cache(maxsize=4)
def zipf(keys: int, z: float, buckets: int = BUCKETS) -> Histogram:
    """The exact frequencies of a Zipf distribution, the k-th key ∝ 1 / k^z."""
    weights = np.arange(1, keys + 1, dtype=np.float64) ** -z
    return Histogram.from_arrays(np.arange(keys), weights / weights.sum(), buckets=buckets)


def grow(
    planner: str,
    *,
    keys: int = 10**6,
    z: float = 1.0,
    slots: int = 10,
    resources: str = "LLL",
    alpha: float = 1.2,
    runs: int = RUNS,
    buckets: int = BUCKETS,
    **options: Any,
) -> Outcome:
    """Grow N from 1 to `slots`, one slot at a time; b and m of the last step, the mean of `runs` rings.

    Further options go to the planner: `sigma`, `utility`, `replicas`, `max_moves`.
    """
    histogram = zipf(keys, z, buckets)
    if planner not in BASELINES:
        options |= {"resources": resources, "alpha": alpha}
    outcomes = []
    for seed in range(runs):
        before = table = RoutingTable.hashed(1, buckets, histogram.key_type)
        for n in range(1, slots + 1):
            before, table = table, make_table(planner, histogram, n, table, seed=seed, **options)
        b = relative_imbalance(table, histogram, resources, alpha).overall
        outcomes.append(Outcome(b, relative_migration(before, table, histogram, resources[0])))
    return Outcome(fmean(o.b for o in outcomes), fmean(o.m for o in outcomes))


if __name__ == "__main__":
    for letters in ("LLL", "LCL", "LQL"):
        for name in ("hash", "ring", "scan", "redist", "readj"):
            b, m = grow(name, resources=letters)
            print(f"{letters} {name:7} b = {b:6.3f}  m = {m:.3f}")
