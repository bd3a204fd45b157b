"""Slot labels that Spark's hash partitioning sends to the partition of the same number as the slot."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

_U32 = np.uint32


@lru_cache(maxsize=8)
def slot_labels(partitions: int) -> tuple[int, ...]:
    """For each partition the smallest label (an int ≥ 0) that `hashpartitioning(label, partitions)` sends there.

    >>> slot_labels(2)
    (2, 0)
    """
    labels = np.full(partitions, -1, np.int64)
    start, step = 0, 64 * partitions
    while np.any(labels < 0):
        numbers = np.arange(start, start + step)
        destinations = spark_hash(numbers).astype(np.int64) % partitions
        for partition in np.flatnonzero(labels < 0):
            candidates = numbers[destinations == partition]
            if len(candidates):
                labels[partition] = candidates[0]
        start += step
    return tuple(labels.tolist())


def spark_hash(numbers: NDArray[np.int64]) -> NDArray[np.int32]:
    """Spark's `hash` of an int column: 32-bit Murmur3 with seed 42."""
    with np.errstate(over="ignore"):
        k = numbers.astype(np.int32).view(_U32) * _U32(0xCC9E2D51)
        k = _rotl(k, 15) * _U32(0x1B873593)
        h = _rotl(_U32(42) ^ k, 13) * _U32(5) + _U32(0xE6546B64)
        h ^= _U32(4)
        h = (h ^ (h >> _U32(16))) * _U32(0x85EBCA6B)
        h = (h ^ (h >> _U32(13))) * _U32(0xC2B2AE35)
        return (h ^ (h >> _U32(16))).view(np.int32)


def _rotl(x: NDArray[np.uint32], bits: int) -> NDArray[np.uint32]:
    return (x << _U32(bits)) | (x >> _U32(32 - bits))
