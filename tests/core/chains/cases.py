"""Chains of operators that several tests plan."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pyarrow as pa

from research.correlated import KeyPairs, drifting_pairs
from unskew.core.chains.pairs import PairHistogram
from unskew.core.histogram import Histogram
from unskew.core.routing import RoutingTable

BUCKETS = 512


def measured(*columns: Any, capacity: int = 65_536) -> tuple[list[Histogram], list[PairHistogram]]:
    """From one row per record: its key at each operator of the chain."""
    histograms = [Histogram.from_keys(keys, buckets=BUCKETS, capacity=capacity) for keys in columns]
    return histograms, [PairHistogram.from_pairs(a, b) for a, b in pairwise(columns)]


def hashed(slots: int, operators: int = 2) -> list[RoutingTable]:
    return [RoutingTable.hashed(slots, BUCKETS, pa.int64())] * operators


def weeks(count: int = 6, seed: int = 0) -> list[KeyPairs]:
    return list(drifting_pairs(weeks=count, regions=100, hashtags=4000, records=40_000, seed=seed))
