"""A routing table as a Spark expression, computed in the JVM.

The expression needs no join and no column of its own. Buckets are an array literal. A heavy hash is in one
of two cells of another array (cuckoo hashing), so a record costs two look-ups however many keys are heavy. The arrays
are written as JSON text that Spark's optimizer folds into literals: building 10⁴ elements one by one through the
Python API would take seconds. For the same reason the whole expression is SQL text (`sql_terms`).

Spark prints a literal in full wherever it prints the expression, but of a function only the first arguments: 25, unless
`spark.sql.debug.maxToStringFields` says otherwise. So the look-up is the 26th argument of `least`, after 25 numbers
that are never less: a fingerprint of the table, a number made from the key, and zeros. However large the table is,
plans then show

    -least(1385914204, bit_count(xxhash64(user#0, 42)), 0, 0, …, 0, ... 1 more fields)

The name of a column without an alias is another text, in which nothing is cut; `slot_subquery` has a short one there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import xxhash
from numpy.typing import NDArray
from pyspark.sql import functions as F

from unskew.core.hashing import Hashes
from unskew.core.routing import RoutingTable
from unskew.spark import sql_terms
from unskew.spark.keys import KeyColumns
from unskew.spark.sql_terms import Term
from unskew.spark.versions import placing, subqueries

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

Numbers = NDArray[np.int32] | NDArray[np.int64]

_SHIFTS = (12, 36)
"""Where in the hash its two cell numbers start: not at the bits that give the bucket."""

_MAX_BITS = 22
"""At most 4M cells: hashes that still collide then were made to."""

_SHOWN_ARGUMENTS = 25
"""Spark's default of `spark.sql.debug.maxToStringFields`."""

_FUNCTIONS = {
    "current_date",
    "current_time",
    "current_timestamp",
    "current_user",
    "grouping__id",
    "localtimestamp",
    "now",
    "session_user",
    "user",
}
"""What Spark takes for a function, where there is no such column, before it looks outside a subquery."""


def slot_column(
    table: RoutingTable, key_hash: Term, lot: str | None = None, seats: Numbers | None = None
) -> Column:
    """`slot_term` as a column."""
    return sql_terms.as_column(slot_term(table, key_hash, lot, seats))


def slot_term(
    table: RoutingTable, key_hash: Term, lot: str | None = None, seats: Numbers | None = None
) -> Term:
    """The slot of a record as an expression over the hash of its key; never null.

    Equal to `RoutingTable.slot_of_hashes`. If the table has split rows, `lot` (from 0 to below 1, and evenly
    distributed) decides which slot of a split row a record goes to, and both are SQL text; see `dealing`. In the text
    of plans the expression starts with `-least(f, `, where f is the table's `fingerprint`. With `seats`, one number for
    each slot, the expression has these instead of the slots (see `unskew.spark.versions.placing`).
    """
    if table.is_split and (lot is None or not isinstance(key_hash, str)):
        raise ValueError("the table splits keys over slots: pass a lot for each record")
    # Spark takes a common part of an expression, here the hash, from the same computation.
    slot = _look_up(table, key_hash, lot, seats)
    return shortened(slot, str(fingerprint(table)), sql_terms.call("bit_count", key_hash))


def shortened(number: Term, *shown: Term) -> Term:
    """A number of 0 or more, of whose expression plans show only the terms `shown`, which are 0 or more as well."""
    # Only there to be read: minus the number is at most 0, which is never more than these.
    padding = ["0"] * (_SHOWN_ARGUMENTS - len(shown))
    # The arrays hold no null, but only the literals tell Spark: else a join would filter on the slot again.
    return sql_terms.minus(sql_terms.call("least", *shown, *padding, sql_terms.minus(number)))


def number_of_hash(hashes: Hashes, key_hash: Term) -> Term:
    """The number of a hash among `hashes`, which are distinct, counted from 1; 0 if it is none of them."""
    cells, keys = cuckoo_cells(hashes)
    numbers = int_list(cells + 1)
    number = _held(keys, key_hash, lambda cell: sql_terms.get(numbers, cell), "0")
    return shortened(number, sql_terms.call("bit_count", key_hash))


def int_list(values: NDArray[Any], spark_type: str = "array<int>") -> str:
    """Whole numbers as a literal array, in SQL."""
    return _literal(values.tolist(), spark_type)


def slot_subquery(table: RoutingTable, keys: KeyColumns, session: SparkSession) -> Column:
    """The expression of `slot_column` over the hash of `keys`, called `scalarsubquery(<keys>)` in names of columns.

    Only keys given by name can be looked up from inside a subquery, and only since Spark 4.0; else it is `slot_column`
    itself. So it is for names that mean a function of SQL there, such as `user`.

    It is a subquery over one row that is read from nowhere. Spark's optimizer replaces it by the expression inside, and
    then sees that rows shuffled by `slot_column` need no further shuffle. Spark allows it where columns are computed,
    not in `repartitionById` or next to aggregates.
    """
    seats = placing.seats(session, table.slots)
    by_name = all(isinstance(part, str) and part.lower() not in _FUNCTIONS for part in keys.parts)
    if not by_name or not subqueries.allowed(session):
        return slot_column(table, keys.hash_term(), seats=seats)
    # Without a column: one of the name of a key would hide the key.
    one_row = session.sql("SELECT 1").select()
    key_hash = F.xxhash64(*(column.outer() for column in keys.columns()))
    slot = slot_column(table, "hash", seats=seats).alias("slot")
    return one_row.select(key_hash.alias("hash")).select(slot).scalar()


