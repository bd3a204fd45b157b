"""Generated records with two keys that have something to do with each other, for benchmarks, demos and tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from unskew.core.workloads import zipf

KeyPairs: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int64]]
"""One row a record: its key at the first operator, and its key at the second."""


def synthetic_pairs(keys: int, locality: float, records: int, *, seed: int = 0) -> KeyPairs:
    """The synthetic workload of the paper: two integers from 1 to `keys`, equal in a share `locality` of the records.

    In the others they differ. Both are uniform. Caneill et al., section 4.2, where `keys` is the number of servers.

    >>> first, second = synthetic_pairs(4, 0.75, 1000)
    >>> float((first == second).mean())
    0.75
    """
    if keys < 1 or records < 0:
        raise ValueError(f"there are at least 1 key and 0 records, not {keys} and {records}")
    if not 0.0 <= locality <= 1.0:
        raise ValueError(f"locality is a share of the records, between 0 and 1, not {locality}")
    if keys == 1 and locality < 1.0:
        raise ValueError(f"one key is always equal to itself: locality {locality} needs 2 keys or more")
    random = np.random.default_rng(seed)
    first = random.integers(keys, size=records)
    second = first.copy()
    apart = random.permutation(records)[round(locality * records) :]  # exactly that share, whatever the seed
    if len(apart):
        second[apart] = (first[apart] + random.integers(1, keys, size=len(apart))) % keys
    return first + 1, second + 1


def drifting_pairs(
    *,
    weeks: int = 8,
    regions: int = 200,
    hashtags: int = 20_000,
    records: int = 200_000,
    exponent: float = 1.0,
    region_exponent: float = 0.5,
    correlation: float = 0.7,
    moving: float = 0.05,
    fresh: float = 0.1,
    seed: int = 0,
) -> Iterator[KeyPairs]:
    """Weeks of (region, hashtag) records whose correlations move, as those of the paper's Twitter data do.

    Hashtags are Zipf with `exponent`, regions with `region_exponent`. A hashtag belongs to a region: a share
    `correlation` of its records comes from there, the others from anywhere. Between two weeks a share `moving` of
    the hashtags turns to another region, and a share `fresh` is replaced by hashtags that were never seen, at the
    same frequency. Where a hashtag turns to is drawn by the regions' frequencies.

    >>> first, second = drifting_pairs(weeks=2, records=5)
    >>> [len(column) for column in first]
    [5, 5]
    """
    for name, share in (("correlation", correlation), ("moving", moving), ("fresh", fresh)):
        if not 0.0 <= share <= 1.0:
            raise ValueError(f"{name} is a share, between 0 and 1, not {share}")
    random = np.random.default_rng(seed)
    place_frequency, tag_frequency = zipf(regions, region_exponent), zipf(hashtags, exponent)
    names = np.arange(hashtags)
    home = random.choice(regions, hashtags, p=place_frequency)
    for week in range(weeks):
        if week:
            turning = np.flatnonzero(random.random(hashtags) < moving)
            home[turning] = random.choice(regions, len(turning), p=place_frequency)
            replaced = np.flatnonzero(random.random(hashtags) < fresh)
            names[replaced] = names.max() + 1 + np.arange(len(replaced))
            home[replaced] = random.choice(regions, len(replaced), p=place_frequency)
        tag = random.choice(hashtags, records, p=tag_frequency)
        anywhere = random.choice(regions, records, p=place_frequency)
        yield np.where(random.random(records) < correlation, home[tag], anywhere), names[tag]
