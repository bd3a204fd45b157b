"""Lossy counting over recent records only: a sliding window emulated by staggered counters."""

from __future__ import annotations

from collections import deque

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from unskew.core.hashing import Hashes, Keys, as_keys, hash_keys
from unskew.core.histogram import Floats
from unskew.core.sketches.batch import Batch
from unskew.core.sketches.lossy import LossyCounter
from unskew.core.sketches.tracked import Tracked


class SlidingLossyCounter:
    """Counts the keys of the last W records, or a few more.

    Guarantee: answers come from one `LossyCounter`, with its guarantee, over the newest records. Their
    weight is at least W, once W has come in, and less than W·(1 + 1/(x−1)) plus the weight of one record.

    How: x counters, all of which count every record. A new one starts when the newest holds W/(x−1). The oldest
    gives the answers, and is dropped when the next one holds W. More counters come closer to a true sliding window.

    Memory: x times that of a `LossyCounter` over W·x/(x−1). Cost: a batch is summed by key once, then each
    counter adds the sums. Records that no counter would hold at the end of a batch are skipped.

    `window` is W, in weight; `counters` is x. Gedik, section 4.1.2, "Handling changes", with x = 3.

    >>> recent = SlidingLossyCounter(epsilon=0.1, window=100)
    >>> for key in "abc":
    ...     recent.update_keys([key] * 100)
    >>> recent.total, recent.query(0.5).keys.to_pylist()
    (100.0, ['c'])
    """

    def __init__(self, epsilon: float, window: float, counters: int = 3) -> None:
        if not 0.0 < window < float("inf"):
            raise ValueError(
                f"window is the weight of the records that count, above 0 and finite, not {window}"
            )
        if counters < 2:
            raise ValueError(
                f"a sliding window needs at least 2 counters, not {counters}: 3 is the usual number"
            )
        self.epsilon = epsilon
        self.window = window
        self.counters = counters
        # oldest first
        self._live = deque([LossyCounter(epsilon)])

    def __repr__(self) -> str:
        return (
            f"SlidingLossyCounter(epsilon {self.epsilon:g}, window {self.window:g}, "
            f"{len(self.current)} keys tracked, total {self.total:g})"
        )

    @property
    def current(self) -> LossyCounter:
        """The counter that gives the answers; merge these to cover several partitions."""
        return self._live[0]

    @property
    def total(self) -> float:
        """The weight of the records that the answers cover."""
        return self.current.total

    def update(self, hashes: Hashes, weights: ArrayLike | None = None, keys: pa.Array | None = None) -> None:
        """Count records by the hash of their key, oldest first, each for its weight or 1.

        With `keys`, a tracked key keeps its value; pass them in every call then.
        """
        batch = Batch.of(hashes, weights, keys)
        running = batch.running_total()
        stride = self.window / (self.counters - 1)
        cuts = _cuts(running, stride - self._live[-1].total, stride)
        first = 0
        # A counter that will hold W by the end of the batch outlives all older ones: start with that one.
        outliving = sum(running[-1] - running[cut - 1] >= self.window for cut in cuts)
        if outliving:
            first = cuts[outliving - 1]
            self._live = deque([LossyCounter(self.epsilon)])
        for cut in cuts[outliving:]:
            self._count(batch[first:cut])
            self._live.append(LossyCounter(self.epsilon))
            first = cut
        self._count(batch[first:])

    def update_keys(self, keys: Keys, weights: ArrayLike | None = None) -> None:
        """Count records by their key, oldest first; the first call decides the type of the keys."""
        array = as_keys(keys, self.current.key_type)
        self.update(hash_keys(array), weights, array)

    def query(self, threshold: float) -> Tracked:
        """The keys that may make up `threshold` or more of the recent records, as `LossyCounter.query`."""
        return self.current.query(threshold)

    def items(self) -> Tracked:
        """Every key the current counter tracks, heaviest first."""
        return self.current.items()

    def _count(self, batch: Batch) -> None:
        for chunk in batch.chunks():
            sums = chunk.summed()
            for counter in self._live:
                counter.update(sums.hashes, sums.weights, sums.keys)
        # By their weights there are never more than x counters; the comparison with x guards against rounding.
        while len(self._live) > self.counters or (len(self._live) > 1 and self._live[1].total >= self.window):
            self._live.popleft()


def _cuts(running: Floats, need: float, stride: float) -> list[int]:
    """Where to cut rows with this running total so that the first piece holds `need`, the others `stride`."""
    cuts = []
    row = int(np.searchsorted(running, need))
    while row < len(running):
        cuts.append(row + 1)
        row = int(np.searchsorted(running, running[row] + stride))
    return cuts
