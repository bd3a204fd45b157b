"""Bounded-memory summaries of a stream of keys, each with a stated guarantee.

They need no Spark. `LossyCounter` finds the keys above a share of the stream and never overestimates them.
`SpaceSaving` has a fixed number of counters and never underestimates. `SlidingLossyCounter` covers the recent records
only. All take batches of keys, answer with `Tracked` keys, and cover several partitions by merging.
"""

from __future__ import annotations

from unskew.core.sketches import LossyCounter, SlidingLossyCounter, SpaceSaving, Tracked

__all__ = ["LossyCounter", "SlidingLossyCounter", "SpaceSaving", "Tracked"]
