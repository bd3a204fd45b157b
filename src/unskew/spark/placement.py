"""Rows that are placed already: which table they were placed by, so that no operator shuffles them again.

Rows under a plan were shuffled by an expression that names its table by a fingerprint (`slot_expression`), and Spark's
plan for anything on top of them shows it. Correctness does not depend on what is found here: an operator that groups by
slot and key gets an exchange from Spark wherever the rows are not so placed.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from pyspark.sql import Window
from pyspark.sql import functions as F

from unskew.core.routing import RoutingTable
from unskew.spark.explained import Explained, explained
from unskew.spark.keys import KeyColumns, column
from unskew.spark.slot_expression import fingerprint, seat_column
from unskew.spark.versions.placing import by_seat
from unskew.spark.worth import operator_of, own_exchanges

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_MOST_TABLES = 64
"""A process rarely has more plans in use; the oldest is forgotten, and its rows are then shuffled again."""

_tables: OrderedDict[int, RoutingTable] = OrderedDict()
_lock = threading.Lock()

_FINGERPRINT = re.compile(r"-least\((\d+), ")


def placed(df: DataFrame, keys: KeyColumns, table: RoutingTable) -> DataFrame:
    """The rows shuffled by slot, which later operators by the same key will notice."""
    number = fingerprint(table)
    with _lock:
        _tables[number] = table
        _tables.move_to_end(number)
        while len(_tables) > _MOST_TABLES:
            _tables.popitem(last=False)
    return by_seat(df, table.slots, seat_column(df.sparkSession, table, keys.hash_term()))


def placed_by(
    df: DataFrame, keys: KeyColumns, plan: Explained | None, wanted: RoutingTable | None = None
) -> RoutingTable | None:
    """The table that the rows are placed by already, for this very key; only `wanted`, if that is given.

    `plan` is Spark's for an operator on top of the rows, if it is known. No Spark job runs.
    """
    if not _tables or (wanted is not None and fingerprint(wanted) not in _tables):
        return None
    plan = explained(df) if plan is None else plan
    if plan is None:
        return None
    for node in plan.physical.walk():
        shown = _FINGERPRINT.search(node.text) if node.name == "Exchange" else None
        table = _tables.get(int(shown[1])) if shown else None
        if table is None or (wanted is not None and not table.same_routes(wanted)):
            continue
        if _needs_no_shuffle(df, keys, seat_column(df.sparkSession, table, keys.hash_term())):
            return table
    return None


@dataclass(frozen=True)
class JoinedRows:
    """The rows of a routed join and, as their last column, their slot, which is a function of the columns `names`."""

    rows: DataFrame
    slot: str
    names: tuple[str, ...]
    table: RoutingTable


_joined: WeakKeyDictionary[DataFrame, JoinedRows] = WeakKeyDictionary()


def remember_join(
    result: DataFrame, joined: DataFrame, slot: str, names: Sequence[str], table: RoutingTable
) -> None:
    """Note that `result` is `joined` without the column `slot`.

    A join needs the slot as a column, which its result must not have; so no later plan could name the slot of its rows.
    """
    columns = result.columns
    if len({name.lower() for name in columns}) == len(columns):
        rows = joined.select(*map(column, columns), column(slot))
        _joined[result] = JoinedRows(rows, slot, tuple(names), table)


def joined_rows(df: DataFrame, keys: KeyColumns, wanted: RoutingTable | None = None) -> JoinedRows | None:
    """The rows of a join by this very key, if `df` is its result, placed by `wanted` if that is given."""
    found = _joined.get(df)
    if found is None or not all(isinstance(part, str) for part in keys.parts) or _is_cached(df):
        return None
    same_key = sorted(map(str.lower, keys.names)) == sorted(map(str.lower, found.names))
    same_table = wanted is None or found.table.same_routes(wanted)
    return found if same_key and same_table else None


def _is_cached(df: DataFrame) -> bool:
    """Whether the rows are to be read from a cache, which the rows with their slots would not be."""
    level = df.storageLevel
    return level.useMemory or level.useDisk


def _needs_no_shuffle(df: DataFrame, keys: KeyColumns, slot: Column) -> bool:
    by_slot = Window.partitionBy(slot, *keys.columns())
    plan = explained(df.select("*", F.count(F.lit(1)).over(by_slot).alias("n")))
    return plan is not None and not own_exchanges(operator_of(plan.physical))
