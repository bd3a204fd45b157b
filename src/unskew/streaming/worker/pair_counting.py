"""Which keys of two operators come together, counted on the way from one to the other."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.core.chains.pairs import PairHistogram

PAIRS = 10_000
"""Pairs that a task reports."""

LOOKED = 200_000
"""Records that a task holds to count them: of more than these it looks at a half, a quarter, …"""


class PairCounter:
    """Counts pairs in the record batches that pass.

    The first column is the hash of the next operator's key, the last that of the key at the operator before. Of many
    records a random part is looked at, drawn by `seed`.
    """

    def __init__(self, seed: int = 0) -> None:
        self._random = np.random.default_rng(seed)
        self._pairs = np.zeros((0, 2), np.int64)
        self._each = 1  # one record in so many is looked at

    def watched(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The batches without their last column."""
        held: list[NDArray[np.int64]] = []
        for batch in batches:
            met = [batch.column(i).to_numpy() for i in (batch.num_columns - 1, 0)]
            held.append(self._part(np.stack(met, axis=1)))
            if sum(map(len, held)) > LOOKED // 4:
                self._keep(held)
                held = []
            yield batch.select(range(batch.num_columns - 1))
        self._keep(held)

    def found(self) -> PairHistogram:
        """The most frequent pairs; keys are known by their hashes only."""
        nobody = pa.nulls(len(self._pairs))
        counts = np.full(len(self._pairs), float(self._each))
        hashes = (self._pairs[:, 0].copy(), self._pairs[:, 1].copy())
        return PairHistogram.from_arrays(nobody, nobody, counts, hashes=hashes, capacity=PAIRS)

    def _part(self, pairs: NDArray[np.int64]) -> NDArray[np.int64]:
        return pairs if self._each == 1 else pairs[self._random.random(len(pairs)) < 1.0 / self._each]

    def _keep(self, held: list[NDArray[np.int64]]) -> None:
        self._pairs = np.concatenate([self._pairs, *held])
        while len(self._pairs) > LOOKED:
            self._pairs = self._pairs[self._random.random(len(self._pairs)) < 0.5]
            self._each *= 2
