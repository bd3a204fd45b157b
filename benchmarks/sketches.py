"""How many Zipf-distributed keys per second the sketches process.

Run this module to see every case; `make bench-core` reports `sketch_speeds`.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from unskew.core.hashing import Hashes, hash_keys
from unskew.core.sketches import LossyCounter, SlidingLossyCounter, SpaceSaving

DRAWS, DISTINCT = 10**7, 10**6
EXPONENTS = (1.0, 1.2, 1.5)
BATCHES = (10**5, 10**6)

Sketch = LossyCounter | SlidingLossyCounter | SpaceSaving

SKETCHES: dict[str, Callable[[], Sketch]] = {
    "lossy ε=1e-4": lambda: LossyCounter(1e-4),
    "sliding ε=1e-4 W=1e6 x=3": lambda: SlidingLossyCounter(1e-4, window=1e6),
    "space saving c=1000": lambda: SpaceSaving(1000),
    "space saving c=10000": lambda: SpaceSaving(10_000),
}


def sketch_speeds(repeats: int = 3) -> dict[str, float]:
    """Keys per second for each sketch, exponent and batch size: the best of `repeats` whole streams."""
    speeds = {}
    rng = np.random.default_rng(0)
    for z in EXPONENTS:
        stream = zipf_hashes(z, rng)
        for batch in BATCHES:
            for name, make in SKETCHES.items():
                seconds = min(_seconds(make(), stream, batch) for _ in range(repeats))
                speeds[f"{name}, z={z}, batches of {batch}"] = len(stream) / seconds
    return speeds


def zipf_hashes(z: float, rng: np.random.Generator, draws: int = DRAWS, distinct: int = DISTINCT) -> Hashes:
    """Hashes of `draws` keys, the i-th of `distinct` keys drawn with probability ∝ i^−z."""
    shares = np.cumsum(np.arange(1, distinct + 1) ** -z)
    ranks = np.searchsorted(shares, rng.random(draws) * shares[-1])
    hashes: Hashes = hash_keys(np.arange(distinct))[ranks]
    return hashes


def _seconds(sketch: Sketch, stream: Hashes, batch: int) -> float:
    start = time.perf_counter()
    for first in range(0, len(stream), batch):
        sketch.update(stream[first : first + batch])
    return time.perf_counter() - start


if __name__ == "__main__":
    for case, speed in sketch_speeds().items():
        print(f"{case:55} {speed / 1e6:7.1f} M keys/s")
