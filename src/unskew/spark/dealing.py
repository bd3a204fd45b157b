"""How the rows of a key that is split over slots are dealt out: a number from 0 to below 1 for every row.

A task that runs again, since its output was lost, must send every row where it sent it before: a reducer that has read
the first output and one that reads the second would else both get a row, or neither. Rows that are equal in every
column are interchangeable, so what must not change is how many of them each slot gets. Yet a thousand equal rows must
be spread. So a row's number is made from its position in its partition, and the position must not depend on the order
in which rows arrive:

- Files and the like are read in the same order whenever a task runs: their rows are numbered as they come.
- Behind a shuffle rows arrive in any order. The rows of split keys are sorted within their partition by two 64-bit
  hashes of their content, and then numbered. Other rows come first, unsorted: how many there are does not change.
- If the content cannot be hashed as a whole (variants, maps inside other values, two columns of one name), the number
  is a hash of what can be hashed and of the number of the partition. Rows that are equal there then go together,
  partition by partition.

The number is a hash of the position and not the position itself: if two keys alternate, every row of one of them would
have the same turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from unskew.core.routing import RoutingTable
from unskew.spark.keys import KeyColumns, column, free_name, quoted
from unskew.spark.row_order import content_hashes, has_fixed_order, rough_hash
from unskew.spark.slot_expression import slot_column
from unskew.spark.versions.placing import by_seat, seated

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_MOST_NAMED = 1000
"""Split keys that are told apart from others before sorting; with more, all rows are sorted."""


def dealt(df: DataFrame, keys: KeyColumns, table: RoutingTable, name: str) -> DataFrame:
    """The rows with their slot in the column `name`; the slots of a split key share its rows as the table says."""
    if not table.is_split:
        return df.withColumn(name, slot_column(table, keys.hash_term()))
    if has_fixed_order(df):
        return _by_lot(df, keys, table, name, "monotonically_increasing_id()")
    hashes = content_hashes(df)
    if hashes is None:
        return _by_lot(df, keys, table, name, "spark_partition_id()", rough_hash(df))
    split = _is_split(table, keys.hash())
    in_order = df.sortWithinPartitions(*(F.when(split, F.expr(each)) for each in hashes))
    return _by_lot(in_order, keys, table, name, "monotonically_increasing_id()")


def dealt_out(df: DataFrame, keys: KeyColumns, table: RoutingTable, name: str) -> DataFrame:
    """The rows in the partitions of their slots; `name` must be free, and is no column of the result."""
    seat = seated(df.sparkSession, table.slots, column(name))
    return by_seat(dealt(df, keys, table, name), table.slots, seat).drop(name)


def _by_lot(df: DataFrame, keys: KeyColumns, table: RoutingTable, name: str, *made_from: str) -> DataFrame:
    """The rows with their slot, where a number made from these expressions decides about rows of split keys.

    The number is a column of its own, which Spark computes once for every row. Inside the expression of the slot it
    would count only the rows that reach it, and differently in each branch.
    """
    lot, key_hash = (free_name(f"__{each}", df.columns, [name]) for each in ("lot", "hash"))
    # the upper 53 bits of a hash, as a number from 0 to below 1
    number = f"shiftrightunsigned(xxhash64({', '.join(made_from)}), 11) * {2.0**-53!r}D as {quoted(lot)}"
    numbered = df.select("*", F.expr(number), keys.hash().alias(key_hash))
    slot = slot_column(table, quoted(key_hash), quoted(lot))
    return numbered.withColumn(name, slot).drop(lot, key_hash)


def _is_split(table: RoutingTable, key_hash: Column) -> Column:
    hashes = table.hashes[table.lengths > 1].tolist()
    if len(hashes) > _MOST_NAMED:
        return F.lit(True)
    return key_hash.isin(hashes)
