"""What a join does with each key: the rows that it reads of both sides, and the rows that it emits."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.core.hashing import SEED, Hashes
from unskew.core.histogram import Floats, Histogram, Measures, sum_by

JoinType: TypeAlias = Literal["inner", "left", "right", "full", "semi", "anti"]

OUTPUT_COST = 1.0
"""The cost of a row emitted, in rows read.

A row read is shuffled and sorted. A row emitted is built from two rows at hand, which is cheaper, but then goes through
all that follows the join in the same task: from nothing (it is counted) to more than a shuffle (it is written). One row
for one row is between the two, and balances both where either would be the bottleneck.
"""

NULL_HASH: int = SEED
"""The hash of a key whose parts are all null."""

WHOLE_BELOW = 0.5
"""Rows with a null key that weigh less than half a mean slot stay together: a planner can place them like any key."""


@dataclass(frozen=True, eq=False)
class JoinLoad:
    """The load of a join.

    `histogram` is what a plan has to balance. `hashed` is what hash partitioning would have to, with all rows whose
    key is null together; `spread_left` and `spread_right` say of which side they should be spread over all slots
    instead, and `spread` is their load. `read` is the part of the load that is rows read, not rows emitted; infinite if
    nobody knows.
    """

    histogram: Histogram
    hashed: Histogram
    spread_left: bool = False
    spread_right: bool = False
    spread: float = 0.0
    read: float = math.inf

    @property
    def total(self) -> float:
        """All of the load."""
        return self.histogram.total + self.spread

    @property
    def read_share(self) -> float:
        """The share of rows read; all of it if nobody knows."""
        return min(self.read / self.total, 1.0) if self.total else 1.0


def join_load(
    left: Histogram, right: Histogram, kind: JoinType, slots: int, output_cost: float = OUTPUT_COST
) -> JoinLoad:
    """The load of a join from the measured keys of both sides; rows whose key is null have the key `NULL_HASH`.

    Those match nothing, so they are emitted by the side that an outer or anti join preserves, and cost nothing on
    the other. Where null matches null, it is a key like any other: use `matched_load` alone.

    >>> left = Histogram.from_counts({None: 90, 1: 5, 2: 5}, key_type=pa.int64())
    >>> load = join_load(left, Histogram.from_counts({1: 1}), "left", slots=4)
    >>> load.spread_left, load.spread, load.histogram.top()
    (True, 180.0, [(1, 11.0), (2, 10.0)])
    """
    keyed_left, nulls_left = without_null(left)
    keyed_right, nulls_right = without_null(right)
    matched = matched_load(keyed_left, keyed_right, kind, output_cost)
    unit = _load_per_record(left, right)
    loads = [
        float(nulls.weights.sum() + output_cost * unit * nulls.counts.sum()) if preserved else 0.0
        for nulls, preserved in (
            (nulls_left, kind in ("left", "full", "anti")),
            (nulls_right, kind in ("right", "full")),
        )
    ]
    limit = WHOLE_BELOW * (matched.total + sum(loads)) / slots
    spread = [load > limit for load in loads]
    return JoinLoad(
        _with_null(matched, sum(load for load, out in zip(loads, spread, strict=True) if not out)),
        _with_null(matched, sum(loads)),
        spread[0],
        spread[1],
        sum(load for load, out in zip(loads, spread, strict=True) if out),
        left.total + right.total,
    )


def matched_load(
    left: Histogram, right: Histogram, kind: JoinType, output_cost: float = OUTPUT_COST
) -> Histogram:
    """Both sides as one histogram, whose load is rows read plus `output_cost` per row emitted.

    A key that only one side tracks has, on the other side, as many rows as the mean key of its bucket there. The keys
    of a bucket that are tracked on neither side are taken to be as many as the side with more of them has. If a weight
    was measured, a row emitted costs `output_cost` times the mean weight.

    >>> left, right = (Histogram.from_counts({"a": n, "b": 600}) for n in (300, 1))
    >>> matched_load(left, left, "inner").top()
    [('b', 361200.0), ('a', 90600.0)]
    >>> matched_load(left, right, "semi").top()
    [('b', 1800.0), ('a', 601.0)]
    """
    both = left.merge(right)
    buckets = both.key_buckets
    l_counts, l_rest, l_distinct = _per_key(left, both.hashes, buckets)
    r_counts, r_rest, r_distinct = _per_key(right, both.hashes, buckets)
    unit = _load_per_record(left, right)
    emitted = _emitted(kind, l_counts, r_counts)
    keys = np.maximum(np.maximum(l_distinct, r_distinct), 1.0)
    rest_emitted = keys * _emitted(kind, l_rest / keys, r_rest / keys)
    if kind in ("semi", "anti"):
        matching = np.minimum(1.0, r_distinct / np.maximum(l_distinct, 1.0))
        rest_emitted = l_rest * (matching if kind == "semi" else 1.0 - matching)
    counts = l_counts + r_counts
    # what one side tracks and the other has in its buckets moves to the key there as well
    weights = both.tracked.weights + (counts - both.tracked.counts) * unit
    moved = sum_by(buckets, counts - both.tracked.counts, both.buckets)
    rest_counts = np.maximum(both.rest.counts - moved, 0.0)
    rest_weights = np.maximum(both.rest.weights - moved * unit, 0.0)
    cost = output_cost * unit
    return replace(
        both,
        tracked=Measures(counts, weights + cost * emitted, counts),
        rest=Measures(rest_counts, rest_weights + cost * rest_emitted, rest_counts),
    ).trimmed(both.capacity)


def rows_of_keys(
    left: Histogram, right: Histogram, kind: JoinType, hashes: Hashes
) -> tuple[Floats, Floats, Floats]:
    """The rows of these keys on the left, on the right, and in the output, as `matched_load` counts them.

    Each of the keys is tracked on one side at least.
    """
    both = left.merge(right)
    order = np.argsort(both.hashes)
    at = order[np.searchsorted(both.hashes[order], hashes)]
    l_counts, r_counts = (_per_key(side, both.hashes, both.key_buckets)[0][at] for side in (left, right))
    return l_counts, r_counts, _emitted(kind, l_counts, r_counts)


def _per_key(side: Histogram, hashes: Hashes, buckets: NDArray[np.int64]) -> tuple[Floats, Floats, Floats]:
    """The rows of each key on this side, and for each bucket the rows and keys that are left."""
    order = np.argsort(side.hashes)
    at = np.searchsorted(side.hashes[order], hashes)
    at = order[np.minimum(at, len(order) - 1)] if len(order) else np.zeros(len(hashes), np.int64)
    tracked = side.hashes[at] == hashes if len(order) else np.zeros(len(hashes), np.bool_)
    counts = np.zeros(len(hashes))
    counts[tracked] = side.tracked.counts[at[tracked]]
    homes = buckets[~tracked]
    rest, distinct = side.rest.counts, side.rest_distinct
    others = np.bincount(homes, minlength=side.buckets)
    # keys that the other side tracks may all be missing here: none can have more than its part of the bucket
    mean = rest / np.maximum(np.maximum(distinct, others), 1.0)
    counts[~tracked] = mean[homes]
    return counts, rest - mean * others, np.maximum(distinct - others, 0.0)


def _emitted(kind: JoinType, left: Floats, right: Floats) -> Floats:
    """The rows that keys with so many rows on both sides emit."""
    if kind == "semi":
        return np.where(right > 0, left, 0.0)
    if kind == "anti":
        return np.where(right > 0, 0.0, left)
    rows = left * right
    if kind in ("left", "full"):
        rows += np.where(right > 0, 0.0, left)
    if kind in ("right", "full"):
        rows += np.where(left > 0, 0.0, right)
    return rows


def _load_per_record(left: Histogram, right: Histogram) -> float:
    records = left.records + right.records
    return (left.total + right.total) / records if records else 1.0


def without_null(side: Histogram) -> tuple[Histogram, Measures]:
    """The histogram without the key `NULL_HASH`, and what that key has."""
    null = side.hashes == NULL_HASH
    rest = replace(
        side,
        keys=side.keys.filter(pa.array(~null)),
        hashes=side.hashes[~null],
        tracked=side.tracked[~null],
    )
    return rest, side.tracked[null]


def _with_null(matched: Histogram, load: float) -> Histogram:
    """The histogram with a key `NULL_HASH` of that load."""
    if not load:
        return matched
    null = Histogram(
        pa.nulls(1, matched.key_type),
        np.array([NULL_HASH], np.int64),
        Measures.of([load]),
        Measures.zeros(matched.buckets),
        np.zeros(matched.buckets),
        matched.capacity,
        matched.sampled,
        matched.key_names,
    )
    return replace(matched.merge(null), sampled=matched.sampled)
