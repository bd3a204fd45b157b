"""A routing table as a Spark expression, computed in the JVM.

The expression needs no join and no column of its own. Buckets are an array literal. A heavy hash is in one
of two cells of another array (cuckoo hashing), so a record costs two look-ups however many keys are heavy. The arrays
are written as JSON text that Spark's optimizer folds into literals: building 10⁴ elements one by one through the
Python API would take seconds.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import functions as F

from unskew.core.hashing import Hashes
from unskew.core.routing import RoutingTable
from unskew.spark.keys import lots

if TYPE_CHECKING:
    from pyspark.sql import Column

_SHIFTS = (12, 36)
"""Where in the hash its two cell numbers start: not at the bits that give the bucket."""

_MAX_BITS = 22
"""At most 4M cells: hashes that still collide then were made to."""


def slot_column(table: RoutingTable, key_hash: Column) -> Column:
    """The slot of a record as an expression over the hash of its key; never null.

    Equal to `RoutingTable.slot_of_hashes`. If the table has split rows, a record of a heavy key draws one of its
    slots, which makes the expression non-deterministic.
    """
    buckets = len(table.buckets)
    if buckets & (buckets - 1) == 0:
        bucket = key_hash.bitwiseAND(F.lit(buckets - 1)).cast("int")
    else:
        bucket = F.pmod(key_hash, F.lit(buckets)).cast("int")
    slot = F.get(_literal(table.buckets.tolist(), "array<int>"), bucket)
    if len(table.hashes):
        cells, keys = cuckoo_cells(table.hashes)
        held = _literal(keys.tolist(), "array<bigint>")
        slots = _slots_by_cell(table, cells)
        first, second = (_cell(key_hash, shift, len(cells)) for shift in _SHIFTS)
        slot = (
            F.when(F.get(held, first) == key_hash, slots(first))
            .when(F.get(held, second) == key_hash, slots(second))
            .otherwise(slot)
        )
    # The arrays hold no null, but Spark cannot know: without this a join would filter on the slot again.
    return F.coalesce(slot, F.lit(0))


def cuckoo_cells(hashes: Hashes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For each cell the table row in it or -1, and the hash to compare with.

    Every row is in one of the two cells that its hash points to. An empty cell holds a number that points to
    other cells, so that no hash matches there.
    """
    bits = max(4, int(2 * len(hashes) - 1).bit_length())
    while bits <= _MAX_BITS:
        cells = _place(hashes, bits)
        if cells is not None:
            empty = np.arange(len(cells), dtype=np.int64) ^ 1
            held = np.where(cells >= 0, hashes[cells], (empty << _SHIFTS[0]) | (empty << _SHIFTS[1]))
            return cells, held
        bits += 1
    raise ValueError(f"{len(hashes)} heavy keys cannot be laid out: too many of their hashes collide")


def _place(hashes: Hashes, bits: int) -> NDArray[np.int64] | None:
    mask = (1 << bits) - 1
    unsigned = hashes.view(np.uint64)
    homes = [
        ((unsigned >> np.uint64(shift)) & np.uint64(mask)).astype(np.int64).tolist() for shift in _SHIFTS
    ]
    cells = [-1] * (mask + 1)
    for row in range(len(hashes)):
        moving, cell = row, homes[0][row]
        for _ in range(100):
            moving, cells[cell] = cells[cell], moving
            if moving < 0:
                break
            first, second = homes[0][moving], homes[1][moving]
            cell = second if cell == first else first
        else:
            return None
    return np.array(cells, dtype=np.int64)


def _cell(key_hash: Column, shift: int, cells: int) -> Column:
    return F.shiftrightunsigned(key_hash, shift).bitwiseAND(F.lit(cells - 1)).cast("int")


def _slots_by_cell(table: RoutingTable, cells: NDArray[np.int64]) -> Any:
    """Cell column → slot column."""
    rows = cells.tolist()
    if not table.is_split:
        slots = _literal([int(table.heavy_slots[r]) if r >= 0 else 0 for r in rows], "array<int>")
        return lambda cell: F.get(slots, cell)
    ends = table.offsets.tolist()
    choices = [table.choices[ends[r] : ends[r + 1]].tolist() if r >= 0 else [0] for r in rows]
    split = _literal(choices, "array<array<int>>")
    # Drawn, not in turn: if two keys alternate, every record of one of them would have the same turn.
    lot = lots()

    def slot(cell: Column) -> Column:
        row = F.get(split, cell)
        return F.get(row, F.floor(lot * F.size(row)).cast("int"))

    return slot


def _literal(values: Iterable[Any], spark_type: str) -> Column:
    return F.from_json(F.lit(json.dumps(values, separators=(",", ":"))), spark_type)
