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

from collections import Counter
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from unskew.core.routing import RoutingTable
from unskew.spark.explained import explained
from unskew.spark.keys import KeyColumns, column, free_name
from unskew.spark.slot_expression import slot_column

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_FIXED_ORDER = frozenset(
    """CollectMetrics ColumnarToRow EmptyRelation FileScan Filter LocalTableScan Project Range Union
    """.split()  # noqa: SIM905 (readable)
)
"""Operators that yield the rows of a partition in the same order whenever they run."""

_MOST_NAMED = 1000
"""Split keys that are told apart from others before sorting; with more, all rows are sorted."""


def dealt(df: DataFrame, keys: KeyColumns, table: RoutingTable, name: str) -> DataFrame:
    """The rows with their slot in the column `name`; the slots of a split key share its rows as the table says."""
    if not table.is_split:
        return df.withColumn(name, slot_column(table, keys.hash()))
    if has_fixed_order(df):
        return _by_lot(df, keys, table, name, F.monotonically_increasing_id())
    content = _content(df)
    if content is None:
        return _by_lot(df, keys, table, name, F.spark_partition_id(), *_hashable_columns(df))
    # the second hash starts from another state, so that what collides in the first does not collide in it
    hashes = (F.xxhash64(*content), F.xxhash64(F.lit(1), *content))
    split = _is_split(table, keys.hash())
    in_order = df.sortWithinPartitions(*(F.when(split, each) for each in hashes))
    return _by_lot(in_order, keys, table, name, F.monotonically_increasing_id())


def dealt_out(df: DataFrame, keys: KeyColumns, table: RoutingTable, name: str) -> DataFrame:
    """The rows in the partitions of their slots; `name` must be free, and is no column of the result."""
    return dealt(df, keys, table, name).repartitionById(table.slots, name).drop(name)


def has_fixed_order(df: DataFrame) -> bool:
    """Whether the rows of a partition arrive in the same order whenever they are read; no Spark job runs."""
    plan = explained(df)
    return plan is not None and all(node.name in _FIXED_ORDER for node in plan.physical.walk())


def _by_lot(df: DataFrame, keys: KeyColumns, table: RoutingTable, name: str, *made_from: Column) -> DataFrame:
    """The rows with their slot, where a number made from these columns decides about rows of split keys.

    The number is a column of its own, which Spark computes once for every row. Inside the expression of the slot it
    would count only the rows that reach it, and differently in each branch.
    """
    lot = free_name("__lot", df.columns, [name])
    # the upper 53 bits of a hash, as a number from 0 to below 1
    numbered = df.withColumn(lot, F.shiftrightunsigned(F.xxhash64(*made_from), 11) * F.lit(2.0**-53))
    return numbered.withColumn(name, slot_column(table, keys.hash(), column(lot))).drop(lot)


def _is_split(table: RoutingTable, key_hash: Column) -> Column:
    hashes = table.hashes[table.lengths > 1].tolist()
    if len(hashes) > _MOST_NAMED:
        return F.lit(True)
    return key_hash.isin(hashes)


def _content(df: DataFrame) -> list[Column] | None:
    """Columns whose hashes are equal only if rows are equal in every byte; None if there are none that say so.

    Spark hashes 0.0 and -0.0 alike, and strings that a collation takes for equal: their text tells them apart.
    """
    columns = _hashable_columns(df)
    if len(columns) < len(df.columns):
        return None
    texts = [
        each.cast("string")
        for each, field in zip(columns, df.schema.fields, strict=True)
        if _hides_differences(field.dataType)
    ]
    return [*columns, *texts]


def _hashable_columns(df: DataFrame) -> list[Column]:
    """The columns that Spark can hash and whose names are unambiguous."""
    count = Counter(name.lower() for name in df.columns)
    columns = [
        _as_hashed(column(each.name), each.dataType)
        for each in df.schema.fields
        if count[each.name.lower()] == 1
    ]
    return [each for each in columns if each is not None]


def _as_hashed(value: Column, data_type: T.DataType) -> Column | None:
    """The value, or the entries of a map, which Spark can hash although it refuses maps; None for what it cannot."""
    if isinstance(data_type, T.MapType):
        hashable = _is_hashable(data_type.keyType) and _is_hashable(data_type.valueType)
        return F.map_entries(value) if hashable else None
    return value if _is_hashable(data_type) else None


def _is_hashable(data_type: T.DataType) -> bool:
    if isinstance(data_type, T.ArrayType):
        return _is_hashable(data_type.elementType)
    if isinstance(data_type, T.StructType):
        return all(_is_hashable(each.dataType) for each in data_type.fields)
    return not isinstance(data_type, T.MapType | T.VariantType | T.UserDefinedType)


def _hides_differences(data_type: T.DataType) -> bool:
    if isinstance(data_type, T.ArrayType):
        return _hides_differences(data_type.elementType)
    if isinstance(data_type, T.StructType):
        return any(_hides_differences(each.dataType) for each in data_type.fields)
    if isinstance(data_type, T.MapType):
        return _hides_differences(data_type.keyType) or _hides_differences(data_type.valueType)
    if isinstance(data_type, T.StringType):
        return data_type != T.StringType()
    return isinstance(data_type, T.FloatType | T.DoubleType)
