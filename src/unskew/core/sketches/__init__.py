"""Bounded-memory summaries of a stream of keys, each with a stated guarantee.

All three take batches of 64-bit hashes (see `hashing`) with optional weights and key values, answer with
`Tracked` keys, and cover several partitions by merging. Users import them from `unskew.sketches`.
"""

from __future__ import annotations

from unskew.core.sketches.lossy import LossyCounter
from unskew.core.sketches.sliding import SlidingLossyCounter
from unskew.core.sketches.space_saving import SpaceSaving
from unskew.core.sketches.tracked import Tracked

__all__ = ["LossyCounter", "SlidingLossyCounter", "SpaceSaving", "Tracked"]
