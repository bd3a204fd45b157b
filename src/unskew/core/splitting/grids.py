"""How finely a hot key of a join is split: a grid of cells, and a slot for each cell.

A key with l rows on the left and r on the right gets a grid of `rows` × `columns` cells. Each of its left rows is dealt
to one row of the grid and copied to all cells of that row; each of its right rows is dealt to one column and copied to
all cells of that column. So a left and a right row of the key meet in exactly one cell: where its row and its column
cross. The cells of a key are on distinct slots, so they meet in exactly one slot, too.

Grids of this kind are due to Okcan and Riedewald (1-Bucket-Theta, SIGMOD 2011, section 4), who use one for a whole
join. SharesSkew (Afrati et al., EDBT 2015) and Flow-Join (Rödiger et al., ICDE 2016) use them for hot keys only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unskew.core.histogram import Floats
from unskew.core.join_load import JoinType
from unskew.core.routing import Slots
from unskew.core.scheduling import fill

# a load that reaches its target but for rounding
_ROUNDING = 1e-9

_EVERYWHERE = 4
"""Keys that may get a cell on every slot: each makes the table longer by as many entries as there are slots."""

_DEALT = 400
"""Rows of a key for each row or column of such a grid. They may be dealt by eights: eight more or less are then two in
a hundred."""


def dealt_sides(kind: JoinType) -> tuple[bool, bool]:
    """Whether the left and the right rows of a key may be dealt out, so that those of the other side are copied.

    - A row that is emitted when it matches nothing may not be copied: each copy would be emitted. So a left, a semi and
      an anti join deal out the left side and copy the right; a right join is the mirror image. Every row that may stay
      unmatched is then in one cell, together with all rows of its key of the other side, so it is emitted unmatched if
      and only if it matches none of them, whatever else the condition asks for.
    - An inner join emits only matches, and every pair meets once: it may do both.
    - A full join may do both for keys that are on both sides, if equality is the whole condition: each of their rows
      matches somewhere, so none of them may be emitted unmatched, and all that are can be dropped.
    """
    both = kind in ("inner", "full")
    return both or kind in ("left", "semi", "anti"), both or kind == "right"


@dataclass(frozen=True, eq=False)
class HotKeys:
    """What a join does with some keys: the rows of both sides, the load of reading them, and that of the output."""

    left_rows: Floats
    right_rows: Floats
    left_load: Floats
    right_load: Floats
    output_load: Floats

    def __len__(self) -> int:
        return len(self.left_rows)

    def cell_loads(self, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> Floats:
        """The load of one cell of each key under a grid of `rows` × `columns`."""
        return self.left_load / rows + self.right_load / columns + self.output_load / (rows * columns)

    def copied(self, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> Floats:
        """How many rows of each key are copied, beyond those that there are."""
        return self.left_rows * (columns - 1) + self.right_rows * (rows - 1)


def shapes(
    keys: HotKeys, kind: JoinType, slots: int, target: float, most_copied: float, spared: float = 0.0
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows and the columns of each key's grid: 1 × 1 for a key that stays whole.

    `keys` are listed heaviest first. Each gets the grid that copies least of those whose cells have at most the load
    `target`, or else the grid whose cells have the least load; the copies of all of them are at most `most_copied`.

    But a key of more than `target` gets as many cells as there are slots if `spared` copies are enough for that, and
    for the keys before it. Then each slot has the same part of the key, so they are even however far its load, or the
    cost of a row emitted, is misjudged.

    >>> one = np.array([1.0])
    >>> fact = HotKeys(9000 * one, one, 9000 * one, one, 9000 * one)
    >>> [int(n[0]) for n in shapes(fact, "inner", slots=8, target=6000.0, most_copied=10.0)]
    [4, 1]
    >>> [int(n[0]) for n in shapes(fact, "inner", slots=8, target=6000.0, most_copied=10.0, spared=7.0)]
    [8, 1]
    >>> product = HotKeys(20 * one, 20 * one, 20 * one, 20 * one, 400 * one)
    >>> [int(n[0]) for n in shapes(product, "inner", slots=8, target=130.0, most_copied=50.0)]
    [2, 2]
    """
    rows, columns = np.ones(len(keys), np.int64), np.ones(len(keys), np.int64)
    sides = dealt_sides(kind)
    whole = keys.left_load + keys.right_load + keys.output_load
    for number, key in enumerate(np.flatnonzero(whole > target * (1 + _ROUNDING)).tolist()):
        everywhere = None
        if number < _EVERYWHERE:
            everywhere = _everywhere(keys, key, sides, slots, min(spared, most_copied))
        rows[key], columns[key], copied = everywhere or _shape(keys, key, sides, slots, target, most_copied)
        most_copied -= copied
        if everywhere:
            spared -= copied
    return rows, columns


