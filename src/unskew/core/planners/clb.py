"""Correlation-based load balancing (CLB): substreams whose loads rise together are kept apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unskew.core.histogram import Floats, Histogram
from unskew.core.loads import slot_loads
from unskew.core.planners.declaration import Planner, UnsuitablePlannerError
from unskew.core.routing import RoutingTable

_Ints = NDArray[np.int64]


class Variances(NamedTuple):
    """How uneven loads are across slots, and how much they vary over time.

    `across` is the variance over slots of their mean load, `temporal` the mean over slots of their variance
    over windows. The mean over windows of var(L_t) is their sum less the variance over windows of the
    mean load, which no table can change. CLB aims at `temporal` alone.
    """

    across: float
    temporal: float


def plan(
    histogram: Histogram,
    slots: int,
    previous: RoutingTable | None = None,
    *,
    seed: int = 0,
    windows: Sequence[Histogram] = (),
    theta: float = 0.0,
    substreams: int = 256,
    listing: bool = False,
) -> RoutingTable:
    """Split the substreams into N sets so that those with a covariance of `theta` or more are apart.

    Promise: a split leaves its chosen substream in a set without any substream that rises together with it. There
    is no other promise: mean loads are ignored, and the substreams that leave stay together however alike they are.
    With many small substreams plain hashing often has less of both variances, so compare `variances`.
    Sets are matched to the previous slots by the state they share, largest overlap first, so that little moves
    beyond what the sets require; a first plan numbers the sets in the order in which they are formed.

    `windows`: the load series, at least two histograms with the same buckets. `substreams`: the buckets are combined
    into this many substreams, by their number modulo it, since the time is O(p²·(m + N)) and the memory O(p²) for p
    substreams and m windows. Heavy keys count with their bucket: the table has no heavy rows.

    Readings: substreams with covariance ≥ θ leave (the text), s_k itself stays, and the first split makes the
    second set. After a split the weight ω of a substream is its definition: what it has in common, above θ, with the
    others of its set. With `listing` it is what lines 15 to 18 add and subtract, which counts covariances below θ and
    depends on the order of the substreams. If the heaviest substream has none to be separated from, the next one is
    tried; if none has, the heaviest substream of the most loaded set leaves alone, so that no slot stays idle.
    Paper: Guo and Zhou, "Stateful Load Balancing for Parallel Stream Processing", section 4, algorithm 2.

    >>> windows = [Histogram.from_counts({0: n, 1: n}, buckets=64) for n in (9, 1)]
    >>> table = plan(windows[0].merge(windows[1]), 2, windows=windows)
    >>> sorted(table.slot_of([0, 1]).tolist()), variances(table, windows)
    ([0, 1], Variances(across=0.0, temporal=16.0))
    """
    _check(histogram, slots, windows, theta, substreams)
    p = min(substreams, histogram.buckets)
    groups = np.arange(histogram.buckets) % p
    series = np.stack([np.bincount(groups, _bucket_loads(window), p) for window in windows])
    means = series.mean(axis=0)
    swings = series - means
    sets = split(swings.T @ swings / len(windows), means, slots, theta, listing)[groups]
    if previous is not None:
        sets = _matched(sets, slots, histogram, previous)[sets]
    return RoutingTable.build(slots, sets, key_type=histogram.key_type)


def split(covariance: Floats, means: Floats, sets: int, theta: float, listing: bool = False) -> _Ints:
    """Algorithm 2: the set of each substream, of 0..sets-1."""
    member = np.zeros(len(covariance), dtype=np.int64)
    related = covariance >= theta
    np.fill_diagonal(related, False)
    in_common = np.where(related, covariance, 0.0)
    weight = in_common.sum(axis=1)
    for new in range(1, sets):
        leaving = _to_separate(member, related, weight)
        if not len(leaving):
            leaving = _heaviest_of_fullest(member, means)
        old = member[leaving[0]]
        member[leaving] = new
        staying = np.flatnonzero(member == old)
        if listing:
            weight[staying] -= covariance[np.ix_(leaving, staying)].sum(axis=0)
            # For each substream that leaves, the listing counts only those that leave after it, in index order.
            weight[leaving] = np.triu(covariance[np.ix_(leaving, leaving)], 1).sum(axis=1)
        else:
            for part in (staying, leaving):
                weight[part] = in_common[np.ix_(part, part)].sum(axis=1)
    return member


def variances(table: RoutingTable, windows: Sequence[Histogram]) -> Variances:
    """Both variance terms of the slot loads that `table` would give in each of the windows."""
    loads = np.stack([slot_loads(table, window) for window in windows])
    return Variances(float(loads.mean(axis=0).var()), float(loads.var(axis=0).mean()))


def _to_separate(member: _Ints, related: NDArray[np.bool_], weight: Floats) -> _Ints:
    """The substreams to separate from the heaviest one that has any; the lowest wins a tie."""
    for k in np.argsort(-weight, kind="stable"):
        leaving = np.flatnonzero(related[k] & (member == member[k]))
        if len(leaving):
            return leaving
    return np.zeros(0, dtype=np.int64)


def _heaviest_of_fullest(member: _Ints, means: Floats) -> _Ints:
    """The heaviest substream of the most loaded set that has more than one."""
    loads = np.bincount(member, means)
    loads[np.bincount(member) < 2] = -1.0
    inside = np.flatnonzero(member == np.argmax(loads))
    return inside[[np.argmax(means[inside])]]


def _matched(sets: _Ints, slots: int, histogram: Histogram, previous: RoutingTable) -> _Ints:
    """The slot of each set: greedily the pairs that share the most state; the lowest set and slot win a tie."""
    shared = np.zeros((slots, max(slots, previous.slots)))
    np.add.at(shared, (sets, previous.buckets), histogram.rest.state)
    before = previous.slot_of_hashes(histogram.hashes)
    np.add.at(shared, (sets[histogram.key_buckets], before), histogram.tracked.state)
    slot_of = np.full(slots, -1, dtype=np.int64)
    free = np.ones(slots, dtype=np.bool_)
    # slots that vanish cannot be matched
    overlap = shared[:, :slots]
    order = np.argsort(-overlap, axis=None, kind="stable")[: np.count_nonzero(overlap)]
    for group, slot in zip(*(at.tolist() for at in np.unravel_index(order, overlap.shape)), strict=True):
        if slot_of[group] < 0 and free[slot]:
            slot_of[group], free[slot] = slot, False
    slot_of[slot_of < 0] = np.flatnonzero(free)
    return slot_of


def _bucket_loads(window: Histogram) -> Floats:
    """The load of each bucket with its tracked keys."""
    return window.rest.weights + np.bincount(window.key_buckets, window.tracked.weights, window.buckets)


def _check(
    histogram: Histogram, slots: int, windows: Sequence[Histogram], theta: float, substreams: int
) -> None:
    if len(windows) < 2:
        raise ValueError(
            f"windows has {len(windows)} histograms, but at least 2 are needed to see loads change together"
        )
    mismatched = [window.buckets for window in windows if window.buckets != histogram.buckets]
    if mismatched:
        raise ValueError(
            f"a window has {mismatched[0]} buckets, but the histogram has {histogram.buckets}: measure "
            "both with the same number"
        )
    if not 0.0 <= theta < np.inf:
        raise ValueError(f"theta is a covariance, 0 or more, not {theta}")
    if isinstance(substreams, bool) or not isinstance(substreams, int):
        raise ValueError(f"substreams is a whole number, not {substreams!r}: use {slots} or more")
    if substreams < slots:
        raise UnsuitablePlannerError(
            f"substreams={substreams} cannot fill {slots} slots: use {slots} or more substreams"
        )


PLANNER = Planner(
    "clb",
    plan,
    summary="correlation-based load balancing: substreams whose loads rise together are kept apart",
    movement="sets of substreams keep the slot that holds most of their state",
    paper='Guo and Zhou, "Stateful Load Balancing for Parallel Stream Processing", section 4, algorithm 2',
    uses_windows=True,
    # a diagnosis has one window
    compared=False,
)
