"""Wrap-around: entries that may be cut anywhere fill the slots exactly, with fewer cuts than slots."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unskew.core.histogram import Floats
from unskew.core.scheduling import fill

# Pieces and gaps below this share of the level come from rounding.
_ROUNDING = 1e-9
# How far below the mean whole entries are packed, in shares of the mean, until no slot exceeds it.
_HEADROOM = (0.0, 0.001, 0.01, 0.05, 0.2)


@dataclass(frozen=True)
class Pieces:
    """Where everything goes: for each entry that may be cut its slots and the load on each, for each other its slot.

    `level` is the load that the cut entries are filled up to.
    """

    cut: tuple[tuple[tuple[int, float], ...], ...]
    whole: NDArray[np.int32]
    level: float

    @property
    def cuts(self) -> int:
        """How many pieces there are beyond one per entry."""
        return sum(len(pieces) - 1 for pieces in self.cut)


def wrap_around(cuttable: Floats, whole: Floats, slots: int, slack: float = 0.0) -> Pieces:
    """Divide loads over slots; only `cuttable` ones may be cut, into at most `slots` − 1 more pieces than there are.

    Without slack every slot gets exactly the mean, if the whole entries can be packed into slots without exceeding it.
    If they cannot, the slots that they overfill get nothing else, and all other slots get exactly the same load. With
    slack a slot may exceed this by that share, if that saves a cut: slivers that fill a slot to the last row cost
    more than they are worth. An entry of several means fills slots of its own, so its pieces are as few as can be.

    1. The whole entries fill as few slots as hold them, heaviest first, so that the others are free for heavy entries.
    2. The level is where the gaps above them hold all cuttable load.
    3. An entry of at least the level fills empty slots; what is left of it is an entry like any other.
    4. Heaviest first, each entry goes to the largest gap if it fits.
    5. What did not fit is cut: it fills the gaps one after the other, largest first. The gaps hold at least
       this much, so each gap is closed by one cut at most, and the last by none: this is the wrap-around rule of
       McNaughton ("Scheduling with deadlines and loss functions", Management Science 1959, theorem 3.1).

    Costs O((K + H) log N) for K cuttable and H whole entries, for each of a few packings that step 1 tries.

    >>> pieces = wrap_around(np.array([6.0, 1.0]), np.array([1.0]), 4)
    >>> pieces.cut, pieces.whole.tolist(), pieces.level
    ((((1, 2.0), (2, 2.0), (3, 2.0)), ((0, 1.0),)), [0], 2.0)
    """
    assigned, base = _packed(whole, slots, float(cuttable.sum() + whole.sum()) / slots, slack)
    level = water_level(base, float(cuttable.sum()))
    over = level * max(slack, _ROUNDING)
    pieces: list[list[tuple[int, float]]] = [[] for _ in cuttable]
    rest = cuttable.astype(np.float64)
    gaps = np.maximum(level - base, 0.0)
    empty = np.flatnonzero(base <= 0).tolist()[::-1]
    for entry in np.argsort(-rest, kind="stable").tolist():
        while empty and level > 0 and rest[entry] >= level * (1 - _ROUNDING):
            slot = empty.pop()
            pieces[entry].append((slot, level))
            gaps[slot] = 0.0
            rest[entry] = max(rest[entry] - level, 0.0)
    unfitted = _fit(rest, gaps, pieces, over)
    _cut(unfitted, rest, gaps, pieces, over)
    return Pieces(tuple(map(tuple, pieces)), assigned, level)


def water_level(base: Floats, load: float) -> float:
    """The level up to which `load` fills slots that already carry `base`; slots above it get nothing.

    >>> water_level(np.array([5.0, 1.0, 0.0]), 4.0)
    2.5
    """
    heights = np.sort(base)
    levels = (np.cumsum(heights) + load) / np.arange(1, len(base) + 1)
    # the most slots that can be filled without the level falling below the fullest of them
    fits = np.flatnonzero(levels >= heights)
    return float(levels[fits[-1]])


def _packed(whole: Floats, slots: int, mean: float, slack: float) -> tuple[NDArray[np.int32], Floats]:
    """The whole entries on as few slots as hold them, or evenly on all of them if they exceed the mean anyhow."""
    total = float(whole.sum())
    most = mean * (1 + max(slack, _ROUNDING))
    for headroom in _HEADROOM:
        height = mean * (1 - headroom)
        used = int(np.ceil(total / height * (1 - _ROUNDING))) if height > 0 else slots
        if not 0 < used <= slots:
            break
        # the last of these slots starts with what they have room for beyond the entries, so that it gets less
        start = np.zeros(used)
        start[-1] = max(used * height - total, 0.0)
        assigned = fill(whole, start)
        base = np.bincount(assigned, whole, slots).astype(np.float64)
        if base.max() <= most:
            return assigned, base
    assigned = fill(whole, np.zeros(slots))
    return assigned, np.bincount(assigned, whole, slots).astype(np.float64)


def _fit(rest: Floats, gaps: Floats, pieces: list[list[tuple[int, float]]], over: float) -> list[int]:
    """Place what is left of each entry into the largest gap if it fits; returns the entries that do not.

    An entry that fills slots of its own has room there for `over` each, which may save it one more piece.
    """
    heap = [(-gap, slot) for slot, gap in enumerate(gaps.tolist()) if gap > 0]
    heapq.heapify(heap)
    unfitted = []
    for entry in np.argsort(-rest, kind="stable").tolist():
        load = float(rest[entry])
        gap, slot = (-heap[0][0], heap[0][1]) if heap else (0.0, int(gaps.argmax()))
        room = over * len(pieces[entry])
        if pieces[entry] and load <= gap + over + room:
            more = load if load <= room else max(load - gap - over, 0.0)
            pieces[entry] = [(at, piece + more / len(pieces[entry])) for at, piece in pieces[entry]]
            load -= more
            if load <= 0:
                continue
        if load > gap + over:
            rest[entry] = load
            unfitted.append(entry)
            continue
        pieces[entry].append((slot, load))
        gaps[slot] = max(gap - load, 0.0)
        if heap:
            heapq.heapreplace(heap, (-float(gaps[slot]), slot))
    return unfitted


def _cut(
    entries: list[int], rest: Floats, gaps: Floats, pieces: list[list[tuple[int, float]]], over: float
) -> None:
    """Fill the gaps with these entries one after the other, each starting where the one before it ended.

    A gap that an entry would leave behind with less than `over` of it is closed by that entry, too.
    """
    open_slots = [slot for slot in np.argsort(-gaps, kind="stable").tolist() if gaps[slot] > 0]
    at = 0
    for entry in entries:
        load = float(rest[entry])
        while load > 0:
            slot = open_slots[at]
            last = at == len(open_slots) - 1
            taken = load if last or load <= gaps[slot] + over else float(gaps[slot])
            pieces[entry].append((slot, taken))
            gaps[slot] -= taken
            load -= taken
            if gaps[slot] <= 0 and not last:
                at += 1