def _everywhere(
    keys: HotKeys, key: int, sides: tuple[bool, bool], slots: int, spared: float
) -> tuple[int, int, float] | None:
    """The grid of one key with a cell for every slot that copies least, and what it copies; None if that is too much.

    Each row and each column of the grid has to get enough of the key's rows, or its cells would not be alike.
    """
    left_rows, right_rows = keys.left_rows[key], keys.right_rows[key]
    rows = np.arange(1, slots + 1)
    rows = rows[slots % rows == 0]
    columns = slots // rows
    copied = left_rows * (columns - 1) + right_rows * (rows - 1)
    fits = copied <= spared
    for parts, deals, dealt in ((rows, sides[0], left_rows), (columns, sides[1], right_rows)):
        fits &= (parts == 1) | (deals & (dealt >= _DEALT * parts))
    if not fits.any():
        return None
    best = int(np.argmin(np.where(fits, copied, np.inf)))
    return int(rows[best]), int(columns[best]), float(copied[best])


def _shape(
    keys: HotKeys, key: int, sides: tuple[bool, bool], slots: int, target: float, most_copied: float
) -> tuple[int, int, float]:
    """The grid of one key, and what it copies. For every number of rows, as many columns as the target needs."""
    left, right, output = keys.left_load[key], keys.right_load[key], keys.output_load[key]
    left_rows, right_rows = keys.left_rows[key], keys.right_rows[key]
    rows = np.arange(1, slots + 1 if sides[0] else 2)
    columns = np.ones(len(rows), np.int64)
    if sides[1]:
        room = target - left / rows
        with np.errstate(divide="ignore", invalid="ignore"):
            needed = np.where(room > 0, np.ceil((right + output / rows) / room - _ROUNDING), math.inf)
            affordable = (most_copied - right_rows * (rows - 1)) / left_rows + 1 if left_rows else math.inf
        limit = np.minimum(slots // rows, np.floor(affordable))
        columns = np.maximum(np.minimum(needed, limit), 1).astype(np.int64)
    load = left / rows + right / columns + output / (rows * columns)
    copied = left_rows * (columns - 1) + right_rows * (rows - 1)
    load[copied > most_copied] = math.inf
    reached = load <= target * (1 + _ROUNDING)
    if reached.any():
        best = np.lexsort((rows * columns, np.where(reached, copied, math.inf)))[0]
    else:
        best = np.lexsort((copied, load))[0]
    if load[best] >= left + right + output:
        return 1, 1, 0.0
    return int(rows[best]), int(columns[best]), float(copied[best])


def place(weights: Floats, cells: NDArray[np.int64], loads: Floats) -> tuple[Slots, Floats]:
    """A slot for every cell of every item, heaviest cell first, and the loads of the slots afterwards.

    Item i has `cells[i]` cells that weigh `weights[i]` each; the slots already carry `loads`, which are not changed. A
    cell goes to the least loaded slot, and the cells of an item go to distinct slots, which are listed item by item.

    >>> place(np.array([3.0, 2.0]), np.array([1, 2]), np.zeros(2))[0].tolist()
    [0, 1, 0]
    """
    if len(cells) and cells.max() > len(loads):
        raise ValueError(
            f"{cells.max()} cells of one key cannot be on distinct slots: there are {len(loads)}"
        )
    loads = loads.copy()
    starts = np.cumsum(cells) - cells
    slots = np.zeros(int(cells.sum()), np.int32)
    order = np.argsort(-weights, kind="stable")
    # between two split items, all whole ones at once
    for batch in np.split(
        order, np.flatnonzero(np.diff(cells[order] > 1, prepend=False) | (cells[order] > 1))
    ):
        if not len(batch):
            continue
        if cells[batch[0]] > 1:
            item = batch[0]
            chosen = np.argsort(loads, kind="stable")[: cells[item]].astype(np.int32)
            slots[starts[item] : starts[item] + cells[item]] = chosen
            loads[chosen] += weights[item]
        else:
            chosen = fill(weights[batch], loads)
            slots[starts[batch]] = chosen
            loads += np.bincount(chosen, weights[batch], len(loads))
    return slots, loads
