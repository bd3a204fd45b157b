"""Murmur3 of whole numbers as Spark computes it, by which its shuffles choose the partition, and its inverse.

Spark starts with the seed 42 and continues the hash of one column with the next. Austin Appleby, MurmurHash3_x86_32.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_C1, _C2 = 0xCC9E2D51, 0x1B873593
_BITS = np.uint64(0xFFFFFFFF)


def hash_of_ints(values: NDArray[np.int32], seed: NDArray[np.int32] | int = 42) -> NDArray[np.int32]:
    """The hash of each number, continuing that of other columns in `seed`.

    >>> hash_of_ints(np.array([0, 1, -1], np.int32)).tolist()
    [933211791, -559580957, -1604776387]
    """
    mixed = _times(_rotated(_times(_words(values), _C1), 15), _C2)
    state = _times(_rotated(_words(np.asarray(seed)) ^ mixed, 13), 5) + np.uint64(0xE6546B64) & _BITS
    return _signed(_finished(state ^ np.uint64(4)))


def state_before_last_int(hashes: NDArray[np.int32]) -> NDArray[np.uint32]:
    """For each hash, what the hash of the columns before must be XORed with to give the mixed last number.

    With h the hash of the other columns, and s a value of this for the wanted hash: the number whose mixing is h ^ s
    makes the whole hash the wanted one. Mixing is x · c1, rotated left by 15 bits, · c2, modulo 2³².
    """
    state = _unfinished(_words(hashes)) ^ np.uint64(4)
    state = _times(state - np.uint64(0xE6546B64) & _BITS, pow(5, -1, 1 << 32))
    return _rotated(state, 19).astype(np.uint32)


def _words(numbers: NDArray[Any]) -> NDArray[np.uint64]:
    return numbers.astype(np.int64).astype(np.uint64) & _BITS


def _signed(words: NDArray[np.uint64]) -> NDArray[np.int32]:
    return words.astype(np.uint32).view(np.int32)


def _times(words: NDArray[np.uint64], factor: int) -> NDArray[np.uint64]:
    return words * np.uint64(factor) & _BITS


def _rotated(words: NDArray[np.uint64], left: int) -> NDArray[np.uint64]:
    return (words << np.uint64(left) | words >> np.uint64(32 - left)) & _BITS


def _finished(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    words = _times(words ^ words >> np.uint64(16), 0x85EBCA6B)
    words = _times(words ^ words >> np.uint64(13), 0xC2B2AE35)
    return words ^ words >> np.uint64(16)


def _unfinished(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The inverse of `_finished`; x ^ x >> 13 is undone by adding the next 13 bits, and the six after these."""
    words = _times(words ^ words >> np.uint64(16), pow(0xC2B2AE35, -1, 1 << 32))
    words = words ^ words >> np.uint64(13) ^ words >> np.uint64(26)
    words = _times(words, pow(0x85EBCA6B, -1, 1 << 32))
    return words ^ words >> np.uint64(16)
