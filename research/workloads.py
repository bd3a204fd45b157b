"""Generated key frequencies and drifting streams, for benchmarks, demos and tests."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import numpy as np

from unskew.core.histogram import DEFAULT_BUCKETS, Floats, Histogram
from unskew.demo.zipf import zipf

__all__ = ["drifting_windows", "zipf"]


def drifting_windows(
    *,
    steps: int = 20,
    keys: int = 100_000,
    exponent: float = 1.0,
    draws: int = 1_000_000,
    shuffled: int = 500,
    group: int = 5,
    state_windows: int = 5,
    buckets: int = DEFAULT_BUCKETS,
    seed: int = 0,
) -> Iterator[Histogram]:
    """Windows of a Zipf stream whose hot keys change.

    Between two windows the `shuffled` most frequent keys trade their frequencies within groups of `group` neighbours
    in rank, so a key may become five times as hot overnight. The load of a window is its number of records; the state
    of a key is its number of records in the last `state_windows` windows.
    """
    random = np.random.default_rng(seed)
    frequencies = zipf(keys, exponent)
    recent: deque[Floats] = deque(maxlen=state_windows)
    names = np.arange(keys)
    for step in range(steps):
        if step:
            for first in range(0, shuffled, group):
                random.shuffle(frequencies[first : min(first + group, shuffled)])
        recent.append(random.multinomial(draws, frequencies).astype(np.float64))
        state = np.sum(recent, axis=0)
        present = np.flatnonzero(state)
        yield Histogram.from_arrays(
            names[present], recent[-1][present], state=state[present], buckets=buckets
        )