def seat_column(session: SparkSession, table: RoutingTable, key_hash: Term) -> Column:
    """What rows are shuffled by and grouped by to be placed by the table: `slot_column`, of seats before Spark 4.1."""
    return slot_column(table, key_hash, seats=placing.seats(session, table.slots))


def fingerprint(table: RoutingTable) -> int:
    """A number from 1 to 2³¹ - 1 made from all that decides where records go; the version of the table is not.

    >>> a, b = (RoutingTable.build(4, np.arange(8) % 4, ["x"], [slot]) for slot in (1, 2))
    >>> fingerprint(a) == fingerprint(a), fingerprint(a) == fingerprint(b)
    (True, False)
    """
    sizes = [table.slots, len(table.buckets), len(table.hashes)]
    content = np.concatenate([sizes, table.buckets, table.hashes, table.offsets, table.choices])
    if table.shares is not None:
        content = np.concatenate([content, table.shares.view(np.int64)])
    return xxhash.xxh64_intdigest(content.astype("<i8").tobytes()) % (2**31 - 1) + 1


def _look_up(table: RoutingTable, key_hash: Term, lot: str | None, seats: Numbers | None) -> Term:
    numbers = np.arange(table.slots) if seats is None else seats
    bucket = sql_terms.remainder(key_hash, len(table.buckets))
    slot = sql_terms.get(int_list(numbers[table.buckets]), bucket)
    if not len(table.hashes):
        return slot
    cells, keys = cuckoo_cells(table.hashes)
    return _held(keys, key_hash, _slots_by_cell(table, cells, lot, numbers), slot)


def _held(keys: NDArray[np.int64], key_hash: Term, of_cell: Callable[[Term], Term], otherwise: Term) -> Term:
    """What belongs to the cell that holds the hash, of the two cells that it points to."""
    held = int_list(keys, "array<bigint>")
    mask = len(keys) - 1
    cells = [sql_terms.low_bits(key_hash, shift, mask) for shift in _SHIFTS]
    cases = [(sql_terms.equal(sql_terms.get(held, cell), key_hash), of_cell(cell)) for cell in cells]
    return sql_terms.first_of(cases, otherwise)


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


def _slots_by_cell(
    table: RoutingTable, cells: NDArray[np.int64], lot: str | None, numbers: Numbers
) -> Callable[[Term], Term]:
    """Cell → number of its slot, both as terms."""
    rows = np.maximum(cells, 0)
    if not table.is_split:
        slots = int_list(np.where(cells >= 0, numbers[table.heavy_slots[rows]], 0))
        return lambda cell: sql_terms.get(slots, cell)
    keep, other = alias_tables(table)
    first, length = int_list(table.offsets[:-1][rows]), int_list(table.lengths[rows])
    choices, others = int_list(numbers[table.choices]), int_list(numbers[other])
    keeps = _literal(keep.tolist(), "array<double>")

    def slot(cell: Term) -> Term:
        drawn = f"({lot} * get({length}, {cell}))"
        whole = f"cast(floor({drawn}) as int)"
        entry = f"(get({first}, {cell}) + {whole})"
        kept = f"{drawn} - {whole} < get({keeps}, {entry})"
        return f"if({kept}, get({choices}, {entry}), get({others}, {entry}))"

    return slot


def alias_tables(table: RoutingTable) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    """For each entry of `choices` the part of its turn that it keeps, and the slot that gets the rest.

    A row of n slots is drawn from in constant time: each slot has one of n equal turns, keeps as much of it as its
    share allows, and leaves the rest to one other slot whose share exceeds 1/n. Walker's alias method, as in Vose, "A
    linear algorithm for generating random numbers with a given distribution", IEEE TSE 1991.

    >>> table = RoutingTable.build(3, [0, 1, 2], ["a"], [[1, 2]], heavy_shares=[[1, 3]])
    >>> [each.tolist() for each in alias_tables(table)]
    [[0.5, 1.0], [2, 2]]
    """
    keep, other = np.ones(len(table.choices)), table.choices.copy()
    if table.shares is None:
        return keep, other
    ends = table.offsets.tolist()
    for row in np.flatnonzero(table.lengths > 1).tolist():
        entries = range(ends[row], ends[row + 1])
        left = {entry: float(table.shares[entry]) * len(entries) for entry in entries}
        small = [entry for entry in entries if left[entry] < 1.0]
        large = [entry for entry in entries if left[entry] >= 1.0]
        while small and large:
            entry, donor = small.pop(), large[-1]
            keep[entry], other[entry] = left[entry], table.choices[donor]
            left[donor] -= 1.0 - left[entry]
            if left[donor] < 1.0:
                small.append(large.pop())
    return keep, other


def _literal(values: Iterable[Any], spark_type: str) -> str:
    return f"from_json('{json.dumps(values, separators=(',', ':'))}', '{spark_type}')"
