"""Rows in the partitions of their slots, on every version of Spark.

Since 4.1 `DataFrame.repartitionById` takes the number of the partition. Before, rows can only be hashed, to partition
pmod(Murmur3(columns), N). So a slot is replaced by a number that Spark's hash sends to it:

- **One input** (groups, windows, written files): by its *seat*, the least number s ≥ 0 with pmod(Murmur3(s), N) = slot.
  Rows are shuffled by the seat alone, and grouped by seat and key.
- **Two inputs** (joins, cogroups): Spark shuffles both again unless they are hashed by *all* columns that are compared
  (`spark.sql.requireAllClusterKeysForCoPartition`, true by default). So the key is hashed with them, and the slot is
  replaced by a *salt*: the number with pmod(Murmur3(key, salt), N) = slot. Murmur3 can be inverted for one number, so
  the salt is a few operations on Murmur3(key) and the slot. For one key different slots have different salts, and equal
  slots the same one: comparing key and salt is comparing key and slot.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import functions as F

from unskew.core.murmur3 import hash_of_ints, state_before_last_int
from unskew.spark.settings import shuffle_partitions
from unskew.spark.versions.running import version_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_BITS = 0xFFFFFFFF
_SEARCHED = 1 << 16


def seats(spark: SparkSession, slots: int) -> NDArray[np.int32] | None:
    """The seat of each slot: before 4.1; None from 4.1, where a slot is its own seat."""
    return None if version_of(spark).has_partition_ids else searched_seats(slots)


def seated(spark: SparkSession, slots: int, slot: Column) -> Column:
    """The column of slots as seats: before 4.1 looked up in an array, from 4.1 as it is; null only where slots are."""
    numbers = seats(spark, slots)
    if numbers is None:
        return slot
    return F.coalesce(F.get(F.from_json(F.lit(str(numbers.tolist())), "array<int>"), slot), F.lit(0))


def by_seat(df: DataFrame, slots: int, seat: Column | str) -> DataFrame:
    """The rows shuffled by a column of seats: `repartitionById` from 4.1, `repartition` before."""
    if version_of(df.sparkSession).has_partition_ids:
        return df.repartitionById(slots, seat)
    return df.repartition(slots, seat)


def by_slot_column(df: DataFrame, slots: int, slot: str) -> DataFrame:
    """The rows shuffled by their column `slot`, which then tells slots apart: before 4.1 it holds seats."""
    seat = seated(df.sparkSession, slots, F.col(slot))
    if not version_of(df.sparkSession).has_partition_ids:
        df = df.withColumn(slot, seat)
    return by_seat(df, slots, slot)


def by_slot_and_key(df: DataFrame, slots: int, slot: str, keys: Sequence[Column]) -> DataFrame:
    """One of two inputs, shuffled by its column `slot` so that both may be compared by key and by that column.

    Before 4.1 the column then holds salts. Spark would also choose its own number of partitions if both inputs come
    straight from a shuffle into fewer than `spark.sql.shuffle.partitions`: a filter that keeps all rows is between.
    """
    spark = df.sparkSession
    if version_of(spark).has_partition_ids:
        return df.repartitionById(slots, slot)
    salted = df.withColumn(slot, salt_for(keys, F.col(slot), slots))
    shuffled = salted.repartition(slots, *keys, F.col(slot))
    if slots < shuffle_partitions(spark):
        shuffled = shuffled.where(F.spark_partition_id() >= 0)
    return shuffled


def join_may_shuffle_again(spark: SparkSession) -> bool:
    """Whether Spark may shuffle rows once more that `by_slot_and_key` has placed: before 4.1.

    It does so if it compares other expressions than the key, as for floats and for equality that is null-safe.
    """
    return not version_of(spark).has_partition_ids


@lru_cache(maxsize=64)
def searched_seats(slots: int) -> NDArray[np.int32]:
    """The least number for each slot that Spark's hash sends there.

    >>> searched_seats(4).tolist()
    [12, 6, 2, 0]
    """
    found = np.full(slots, -1, np.int32)
    start = 0
    while (found < 0).any():
        # backwards, so that of the numbers for one slot the least is written last
        numbers = np.arange(start, start + _SEARCHED, dtype=np.int32)[::-1]
        targets = hash_of_ints(numbers, 42).astype(np.int64) % slots
        new = found[targets] < 0
        found[targets[new]] = numbers[new]
        start += _SEARCHED
    found.setflags(write=False)
    return found


def salt_for(keys: Sequence[Column], slot: Column, slots: int) -> Column:
    """The number that Spark's hash of the key, continued by it, sends to the slot; 0 where the slot is null.

    Whole numbers of 64 bits that stay far below 2⁶³: with ANSI arithmetic Spark stops at an overflow.
    """
    states = state_before_last_int(np.arange(slots, dtype=np.int32))
    wanted = F.get(F.from_json(F.lit(str(states.astype(np.int64).tolist())), "array<bigint>"), slot)
    mixed = F.hash(*keys).cast("bigint").bitwiseAND(_BITS).bitwiseXOR(wanted)
    mixed = _times(mixed, 0x56ED309B)  # the inverse of 0x1b873593 modulo 2³²
    mixed = F.shiftright(mixed, 15).bitwiseOR(F.shiftleft(mixed.bitwiseAND(0x7FFF), 17))
    mixed = _times(mixed, 0xDEE13BB1)  # the inverse of 0xcc9e2d51
    signed = mixed.bitwiseXOR(1 << 31) - (1 << 31)
    return F.coalesce(signed.cast("int"), F.lit(0))


def _times(number: Column, factor: int) -> Column:
    """The product modulo 2³² of a number below 2³² and a factor below 2³²."""
    low, high = factor & 0xFFFF, factor >> 16
    upper = F.shiftleft((number * high).bitwiseAND(0xFFFF), 16)
    return (number * low + upper).bitwiseAND(_BITS)
