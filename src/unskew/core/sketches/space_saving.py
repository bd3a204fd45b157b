"""Space Saving: the heaviest keys in a fixed number of counters, never underestimated."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from unskew.core.hashing import Hashes, Keys, as_keys, hash_keys
from unskew.core.histogram import Floats
from unskew.core.sketches.batch import Batch
from unskew.core.sketches.tracked import Tracked


class SpaceSaving:
    """Counts the keys of a stream in `capacity` counters; a new key takes over the smallest one.

    Guarantee, with N the weight so far, c the capacity and f a key's true weight: a tracked key has
    `lower` ≤ f ≤ `upper` ≤ f + N/c, the smallest counter is at most N/c, and every key with f > N/c is
    tracked. `upper` is the estimate of the paper; `errors` bounds by how much it may be too high, key by
    key. The paper's ε is a capacity of 1/ε.

    How: a new key inherits the smallest counter as its error, since it cannot have weighed more before.
    A batch is summed by key first; tracked keys grow by their sums, every new key starts at its sum plus the
    smallest counter, and the c largest counters stay. Each counter dropped is at least as large as the error
    that a new key brought, so the counters still add up to at most N, which is what the guarantee rests on.
    The order of records within a batch (or a chunk, `batch.CHUNK` records, of a large one) has no effect; with
    one record per batch this is exactly the paper's algorithm. Of equal counters those with the smallest hash
    stay, so the outcome is the same on every run.

    Memory: `capacity` keys, and one chunk during an update. Cost: one hash table over the counters and
    the chunk; tens of millions of records per second.

    Weights are finite and not negative. Float sums are subject to rounding; counts are exact.

    Rivetti et al., "Efficient key grouping for near-optimal load balancing in stream processing systems"
    (DKG), section 3.1, after Metwally et al., ICDT 2005. The merge is that of Agarwal et al., "Mergeable
    summaries", PODS 2012.

    >>> sketch = SpaceSaving(capacity=3)
    >>> sketch.update_keys(list("aaaabbbcd"))
    >>> heavy = sketch.query(0.3)
    >>> heavy.keys.to_pylist(), heavy.upper.tolist(), heavy.errors.tolist()
    (['a', 'b'], [4.0, 3.0], [0.0, 0.0])
    """

    def __init__(self, capacity: int) -> None:
        if capacity < 1:
            raise ValueError(f"capacity is the number of counters, at least 1, not {capacity}")
        self.capacity = capacity
        self._tracked = Tracked.nothing()
        self._total = 0.0

    def __len__(self) -> int:
        return len(self._tracked)

    def __repr__(self) -> str:
        return f"SpaceSaving(capacity {self.capacity}, {len(self)} keys tracked, total {self.total:g})"

    @property
    def total(self) -> float:
        """N: the weight of all records so far."""
        return self._total

    @property
    def absent_bound(self) -> float:
        """A key that is not tracked weighs at most this: the smallest counter, once all are in use."""
        return float(self._tracked.upper.min()) if len(self) == self.capacity else 0.0

    @property
    def key_type(self) -> pa.DataType | None:
        """The type of the key values, once there are any."""
        return self._tracked.key_type

    def update(self, hashes: Hashes, weights: ArrayLike | None = None, keys: pa.Array | None = None) -> None:
        """Count records by the hash of their key, each for its weight or 1.

        With `keys`, a tracked key keeps its value; pass them in every call then.
        """
        for chunk in Batch.of(hashes, weights, keys).chunks():
            self._tracked = self._tracked.plus(chunk, self.absent_bound, self._largest)
            self._total += chunk.total

    def update_keys(self, keys: Keys, weights: ArrayLike | None = None) -> None:
        """Count records by their key; the first call decides the type of the keys."""
        array = as_keys(keys, self.key_type)
        self.update(hash_keys(array), weights, array)

    def query(self, threshold: float) -> Tracked:
        """The keys whose `upper` is `threshold`·N or more, heaviest first.

        For a threshold above 1/c no key with f ≥ threshold·N is missing, and none is listed with
        f < (threshold − 1/c)·N.
        """
        return self._tracked.reaching(threshold, self._total)

    def items(self) -> Tracked:
        """Every tracked key, heaviest first."""
        return self._tracked.heaviest_first()

    def merge(self, other: SpaceSaving) -> SpaceSaving:
        """A sketch of both streams, with the guarantee for their summed weight; both stay as they are.

        A key that one side does not track gets that side's smallest counter as error, and the c largest
        stay. Commutative, and associative up to the guarantee.
        """
        if self.capacity != other.capacity:
            raise ValueError(
                f"cannot merge sketches of capacity {self.capacity} and {other.capacity}: use one capacity for all"
            )
        merged = SpaceSaving(self.capacity)
        bounds = self.absent_bound, other.absent_bound
        merged._tracked = self._tracked.merged(other._tracked, *bounds, self._largest)
        merged._total = self._total + other._total
        return merged

    def _largest(self, upper: Floats, hashes: Hashes) -> NDArray[np.int64]:
        return largest(upper, hashes, self.capacity)


def largest(upper: Floats, hashes: Hashes, capacity: int) -> NDArray[np.int64]:
    """The rows of the `capacity` largest counters, in ascending order; of equal ones the smallest hashes."""
    surplus = len(upper) - capacity
    if surplus <= 0:
        return np.arange(len(upper))
    # np.partition is slower where many are equal, as here
    smallest = np.sort(upper)[surplus]
    above, equal = np.flatnonzero(upper > smallest), np.flatnonzero(upper == smallest)
    free = capacity - len(above)
    equal = equal[np.argpartition(hashes[equal], free - 1)[:free]]
    return np.sort(np.concatenate([above, equal]))
