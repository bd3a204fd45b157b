"""Streams for the tests of the sketches, and their exact counts."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from unskew.core.hashing import Hashes
from unskew.core.sketches import Tracked


@dataclass(frozen=True)
class Records:
    """A batch: hashes with weights, or with None where each counts for 1."""

    hashes: Hashes
    weights: np.ndarray | None


# The hash of a key is any integer; small ones make heavy keys, and extremes must be no special case.
few_keys = st.integers(0, 6)
keys = few_keys | few_keys | st.integers(0, 40) | st.sampled_from([-(2**63), 2**63 - 1])
streams = st.lists(keys, max_size=100)
# Sums of these are exact in floating point.
exact_weights = st.sampled_from([0.0, 0.25, 0.5, 1.0, 1.0, 2.0, 7.0, 64.0])


@st.composite
def batches(draw: st.DrawFn) -> Records:
    hashes = draw(st.lists(keys, max_size=30))
    weighted = draw(st.booleans())
    weights = [draw(exact_weights) for _ in hashes] if weighted else None
    return Records(np.array(hashes, np.int64), None if weights is None else np.array(weights))


batched_streams = st.lists(batches(), max_size=5)


def exact(stream: Iterable[Records]) -> tuple[dict[int, float], float]:
    """The weight of each key, and of all."""
    counts: dict[int, float] = defaultdict(float)
    for batch in stream:
        weights = np.ones(len(batch.hashes)) if batch.weights is None else batch.weights
        for key, weight in zip(batch.hashes.tolist(), weights.tolist(), strict=True):
            counts[key] += weight
    return counts, sum(counts.values())


def rows(tracked: Tracked) -> list[tuple[int, float, float]]:
    """Hash, lower bound and error of each key, in order."""
    columns = (tracked.hashes, tracked.lower, tracked.errors)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def zipf(z: float, draws: int, distinct: int, seed: int = 0) -> Hashes:
    """A stream of hashes, heavy ones anywhere among the integers."""
    rng = np.random.default_rng(seed)
    shares = np.cumsum(np.arange(1, distinct + 1) ** -z)
    hashes = rng.integers(-(2**63), 2**63 - 1, distinct)
    return hashes[np.searchsorted(shares, rng.random(draws) * shares[-1])]
