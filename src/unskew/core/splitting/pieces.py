"""Range pieces: hot keys cut by the order of their rows, so that every slot gets the mean load.

McNaughton's wrap-around rule (1959) for what may be cut anywhere: the keys are laid end to end and the slots are filled
one after the other, so k hot keys need at most N - 1 cuts, and no slot gets more than the mean. Here a cut must be
between rows with different order values, so a slot misses the mean by at most half of the load of one order value.
What is not cut is placed last, largest first into the least loaded slot, which evens out what the cuts missed.

A slot has at most one piece of a key, and the pieces of a key are in slots of ascending numbers.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.core.hashing import buckets_of
from unskew.core.histogram import Floats, Histogram
from unskew.core.routing import RoutingTable

HOT = 0.5
"""A key with more than this share of a mean slot may be cut; lighter keys even out when they are placed whole."""

_SLIVER = 0.02
"""Shares of a mean slot that are not worth a piece of their own."""

_LIGHT = 0.02
"""A key with less than this share of a mean slot goes with its bucket."""


@dataclass(frozen=True)
class Piece:
    """The rows of hot key `key` whose order values are number `start` to `end` - 1, and the slot that gets them."""

    key: int
    slot: int
    start: int
    end: int


@dataclass(frozen=True, eq=False)
class CutKeys:
    """Where the pieces of the hot keys and all other keys go.

    `hot` are the rows of the histogram that were cut. `table` has N slots and one more for each of them: what it routes
    to slot N + i is hot key i, for which `pieces` decide. `loads` are the predicted loads of the N slots.
    """

    slots: int
    hot: tuple[int, ...]
    pieces: tuple[Piece, ...]
    table: RoutingTable
    loads: Floats


def hot_keys(histogram: Histogram, slots: int) -> NDArray[np.int64]:
    """The rows of the histogram whose keys may be cut, heaviest first.

    >>> hot_keys(Histogram.from_counts({"a": 70, "b": 20, "c": 10}), 2).tolist()
    [0]
    """
    loads = histogram.tracked.weights
    heaviest = np.argsort(-loads, kind="stable")
    return heaviest[loads[heaviest] > HOT * histogram.total / slots]


def cut_keys(
    histogram: Histogram, slots: int, rows: Sequence[int], values: Sequence[Floats]
) -> CutKeys | None:
    """Cut the keys in the given rows of the histogram; None if that takes no cut.

    `values` has for each of them the loads of its different order values, in order.

    >>> cut = cut_keys(Histogram.from_counts({"a": 90, "b": 10}), 2, [0], [np.full(90, 1.0)])
    >>> [(piece.slot, piece.start, piece.end) for piece in cut.pieces], cut.loads.tolist()
    ([(0, 0, 50), (1, 50, 90)], [50.0, 50.0])
    """
    loads = np.zeros(slots)
    slot = 0
    by_key: list[list[Piece]] = []
    for row, figures in zip(rows, values, strict=True):
        scale = histogram.tracked.weights[row] / max(float(figures.sum()), 1e-300)
        ends = np.concatenate([[0.0], np.cumsum(figures * scale)])
        start, last = 0, len(figures)
        pieces: list[Piece] = []
        while start < last:
            mean = (histogram.total - loads[:slot].sum()) / (slots - slot)
            end = last if slot == slots - 1 else _end(ends, start, mean - loads[slot], _SLIVER * mean)
            if end == start and loads[slot] == 0.0:
                end = start + 1  # one order value is more than a slot, and no slot has more room
            if end > start:
                pieces.append(Piece(len(by_key), slot, start, end))
                loads[slot] += ends[end] - ends[start]
            full = end < last or loads[slot] > (1.0 - _SLIVER) * mean
            slot += int(full and slot < slots - 1)
            start = end
        by_key.append(pieces)
    return _placed(histogram, slots, list(rows), by_key, loads)


def _end(ends: Floats, start: int, room: float, sliver: float) -> int:
    """Where a piece ends that begins at `start`: where its load is nearest to the room; at `start` if that is none."""
    last = len(ends) - 1
    target = ends[start] + room
    above = min(int(np.searchsorted(ends, target)), last)
    is_nearer = above > start and ends[above] - target <= target - ends[above - 1]
    end = max(above if is_nearer else above - 1, start)
    return last if ends[last] - ends[end] < sliver else end


def _placed(
    histogram: Histogram, slots: int, rows: list[int], by_key: list[list[Piece]], loads: Floats
) -> CutKeys | None:
    """The table for what is not cut; a hot key that fitted into one slot is placed there whole."""
    is_cut = [len(pieces) > 1 for pieces in by_key]
    if not any(is_cut):
        return None
    hot = [row for row, cut in zip(rows, is_cut, strict=True) if cut]
    number = {old: new for new, old in enumerate(i for i, cut in enumerate(is_cut) if cut)}
    pieces = tuple(
        Piece(number[piece.key], piece.slot, piece.start, piece.end)
        for each, cut in zip(by_key, is_cut, strict=True)
        if cut
        for piece in each
    )
    keys = histogram.tracked.weights
    mean = histogram.total / slots
    chosen = {row: slots + i for i, row in enumerate(hot)}
    chosen |= {row: each[0].slot for row, each, cut in zip(rows, by_key, is_cut, strict=True) if not cut}
    heavy = [row for row in np.flatnonzero(keys > _LIGHT * mean).tolist() if row not in chosen]
    light = np.ones(len(keys), np.bool_)
    light[[*chosen, *heavy]] = False
    buckets = histogram.rest.weights + np.bincount(
        buckets_of(histogram.hashes[light], histogram.buckets), keys[light], histogram.buckets
    )
    entries = np.concatenate([keys[heavy], buckets])
    places = _least_loaded(entries, loads)
    chosen |= dict(zip(heavy, places[: len(heavy)].tolist(), strict=True))
    named = sorted(chosen)
    table = RoutingTable.build(
        slots + len(hot),
        places[len(heavy) :],
        histogram.keys.take(pa.array(named, pa.int64())),
        [chosen[row] for row in named],
        hashes=histogram.hashes[named],
    )
    return CutKeys(slots, tuple(hot), pieces, table, loads)


def _least_loaded(entries: Floats, loads: Floats) -> NDArray[np.int64]:
    """The slot of each entry, largest first into the least loaded slot; `loads` grows by what is placed."""
    places = np.zeros(len(entries), np.int64)
    heap = [(float(load), slot) for slot, load in enumerate(loads)]
    heapq.heapify(heap)
    for entry in np.argsort(-entries, kind="stable").tolist():
        load, slot = heap[0]
        places[entry] = slot
        heapq.heapreplace(heap, (load + float(entries[entry]), slot))
    for load, slot in heap:
        loads[slot] = load
    return places
