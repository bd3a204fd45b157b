"""Partial key grouping (PKG): every key has two candidate slots that share its load."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from unskew.core.hashing import Hashes
from unskew.core.histogram import Floats, Histogram
from unskew.core.planners.declaration import Planner
from unskew.core.planners.parts.universal_hash import bucket_numbers, draw
from unskew.core.routing import RoutingTable, Slots


def plan(
    histogram: Histogram,
    slots: int,
    previous: RoutingTable | None = None,
    *,
    seed: int = 0,
    choices: int = 2,
) -> RoutingTable:
    """Split rows: each tracked key names `choices` slots, by independent hashes of its hash.

    Only for operators that can merge partial results. The candidates of a key never change while N and `seed` stay, so
    tracked keys do not move. The candidates of a key may coincide, as in the paper. A table cannot split the untracked
    rest of a bucket: it goes whole to the least loaded of its own `choices` candidates, heaviest bucket first, on top
    of equal shares of the tracked keys. This is the bucket-granular form; `route` is the paper's form, tuple by tuple.
    Costs O(choices · (K + H)) for K tracked keys.
    Papers: Nasir et al., ICDE 2015; compared in Rivetti et al., DEBS 2015, section 6, figure 14.

    >>> table = plan(Histogram.from_counts({"a": 3, "b": 2}, buckets=16), 8)
    >>> [len(row) for row in table.heavy.values()]
    [2, 2]
    """
    check_choices(choices)
    rows = candidates(histogram.hashes, slots, choices, seed)
    shares = np.repeat(histogram.tracked.weights / choices, choices)
    start = np.bincount(rows.reshape(-1), shares, slots).astype(np.float64)
    # Buckets get functions of their own, so that no key follows its bucket's choice.
    places = candidates(bucket_numbers(histogram.buckets), slots, choices, seed, first_stream=choices)
    return RoutingTable.build(
        slots,
        _least_loaded(histogram.rest.weights, places, start),
        heavy=histogram.keys,
        heavy_slots=rows.tolist(),
        hashes=histogram.hashes,
        key_type=histogram.key_type,
    )


def candidates(
    numbers: NDArray[np.int64], slots: int, choices: int, seed: int, first_stream: int = 0
) -> NDArray[np.int64]:
    """The candidate slots of each number, one row each, by `choices` independent 2-universal functions."""
    streams = range(first_stream, first_stream + choices)
    return np.stack([draw(slots, seed, stream)(numbers) for stream in streams], axis=1)


def route(hashes: Hashes, slots: int, choices: int = 2, seed: int = 0) -> Slots:
    """Send each tuple of a stream to the less loaded of its key's candidates, starting from empty slots.

    The paper's PKG, for simulations: loads are tuples sent so far, the first candidate wins a tie. Each tuple
    depends on the one before, so this is a plain loop: a million tuples take about half a second.

    >>> np.bincount(route(np.array([7] * 10), slots=8)).max()
    np.int64(5)
    """
    check_choices(choices)
    return less_loaded(candidates(hashes, slots, choices, seed), slots)


def less_loaded(named: NDArray[np.integer[Any]], slots: int) -> Slots:
    """Each tuple in turn to the least loaded so far of the slots in its row; the first wins a tie."""
    columns = named.T.tolist()
    loads = [0] * slots
    sent = []
    if len(columns) == 2:
        for first, second in zip(*columns, strict=True):
            slot = second if loads[second] < loads[first] else first
            loads[slot] += 1
            sent.append(slot)
    else:
        for row in zip(*columns, strict=True):
            slot = min(row, key=loads.__getitem__)
            loads[slot] += 1
            sent.append(slot)
    return np.array(sent, dtype=np.int32)


def check_choices(choices: int) -> None:
    """Refuse a number of candidates that would split no key."""
    if isinstance(choices, bool) or not isinstance(choices, int) or choices < 2:
        raise ValueError(f"choices is the number of slots a key may go to, at least 2, not {choices!r}")


def _least_loaded(weights: Floats, places: NDArray[np.int64], start: Floats) -> Slots:
    """Each item, heaviest first, to the least loaded of its candidates; the first candidate wins a tie."""
    loads = start.tolist()
    order = np.argsort(-weights, kind="stable")
    chosen = np.empty(len(weights), dtype=np.int32)
    for item, row in zip(order.tolist(), places[order].tolist(), strict=True):
        slot = min(row, key=loads.__getitem__)
        loads[slot] += weights[item]
        chosen[item] = slot
    return chosen


PLANNER = Planner(
    "pkg",
    plan,
    summary="partial key grouping: each key is shared between two candidate slots; needs an operator that merges",
    movement="tracked keys stay while N stays",
    paper="Nasir et al., ICDE 2015; compared in Rivetti et al., DEBS 2015, section 6, figure 14",
    splits=True,
)
