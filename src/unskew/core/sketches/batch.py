"""A batch of records on its way into a sketch: checked, cut into chunks, summed by key."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from unskew.core.hashing import Hashes, as_keys
from unskew.core.histogram import Floats

CHUNK = 1 << 17
"""Records that a sketch counts at a time. A sketch may briefly hold this many beyond its bound. The hash table of a
chunk still fits the cache: with twice as many records, lossy counting was a quarter slower on Zipf(1) keys."""


@dataclass(frozen=True, eq=False)
class Batch:
    """One row per record: the hash of its key, its weight, and the key itself where the sketch keeps key values.

    `weights` is None where every record counts for 1.
    """

    hashes: Hashes
    weights: Floats | None = None
    keys: pa.Array | None = None

    @classmethod
    def of(cls, hashes: Hashes, weights: ArrayLike | None = None, keys: pa.Array | None = None) -> Batch:
        """A checked batch; records of weight zero count for nothing and are left out."""
        array = np.asarray(hashes)
        if array.dtype != np.int64 or array.ndim != 1:
            raise ValueError(
                f"hashes are a one-dimensional int64 array, not {array.dtype} of shape {array.shape}: "
                "hash the keys with hash_keys, or pass them to update_keys"
            )
        checked = None if keys is None else as_keys(keys)
        if checked is not None and len(checked) != len(array):
            raise ValueError(f"{len(array)} hashes but {len(checked)} keys: give one key for each hash")
        if weights is None:
            return cls(array, None, checked)
        figures = _checked(weights, len(array))
        batch = cls(array, figures, checked)
        return batch if figures.all() else batch._taken(np.flatnonzero(figures))

    def __len__(self) -> int:
        return len(self.hashes)

    def __getitem__(self, rows: slice) -> Batch:
        weights = None if self.weights is None else self.weights[rows]
        return Batch(self.hashes[rows], weights, None if self.keys is None else self.keys[rows])

    @property
    def total(self) -> float:
        """The weight of all records."""
        return float(len(self.hashes) if self.weights is None else self.weights.sum())

    def running_total(self) -> Floats:
        """The total weight up to and including each record."""
        if self.weights is None:
            return np.arange(1.0, len(self.hashes) + 1.0)
        return np.cumsum(self.weights)

    def chunks(self) -> Iterator[Batch]:
        """The batch in pieces of at most `CHUNK` records."""
        for first in range(0, len(self), CHUNK):
            yield self[first : first + CHUNK]

    def summed(self) -> Batch:
        """One row for each distinct key, with its weight in the batch and the first of its key values."""
        hashes, codes = numbered(np.zeros(0, np.int64), self.hashes)
        weights = self.weight_by(codes, len(hashes))
        keys = None if self.keys is None else self.keys.take(pa.array(first_rows(codes)))
        return Batch(hashes, weights, keys)

    def weight_by(self, codes: NDArray[np.int32], size: int) -> Floats:
        """The weight of the records of each code, for codes 0..size-1."""
        return np.bincount(codes, self.weights, size).astype(np.float64, copy=False)

    def _taken(self, rows: NDArray[np.int64]) -> Batch:
        weights = None if self.weights is None else self.weights[rows]
        return Batch(
            self.hashes[rows], weights, None if self.keys is None else self.keys.take(pa.array(rows))
        )


def numbered(first: Hashes, hashes: Hashes) -> tuple[Hashes, NDArray[np.int32]]:
    """The distinct values of `first` (distinct already) and `hashes`, and the number of each of `hashes`.

    Arrow numbers values in the order in which they first occur, so those of `first` keep their places.
    Its hash table takes a third of the time of a sort.
    """
    encoded = pa.array(np.concatenate([first, hashes])).dictionary_encode()
    return encoded.dictionary.to_numpy(), encoded.indices.to_numpy()[len(first) :]


def first_rows(codes: NDArray[np.int32]) -> NDArray[np.int64]:
    """The first row of each code; 0 for a code without rows."""
    first = np.zeros(int(codes.max(initial=-1)) + 1, np.int64)
    # backwards, because the last of several writes to one place stays
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    return first


def _checked(weights: ArrayLike, length: int) -> Floats:
    figures = np.asarray(weights, dtype=np.float64)
    if figures.shape != (length,):
        raise ValueError(
            f"weights have the shape {figures.shape}, but there are {length} records: give one per record"
        )
    bad = np.flatnonzero(~(np.isfinite(figures) & (figures >= 0)))
    if len(bad):
        raise ValueError(f"weights must be finite and not negative, but weight {bad[0]} is {figures[bad[0]]}")
    return figures
