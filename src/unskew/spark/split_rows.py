"""How the rows of a join's side reach their slots if hot keys are split: dealt out, copied, and shuffled once.

A row of a split key is dealt to one part of its side (a row of the grid for the left side, a column for the right) and
copied to all cells of that part; `core/splitting/grids.py` says why the join is then right. All other rows pay for one
look-up of their hash, and on a side that is copied for an array of one number that is exploded.

Which part a row is dealt to must not change when a task runs again, since its output was lost: a reducer that has read
the first output and one that reads the second would else both get a row, or neither. Rows that are equal in every
column are interchangeable, so it is enough that each part gets the same rows as before, counted with duplicates.

- If the rows of a partition come in the same order whenever it is read (files and the like), their number decides.
- Behind a shuffle they do not. There the rows of split keys are sorted by two hashes of their content, within their
  partition, and then numbered: since the partition has the same rows as before, number n is the same row as before, or
  one that is equal.
- If not all content can be hashed (a variant), a hash of what can be decides: rows that are equal in it are then in one
  part per map task.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from pyspark.sql import functions as F

from unskew.core.splitting.split_plan import SplitPlan
from unskew.spark.join_routing import NUMBER_IN_PARTITION, Side, spread_slot
from unskew.spark.keys import free_name, quoted
from unskew.spark.row_order import content_hashes, has_fixed_order, rough_hash
from unskew.spark.slot_expression import int_list, number_of_hash, shortened, slot_term
from unskew.spark.sql_terms import Term
from unskew.spark.versions.placing import by_slot_and_key

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_GOLDEN = 2654435769
"""2³² divided by the golden ratio: multiples of it, modulo 2³², are spread evenly, also those of every n-th number."""

_RUN_BITS = 3
"""Of a key with a cell on every slot, whose rows are mixed with all others, eight rows that follow each other stay
together if only this side is dealt out: neighbours are alike in many a column, so they need fewer bytes in the shuffle
than rows dealt one by one. Of other keys the rows may be too few for that."""

_HASH_BITS = 40
"""Bits of the content's hash in the number that rows are sorted by; the number of the grid is above them."""


def split_rows(
    side: Side, plan: SplitPlan, which: int, name: str, *, spread: bool, marker: str | None = None
) -> DataFrame:
    """The rows in the partitions of their slots, told apart by the column `name`; `which` is 0 for the left side.

    The column `marker`, if it has a name, says whether the key of the row is one of the split keys.
    """
    df = side.df
    parts, copies = (plan.rows, plan.columns) if which == 0 else (plan.columns, plan.rows)
    grid_name, order_name, part_name, copy_name = (
        free_name(f"__{each}", df.columns, [name]) for each in ("grid", "order", "part", "copy")
    )
    grid, part, copy, home = map(quoted, (grid_name, part_name, copy_name, name))
    number, slot = number_of_hash(plan.hashes, side.key_hash), slot_term(plan.table, side.key_hash)
    if side.has_nulls:
        # these match nothing, so any slot will do, but only one
        number = f"if({side.has_key}, {number}, 0)"
        if spread:
            slot = f"if({side.has_key}, {slot}, {spread_slot(df, plan.slots)})"
    rows = df.selectExpr("*", f"{number} as {grid}", f"{slot} as {home}")
    dealt_out = parts.max(initial=1) > 1
    if dealt_out:
        run = _by_grid(np.where(parts == plan.slots, _RUN_BITS, 0), grid)
        in_runs = f"(shiftright({NUMBER_IN_PARTITION}, {run}) + spark_partition_id())"
        if has_fixed_order(df):
            turn = in_runs
        elif (hashes := content_hashes(df)) is not None:
            # cold rows stay as they come: they are never compared by content
            mask = (1 << _HASH_BITS) - 1
            place = f"cast({grid} - 1 as long) * {1 << _HASH_BITS} + ({hashes[0]} & {mask})"
            as_it_comes = f"monotonically_increasing_id() + ({-(2**63) + 1} - 1)"
            rows = rows.selectExpr(
                "*", f"if({grid} > 0, {place}, {as_it_comes}) as {quoted(order_name)}"
            ).sortWithinPartitions(order_name, *map(F.expr, hashes))
            turn = in_runs
        else:
            turn = f"(({rough_hash(df)} & {(1 << 31) - 1}) + spark_partition_id())"
        rows = rows.selectExpr("*", f"{_part(turn, _by_grid(parts, grid))} as {part}")
    cells, starts = _cells(plan, which)
    cell = _by_grid(starts, grid)
    if copies.max(initial=1) > 1:
        numbers, kinds = np.unique(copies, return_inverse=True)
        lists = ", ".join(["array(0)", *(int_list(np.arange(n)) for n in numbers.tolist())])
        kind = _by_grid(kinds.reshape(-1) + 1, grid)
        rows = rows.selectExpr("*", f"explode(get(array({lists}), {kind})) as {copy}")
        if dealt_out:
            cell = f"{cell} + {part} * {_by_grid(copies, grid)}"
        cell = f"{cell} + {copy}"
    elif dealt_out:
        cell = f"{cell} + {part}"
    dealt = shortened(f"get({int_list(cells)}, {cell})")
    # never null, but only this tells Spark
    rows = rows.withColumn(name, F.expr(f"coalesce(if({grid} > 0, {dealt}, {home}), 0)"))
    if marker is not None:
        rows = rows.withColumn(marker, _is_split_key(side, plan, F.col(grid)))
    rows = rows.drop(grid_name, order_name, part_name, copy_name)
    return by_slot_and_key(rows, plan.slots, name, [each.column() for each in side.parts])


def _part(turn: str, parts: Term) -> str:
    """The part for a turn: turns that follow each other, or follow at any fixed distance, are spread evenly."""
    fraction = f"((({turn} & {(1 << 31) - 1}) * {_GOLDEN}) & {(1 << 32) - 1})"
    return f"cast(shiftright({fraction} * {parts}, 32) as int)"


def _by_grid(numbers: np.ndarray, grid: str) -> Term:
    """The number of each grid; 0 where there is no grid."""
    return shortened(f"get({int_list(np.concatenate([[0], numbers]))}, {grid})")


def _cells(plan: SplitPlan, which: int) -> tuple[np.ndarray, np.ndarray]:
    """The slots of all cells, part by part of this side, and where those of each grid start."""
    starts = plan.offsets[:-1]
    if which == 0:
        return plan.cells, starts
    grids = zip(starts, plan.offsets[1:], plan.rows, plan.columns, strict=True)
    turned = [plan.cells[start:end].reshape(rows, columns).T.ravel() for start, end, rows, columns in grids]
    return np.concatenate([*turned, np.zeros(0, np.int32)]), starts


def _is_split_key(side: Side, plan: SplitPlan, grid: Column) -> Column:
    """Whether the key is split: not another one of the same hash, which the other side may lack."""
    (part,) = side.parts
    kind = side.df.select(part.column()).schema.fields[0].dataType.simpleString()
    keys = F.array(*(F.lit(key).cast(kind) for key in plan.keys.to_pylist()))
    return F.coalesce((grid > 0) & (F.get(keys, grid - 1) == part.column()), F.lit(False))
