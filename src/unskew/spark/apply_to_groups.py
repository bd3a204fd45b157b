"""A function on groups: where the rows of the groups are put, and how the user's function is called on them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from unskew.core.plan import Plan
from unskew.core.routing import RoutingTable
from unskew.spark.dealing import dealt_out
from unskew.spark.explained import explained
from unskew.spark.keys import KeyColumns, column, field, free_name
from unskew.spark.options import split_plan
from unskew.spark.placed_groups import apply_by_partition, kept_in_place, placed_by_spark
from unskew.spark.placement import placed
from unskew.spark.user_function import without_column, without_slot
from unskew.spark.versions.grouped import check_method, planned, streams_partitions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from unskew.spark.groupby import Grouped


def apply_to_groups(
    groups: Grouped,
    method: str,
    func: Callable[..., Any],
    schema: StructType | str,
    merge: Callable[..., Any] | None,
) -> DataFrame:
    """Map every group with `func`, by PySpark's method of the name `method` or as it would.

    With `merge` the rows of a heavy key may be split, and `merge` makes one result of its partial ones.
    """
    if merge is None:
        groups.options.refuse_split("pass merge= to combine the partial results")
    else:
        groups.options.refuse_whole()
    spark, keys = groups.df.sparkSession, groups.keys
    plain = planned(groups._plain(), spark, method, func, schema)
    if merge is not None:
        _check_partial(plain, keys)
    if keys.obstacle is not None or merge is not None or not streams_partitions(spark):
        check_method(spark, method)
    if keys.obstacle is not None:
        result = plain
    else:
        result = _applied(groups, plain, method, func, schema, splits=merge is not None)
    if merge is None:
        return result
    by_key = result.groupBy(*map(column, keys.result_names))
    merged: DataFrame = getattr(by_key, method)(merge, schema)
    return merged


def _applied(
    groups: Grouped,
    plain: DataFrame,
    method: str,
    func: Callable[..., Any],
    schema: StructType | str,
    *,
    splits: bool,
) -> DataFrame:
    """The results of `func`, one per group, or with `splits` perhaps several; `plain` is what Spark would do."""
    keys, chooses = groups.keys, groups.options.leaves_choice()
    # It uses PySpark's private conversions, which differ by version.
    streams = streams_partitions(groups.df.sparkSession)

    def by_partition(rows: DataFrame) -> DataFrame:
        return apply_by_partition(rows, groups.df.columns, keys, method, func, schema, plain.schema)

    joined = groups._after_join() if streams and not splits else None
    if joined is not None:
        return by_partition(kept_in_place(joined.rows, keys, column(joined.slot)))
    spark_plan = explained(plain) if chooses else None
    table = None if splits else groups._placed_by(spark_plan)
    if table is not None and streams:
        return by_partition(kept_in_place(groups._rows, keys, groups._seat(table)))
    if table is not None:
        return _by_group(groups, groups._rows, table, method, func, schema)
    aside = chooses and groups._steps_aside(spark_plan, "function")
    plan = None if aside else _split_plan(groups) if splits else groups.plan
    rows = groups._rows  # only now is it known whether they are to be observed
    if streams:
        # Also if hashing is as good as any table: a stream per partition is faster than a stream per group.
        in_force = None if aside else plan or groups._plan
        if in_force is None:
            return by_partition(placed_by_spark(rows, keys, spark_plan))
        return by_partition(_in_slots(groups, rows, in_force.table))
    if plan is not None:
        shuffled = _in_slots(groups, rows, plan.table)
        return _by_group(groups, shuffled, plan.table, method, func, schema)
    unplaced: DataFrame = plain if rows is groups.df else getattr(groups._plain(rows), method)(func, schema)
    return unplaced


def _in_slots(groups: Grouped, rows: DataFrame, table: RoutingTable) -> DataFrame:
    """The rows shuffled by slot. Nothing notices later that split keys are placed, since they are not together."""
    if table.is_split:
        return dealt_out(rows, groups.keys, table, free_name("__slot", groups.df.columns))
    return placed(rows, groups.keys, table)


def _by_group(
    groups: Grouped,
    rows: DataFrame,
    table: RoutingTable,
    method: str,
    func: Callable[..., Any],
    schema: StructType | str,
) -> DataFrame:
    """One Arrow stream per group of placed rows, by PySpark's own method."""
    name = free_name("__slot", groups.df.columns)
    if table.is_split:
        # A split key's slot is a column: an expression would be computed again after the shuffle, and differ.
        grouped = groups._on_slot_column(table, name)
        func = without_slot(without_column(func, 1, name), 1, last=True)
    else:
        grouped = groups._by_slot(rows, table, name)
        func = without_slot(func, 1)
    result: DataFrame = getattr(grouped, method)(func, schema)
    return result


def _check_partial(partial: DataFrame, keys: KeyColumns) -> None:
    """Refuse partial results that `merge` cannot be called on, since they lack the key."""
    try:
        for name in keys.result_names:
            field(partial, name)
    except ValueError as error:
        raise ValueError(f"merge= groups the partial results by key, so schema needs it: {error}") from error


def _split_plan(groups: Grouped) -> Plan | None:
    """The plan for an operator that can merge."""
    # Not `groups.plan`: that hashing is as good as any table holds for whole keys only.
    plan = groups._plan
    return None if plan is None else split_plan(plan) or groups.plan
