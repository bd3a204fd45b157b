"""Which keys of two chained operators occur together, counted between the two."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.core.chains.pairs import PairHistogram

PAIRS = 10_000
"""Pairs that a task reports."""

SAMPLED = 200_000
"""Records that a task holds to count their pairs: of more records it samples a half, a quarter, …"""


class PairCounter:
    """Counts pairs in the record batches that pass through.

    The first column is the hash of the next operator's key, the last column that of the previous operator's key. Of
    many records a random sample is counted, drawn with `seed`.
    """

    def __init__(self, seed: int = 0) -> None:
        self._random = np.random.default_rng(seed)
        self._pairs = np.zeros((0, 2), np.int64)
        self._interval = 1  # one record in this many is sampled

    def count(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Count the pairs of the batches; yields the batches without their last column."""
        samples: list[NDArray[np.int64]] = []
        for batch in batches:
            hashes = [batch.column(i).to_numpy() for i in (batch.num_columns - 1, 0)]
            samples.append(self._sample(np.stack(hashes, axis=1)))
            if sum(map(len, samples)) > SAMPLED // 4:
                self._add(samples)
                samples = []
            yield batch.select(range(batch.num_columns - 1))
        self._add(samples)

    def histogram(self) -> PairHistogram:
        """The most frequent pairs; their keys are null, only the hashes are known."""
        null_keys = pa.nulls(len(self._pairs))
        counts = np.full(len(self._pairs), float(self._interval))
        hashes = (self._pairs[:, 0].copy(), self._pairs[:, 1].copy())
        return PairHistogram.from_arrays(null_keys, null_keys, counts, hashes=hashes, capacity=PAIRS)

    def _sample(self, pairs: NDArray[np.int64]) -> NDArray[np.int64]:
        if self._interval == 1:
            return pairs
        return pairs[self._random.random(len(pairs)) < 1.0 / self._interval]

    def _add(self, samples: list[NDArray[np.int64]]) -> None:
        self._pairs = np.concatenate([self._pairs, *samples])
        while len(self._pairs) > SAMPLED:
            self._pairs = self._pairs[self._random.random(len(self._pairs)) < 0.5]
            self._interval *= 2
