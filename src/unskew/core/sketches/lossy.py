"""Lossy counting: frequent keys in logarithmic memory, never overestimated."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from unskew.core.hashing import Hashes, Keys, as_keys, hash_keys
from unskew.core.histogram import Floats
from unskew.core.sketches.batch import Batch
from unskew.core.sketches.tracked import Tracked


class LossyCounter:
    """Counts the keys of a stream; light ones are forgotten after every 1/ε records.

    Guarantee, with N the weight so far and f a key's true weight: a tracked key has
    f − εN ≤ `lower` ≤ f ≤ `upper` ≤ f + εN, and every key with f > εN is tracked. `lower` is the
    estimate of the paper (c_a) and `errors` its error count (c_e).

    How: a window closes once a weight of 1/ε = w has come in since the last one closed. Then a key stays only
    if `upper` > N/w, the number of the window. So a key that is not tracked weighs at most N/w at that
    time (`absent_bound`), and that is the error a key starts with when it comes (back). A batch is counted
    whole and a window closes only at its end, or every `batch.CHUNK` records. That keeps the guarantee: whenever
    a window closes, what is forgotten weighs at most N/w, and N only grows. Fed one record of weight 1 at a
    time, this is exactly the paper's listing.

    Memory: when a window closes at most w·(1 + ln(N/ω)) keys stay, ω ≥ w being the weight that came in
    since the one before: O(1/ε · log εN). Until the next one closes fewer than w keys are added, plus one
    chunk. Where weights are small fractions, a window closes early after w new keys; ω is smaller then.

    Cost: one hash table over the tracked keys and the chunk; tens of millions of records per second.

    Weights are finite and not negative. Float sums are subject to rounding; counts are exact.

    Gedik, "Partitioning functions for stateful data parallelism in stream processing", section 4.1.2,
    after Manku and Motwani, VLDB 2002. Where the two differ, c_a + c_e ≤ i is what is forgotten.

    >>> counter = LossyCounter(epsilon=0.1)
    >>> counter.update_keys(["a"] * 30 + list("bcdefghijk"))
    >>> counter.query(0.25).keys.to_pylist(), counter.query(0.25).lower.tolist(), counter.total
    (['a'], [30.0], 40.0)
    """

    def __init__(self, epsilon: float) -> None:
        if not 0.0 < epsilon < 1.0:
            raise ValueError(f"epsilon is a share of the total between 0 and 1, not {epsilon}: try 0.001")
        self.epsilon = epsilon
        self.window = math.ceil(1.0 / epsilon)
        self._tracked = Tracked.nothing()
        self._total = 0.0
        # the total, and the number of tracked keys, when the last window closed
        self._total_at_close = 0.0
        self._tracked_at_close = 0

    def __len__(self) -> int:
        return len(self._tracked)

    def __repr__(self) -> str:
        return f"LossyCounter(epsilon {self.epsilon:g}, {len(self)} keys tracked, total {self.total:g})"

    @property
    def total(self) -> float:
        """N: the weight of all records so far."""
        return self._total

    @property
    def absent_bound(self) -> float:
        """A key that is not tracked weighs at most this."""
        return self._total_at_close / self.window

    @property
    def key_type(self) -> pa.DataType | None:
        """The type of the key values, once there are any."""
        return self._tracked.key_type

    def update(self, hashes: Hashes, weights: ArrayLike | None = None, keys: pa.Array | None = None) -> None:
        """Count records by the hash of their key, each for its weight or 1.

        With `keys`, a tracked key keeps its value; pass them in every call then.
        """
        for chunk in Batch.of(hashes, weights, keys).chunks():
            self._count(chunk)

    def update_keys(self, keys: Keys, weights: ArrayLike | None = None) -> None:
        """Count records by their key; the first call decides the type of the keys."""
        array = as_keys(keys, self.key_type)
        self.update(hash_keys(array), weights, array)

    def query(self, threshold: float) -> Tracked:
        """The keys whose weight may be `threshold`·N or more, heaviest first.

        For a threshold above ε no such key is missing, and none is listed with f < (threshold − ε)·N. The
        paper lists every key with c_a ≥ (threshold − ε)·N; this is that list less the keys whose own
        error is too small for them to reach the threshold.
        """
        return self._tracked.reaching(threshold, self._total)

    def items(self) -> Tracked:
        """Every tracked key, heaviest first."""
        return self._tracked.heaviest_first()

    def merge(self, other: LossyCounter) -> LossyCounter:
        """A counter of both streams, with the guarantee for their summed weight; both stay as they are.

        Commutative, and associative up to the guarantee. It tracks at most as many keys as both together, and
        drops to the usual number as further windows close; `coarsened` bounds the number at once.
        """
        if self.window != other.window:
            raise ValueError(
                f"cannot merge counters of epsilon {self.epsilon} and {other.epsilon}: "
                "coarsen the finer one first"
            )
        merged = LossyCounter(self.epsilon)
        merged._total = self._total + other._total
        floor = merged._total / merged.window
        bounds = self.absent_bound, other.absent_bound
        merged._close(self._tracked.merged(other._tracked, *bounds, lambda upper, _: _above(upper, floor)))
        return merged

    def coarsened(self, epsilon: float) -> LossyCounter:
        """The same counts with the guarantee of a larger `epsilon`, and fewer keys.

        At twice the ε fewer than 1/ε keys stay, however many were tracked: merge the counters of many
        partitions at half the target ε, then coarsen.
        """
        coarse = LossyCounter(epsilon)
        if coarse.window > self.window:
            raise ValueError(
                f"a counter of epsilon {self.epsilon} cannot be made as fine as {epsilon}: use a larger epsilon"
            )
        coarse._total = self._total
        coarse._close(self._tracked.rows(_above(self._tracked.upper, self._total / coarse.window)))
        return coarse

    def _count(self, chunk: Batch) -> None:
        total = self._total + chunk.total
        closes = False

        def keep(upper: Floats, _: Hashes) -> NDArray[np.int64]:
            nonlocal closes
            new_keys = len(upper) - self._tracked_at_close
            closes = total - self._total_at_close >= self.window or new_keys >= self.window
            return _above(upper, total / self.window) if closes else np.arange(len(upper))

        self._tracked = self._tracked.plus(chunk, self.absent_bound, keep)
        self._total = total
        if closes:
            self._close(self._tracked)

    def _close(self, tracked: Tracked) -> None:
        self._tracked = tracked
        self._total_at_close = self._total
        self._tracked_at_close = len(tracked)


def _above(upper: Floats, floor: float) -> NDArray[np.int64]:
    return np.flatnonzero(upper > floor)
