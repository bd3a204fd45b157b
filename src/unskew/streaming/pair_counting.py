"""Which keys of two operators come together, counted on the way from one to the other."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.core.pairs import PairHistogram

PAIRS = 10_000
"""Pairs that a task reports."""

LOOKED = 200_000
"""Records that a task holds to count them: of more than these it looks at every second, fourth, …"""


class PairCounter:
    """Counts pairs in the record batches that pass.

    The first column is the hash of the next operator's key, the last that of the key at the operator before.
    """

    def __init__(self) -> None:
        self._held: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
        self._rows = 0
        self._stride = 1

    def watched(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The batches without their last column."""
        for batch in batches:
            self._see(batch.column(batch.num_columns - 1).to_numpy(), batch.column(0).to_numpy())
            yield batch.select(range(batch.num_columns - 1))

    def found(self) -> PairHistogram:
        """The most frequent pairs; keys are known by their hashes only."""
        a, b = (
            np.concatenate([np.zeros(0, np.int64), *(each[side] for each in self._held)]) for side in (0, 1)
        )
        nobody = pa.nulls(len(a))
        counts = np.full(len(a), float(self._stride))
        return PairHistogram.from_arrays(nobody, nobody, counts, hashes=(a, b), capacity=PAIRS)

    def _see(self, a: NDArray[np.int64], b: NDArray[np.int64]) -> None:
        self._held.append((a[:: self._stride], b[:: self._stride]))
        self._rows += len(self._held[-1][0])
        while self._rows > LOOKED:
            self._held = [(one[::2], two[::2]) for one, two in self._held]
            self._rows = sum(len(one) for one, _ in self._held)
            self._stride *= 2
