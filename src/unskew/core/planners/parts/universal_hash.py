"""2-universal hash functions: small, drawn at random by a seed, with a bounded chance of collision."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

PRIME = (1 << 31) - 1
"""Numbers are hashed modulo this prime: products stay below 2⁶², and it exceeds any number of buckets."""


@dataclass(frozen=True)
class UniversalHash:
    """`((a·x + c) mod p) mod size` (Carter and Wegman 1979).

    For a and c drawn at random, two numbers that differ modulo p meet with probability at most 1/size.
    64-bit key hashes may be passed as well: they are reduced modulo p first.
    """

    a: int
    c: int
    size: int

    def __call__(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """The value of each number, in 0..size-1."""
        return (numbers % PRIME * self.a + self.c) % PRIME % self.size


def bucket_numbers(buckets: int) -> NDArray[np.int64]:
    """The number that stands for each bucket when buckets are hashed: fixed, distinct, and without order.

    The papers hash keys. Bucket numbers are consecutive, and of those `((a·x + c) mod p) mod size` makes a pattern:
    with size 2 some a put all buckets into one of the two classes. Scattered over 0..2³¹−1 they behave as keys do.

    >>> len(set(bucket_numbers(4096).tolist()))
    4096
    """
    numbers = np.arange(buckets, dtype=np.int64)
    # each step is a bijection of the 31-bit numbers
    for multiplier, shift in ((0x5BD1E995, 16), (0x27D4EB2F, 15), (0x165667B1, 16)):
        numbers = (numbers + 0x3C6EF372) * multiplier & PRIME
        numbers ^= numbers >> shift
    return numbers


def draw(size: int, seed: int, stream: int = 0) -> UniversalHash:
    """The function with values 0..size-1 for this `seed` and `stream`.

    Different streams of a seed are independent functions. a and c do not depend on `size`, so two planners with the
    same seed use the same function with two ranges.

    >>> draw(4, seed=7)(np.arange(8)).tolist() == draw(4, seed=7)(np.arange(8)).tolist()
    True
    """
    if seed < 0:
        raise ValueError(f"seed is a whole number, 0 or more, not {seed}")
    rng = np.random.default_rng([seed, stream])
    return UniversalHash(int(rng.integers(1, PRIME)), int(rng.integers(PRIME)), size)
