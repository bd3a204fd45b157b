"""Generated records with two correlated keys, for benchmarks, demos and tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from research.workloads import zipf

KeyPairs: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int64]]
"""The keys of all records at the first operator, and at the second."""


def synthetic_pairs(keys: int, locality: float, records: int, *, seed: int = 0) -> KeyPairs:
    """The synthetic workload of the paper: two integers from 1 to `keys`, equal in a share `locality` of the records.

    In the others they differ. Both are uniform. Caneill et al., section 4.2, where `keys` is the number of servers.

    >>> first, second = synthetic_pairs(4, 0.75, 1000)
    >>> float((first == second).mean())
    0.75
    """
    if keys < 1 or records < 0:
        raise ValueError(f"keys must be at least 1 and records at least 0, not {keys} and {records}")
    if not 0.0 <= locality <= 1.0:
        raise ValueError(f"locality is a share of the records, so between 0 and 1, not {locality}")
    if keys == 1 and locality < 1.0:
        raise ValueError(f"with 1 key both are always equal: a locality of {locality} needs at least 2 keys")
    random = np.random.default_rng(seed)
    first = random.integers(keys, size=records)
    second = first.copy()
    # a permutation, so that the share is exact with every seed
    apart = random.permutation(records)[round(locality * records) :]
    if len(apart):
        second[apart] = (first[apart] + random.integers(1, keys, size=len(apart))) % keys
    return first + 1, second + 1


def drifting_pairs(
    *,
    weeks: int = 8,
    regions: int = 1000,
    hashtags: int = 50_000,
    records: int = 200_000,
    exponent: float = 0.8,
    region_exponent: float = 0.5,
    correlation: float = 0.65,
    lasting: float = 0.55,
    moving: float = 0.1,
    fresh: float = 0.5,
    seed: int = 0,
) -> Iterator[KeyPairs]:
    """Weeks of (region, hashtag) records whose correlations move, as those of the paper's Twitter data do.

    Hashtags follow Zipf's law with `exponent`, regions with `region_exponent`. A hashtag belongs to a region: a share
    `correlation` of its records comes from there, the others from anywhere. A share `lasting` of the hashtags never
    changes. Of the others, between two weeks, a share `moving` moves to another region, and a share `fresh` is
    replaced by new hashtags with the same frequency. The new region of a hashtag is drawn by the regions'
    frequencies.

    The defaults are fitted to what Caneill et al. (section 4.3) print about their data on 6 servers. METIS expects 75 %
    of the records of a week to stay on their server, and 49 % of the next week's do, since many of its hashtags are
    new: so `fresh` is large. A table of the first week ends at 40 %, not at the 17 % of hashing: so most hashtags
    last. Hashing loads the fullest server with 12 % more than the mean: so the most frequent keys are not very
    frequent. That #nevertrump belonged to three states within nine days shows that some hashtags move, not how many.

    >>> first, second = drifting_pairs(weeks=2, records=5)
    >>> [len(column) for column in first]
    [5, 5]
    """
    shares = {"correlation": correlation, "lasting": lasting, "moving": moving, "fresh": fresh}
    for name, share in shares.items():
        if not 0.0 <= share <= 1.0:
            raise ValueError(f"{name} is a share, so between 0 and 1, not {share}")
    random = np.random.default_rng(seed)
    region_frequency, tag_frequency = zipf(regions, region_exponent), zipf(hashtags, exponent)
    names = np.arange(hashtags)
    home = random.choice(regions, hashtags, p=region_frequency)
    changing = np.flatnonzero(random.random(hashtags) >= lasting)
    for week in range(weeks):
        if week:
            moved = changing[random.random(len(changing)) < moving]
            home[moved] = random.choice(regions, len(moved), p=region_frequency)
            replaced = changing[random.random(len(changing)) < fresh]
            names[replaced] = names.max() + 1 + np.arange(len(replaced))
            home[replaced] = random.choice(regions, len(replaced), p=region_frequency)
        tag = random.choice(hashtags, records, p=tag_frequency)
        anywhere = random.choice(regions, records, p=region_frequency)
        yield np.where(random.random(records) < correlation, home[tag], anywhere), names[tag]
