"""A window over pieces of hot keys, as a Spark query: one shuffle of the rows, and a summary of the hot keys beside it.

    rows ──▶ interval ──▶ piece(s), slot ──shuffle──▶ functions on each piece ──▶ own rows ──▶ results
    rows of hot keys ──▶ figures by interval ──▶ figures before, behind and of all, by piece ──broadcast──▶ ┘

The summary reads the hot keys' rows a second time, only the columns that it needs, and combines them before it
shuffles. Functions that look at a few neighbours only (`lag`, bounded frames) need none. Should there be other rows
when they are read again, or fewer near a cut than the sample promised, the query fails and says so. It counts rows:
other values in as many rows go unnoticed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING, Any

from pyspark.sql import Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from unskew.spark.keys import KeyColumns, column
from unskew.spark.over_functions import EDGE, ROWS, Call, Part, Total, part_of
from unskew.spark.over_layout import Layout, Reach
from unskew.spark.over_order import OrderColumn, Values, before
from unskew.spark.row_order import rough_hash
from unskew.spark.slot_expression import slot_column
from unskew.spark.versions.placing import by_seat, seated

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

PREFIX = "__u_"
"""How the columns begin that are there while the window is computed."""

_HOME, _INTERVAL, _PIECE, _SLOT, _COPY, _TIE, _OF = (
    f"{PREFIX}{name}" for name in ("home", "interval", "piece", "slot", "copy", "tie", "of")
)
_BACK, _AHEAD, _SEEN, _BAD = (f"{PREFIX}{name}" for name in ("back", "ahead", "seen", "bad"))

_CHANGED = (
    "unskew.over read other rows than it measured: the input is not the same whenever it is read; "
    "write it to a table or checkpoint it first"
)


def cut_window(
    df: DataFrame,
    source: DataFrame,
    keys: KeyColumns,
    order: Sequence[OrderColumn],
    calls: Sequence[Call],
    layout: Layout,
    result: T.StructType,
) -> DataFrame:
    """The rows of `df` with the functions' results, in the columns that `result` describes.

    `source` has the same rows, for the summary.
    """
    reach = reduce(or_, (call.reach for call in calls), Reach())
    needs_edges = any(call.needs_edge for call in calls)
    counts_ties = bool(reach) or needs_edges
    interval = _interval(layout)  # made once: it takes many calls to Spark
    rows = _with_intervals(df, keys, layout, interval)
    rows = _routed(rows, layout, copies=bool(reach), ties=counts_ties)
    by_piece = Window.partitionBy(*keys.columns(), F.col(_SLOT))
    sorts = [each.sort for each in order]
    by_order = by_piece.orderBy(*sorts)
    # Copied rows must be in the same order in both pieces, or a row might be its neighbour's neighbour in one only.
    by_row = by_piece.orderBy(*sorts, F.col(_TIE)) if counts_ties else by_order
    values = F.struct(*(_value(each).alias(f"o{i}") for i, each in enumerate(order)))
    parts = [
        part_of(call, i, by_row if call.counts_rows else by_order, values, result[call.name].dataType)
        for i, call in enumerate(calls)
    ]
    totals = _merged_totals(parts)
    counted = {name: expr for part in parts if part.call.counts_rows for name, expr in part.on_piece.items()}
    if reach.rows_before:
        counted[_BACK] = F.lag(F.lit(1), reach.rows_before).over(by_row)
    if reach.rows_after:
        counted[_AHEAD] = F.lead(F.lit(1), reach.rows_after).over(by_row)
    if totals:
        counted[_SEEN] = F.count(F.lit(1)).over(by_row.rowsBetween(-(2**63), 2**63 - 1))
    others = {
        name: expr for part in parts if not part.call.counts_rows for name, expr in part.on_piece.items()
    }
    # In this order the rows are sorted once: an order by row is also one by order value.
    for columns in (counted, others):
        if columns:
            rows = rows.select("*", *(expr.alias(name) for name, expr in columns.items()))
    if reach:
        rows = rows.where(F.col(_COPY) == 0)
    if totals:
        hot = _with_intervals(source, keys, layout, interval).where(F.col(_HOME) >= layout.slots)
        summary = _summary(hot, keys, layout, totals)
        if needs_edges:
            edges = _edges(hot, keys, order, layout, parts)
            same = [F.col(f"{PREFIX}k{i}").eqNullSafe(F.col(f"{PREFIX}e{i}")) for i in range(len(keys.names))]
            summary = summary.join(F.broadcast(edges), reduce(and_, same), "left")
        here = [
            expr.eqNullSafe(F.col(f"{PREFIX}k{i}"))
            for i, expr in enumerate(F.col(f"{PREFIX}h{i}") for i in range(len(keys.names)))
        ]
        rows = rows.select("*", *(expr.alias(f"{PREFIX}h{i}") for i, expr in enumerate(keys.columns())))
        rows = rows.join(F.broadcast(summary), reduce(and_, here, F.col(_PIECE) == F.col(_OF)), "left")
    rows = rows.select("*", _is_bad(layout, reach, bool(totals)).alias(_BAD))
    results = {part.call.name: _result(part, result[part.call.name]) for part in parts}
    return rows.select(
        *(results.get(each.name, column(each.name)).alias(each.name, **_metadata(each)) for each in result)
    )


def _metadata(each: T.StructField) -> dict[str, Any]:
    return {"metadata": each.metadata} if each.metadata else {}


def _interval(layout: Layout) -> Column:
    """The interval of a row whose hot key has the number in `_HOME`, -1 for rows of other keys."""
    home = F.col(_HOME)
    interval = F.when(home < layout.slots, F.lit(-1))
    for i, key in enumerate(layout.keys):
        tree = _tree(layout.order, key.places, key.first_interval, 0, len(key.places))
        interval = interval.when(home == layout.slots + i, tree)
    return F.coalesce(interval, F.lit(-1)).alias(_INTERVAL)


def _with_intervals(df: DataFrame, keys: KeyColumns, layout: Layout, interval: Column) -> DataFrame:
    """The rows with the number of their hot key or the slot of any other, and the number of their interval."""
    return df.select("*", slot_column(layout.table, keys.hash_term()).alias(_HOME)).select("*", interval)


def _tree(order: Sequence[OrderColumn], places: Sequence[Values], first: int, low: int, high: int) -> Column:
    """The interval of a row among numbers `low` to `high`, in as many comparisons as their number has bits."""
    if low == high:
        return F.lit(first + low)
    middle = (low + high) // 2
    is_left = before(order, places[middle])
    left, right = _tree(order, places, first, low, middle), _tree(order, places, first, middle + 1, high)
    return F.when(is_left, left).otherwise(right)


def _routed(rows: DataFrame, layout: Layout, *, copies: bool, ties: bool) -> DataFrame:
    """Rows with their intervals in the partitions of their slots, those near a cut in several."""
    content = F.expr(rough_hash(rows.drop(_HOME, _INTERVAL)))
    interval = F.col(_INTERVAL)
    if copies:
        targets = F.when(interval < 0, F.array(F.lit(-1))).otherwise(
            F.get(_literal(layout.targets, "array<array<int>>"), interval)
        )
        rows = rows.select("*", F.posexplode(targets).alias(_COPY, _PIECE))
    else:
        owners = [each[0] for each in layout.targets]
        owner = F.coalesce(F.get(_literal(owners, "array<int>"), interval), F.lit(-1))
        rows = rows.select("*", owner.alias(_PIECE))
    slot = F.when(F.col(_PIECE) < 0, F.col(_HOME)).otherwise(_of_piece(layout.slot_of, "int"))
    slot = seated(rows.sparkSession, layout.slots, F.coalesce(slot, F.lit(0)))
    rows = rows.select("*", slot.alias(_SLOT)).drop(_HOME, _INTERVAL)
    rows = by_seat(rows, layout.slots, F.col(_SLOT))
    if not ties:
        return rows
    # behind the shuffle, which random numbers would make larger by half
    return rows.select("*", F.when(F.col(_PIECE) >= 0, content).otherwise(F.lit(0)).alias(_TIE))


def _summary(hot: DataFrame, keys: KeyColumns, layout: Layout, totals: Sequence[Total]) -> DataFrame:
    """For each piece of each hot key the figures of the rows before, behind and of all; a row for each piece."""
    names = [f"{PREFIX}k{i}" for i in range(len(keys.names))]
    by_key = [expr.alias(name) for expr, name in zip(keys.columns(), names, strict=True)]
    by_interval = hot.groupBy(*by_key, _INTERVAL).agg(*(total.of_rows.alias(total.name) for total in totals))
    siblings = F.get(_literal(layout.siblings, "array<array<int>>"), F.col(_INTERVAL))
    pieces = by_interval.select("*", F.explode(siblings).alias(_OF))
    interval = F.col(_INTERVAL)
    low, high = (F.get(_literal(bounds, "array<int>"), F.col(_OF)) for bounds in (layout.low, layout.high))
    among = {"before": interval < low, "after": interval >= high, "all": F.lit(True)}
    figures = [
        total.merged(F.when(among[side], F.col(total.name))).alias(name)
        for total in totals
        for side, name in total.columns()
    ]
    seen = F.sum(F.when((interval >= low) & (interval < high), F.col(ROWS))).alias(f"{ROWS}_seen")
    return pieces.groupBy(*names, _OF).agg(*figures, seen)


def _edges(
    hot: DataFrame, keys: KeyColumns, order: Sequence[OrderColumn], layout: Layout, parts: Sequence[Part]
) -> DataFrame:
    """The values in the first and last row of each hot key, found among the rows beyond the sampled ones."""
    cut = [replace(each, value=each.shortened()) for each in layout.order]
    is_first, is_last = F.lit(False), F.lit(False)
    for i, key in enumerate(layout.keys):
        mine = F.col(_HOME) == layout.slots + i
        tied = reduce(
            and_, (each.ties(value) for each, value in zip(cut, key.least, strict=False)), F.lit(True)
        )
        is_first = is_first | (mine & (before(cut, key.least) | tied))
        is_last = is_last | (mine & ~before(cut, key.greatest))
    outermost = hot.select(
        "*",
        *(expr.alias(f"{PREFIX}e{i}") for i, expr in enumerate(keys.columns())),
        is_first.alias(f"{PREFIX}is_first"),
        is_last.alias(f"{PREFIX}is_last"),
        F.expr(rough_hash(hot.drop(_HOME, _INTERVAL))).alias(_TIE),
    ).where(F.col(f"{PREFIX}is_first") | F.col(f"{PREFIX}is_last"))
    names = [f"{PREFIX}e{i}" for i in range(len(keys.names))]
    by_row = Window.partitionBy(*names).orderBy(*(each.sort for each in order), F.col(_TIE))
    whole = by_row.rowsBetween(-(2**63), 2**63 - 1)
    values = [
        part.call.applied(part.call.function.name).over(whole).alias(f"{EDGE}_{i}")
        for i, part in enumerate(parts)
        if part.call.needs_edge
    ]
    known = F.first(f"{PREFIX}is_first").over(whole) & F.last(f"{PREFIX}is_last").over(whole)
    return (
        outermost.select(
            *names, *values, known.alias(f"{EDGE}_known"), F.row_number().over(by_row).alias("n")
        )
        .where(F.col("n") == 1)
        .drop("n")
    )


def _is_bad(layout: Layout, reach: Reach, has_summary: bool) -> Column:
    """Whether a row's piece does not see all that it has to."""
    problems = []
    if reach.rows_before:
        problems.append(_of_piece(layout.is_cut_below, "boolean") & F.col(_BACK).isNull())
    if reach.rows_after:
        problems.append(_of_piece(layout.is_cut_above, "boolean") & F.col(_AHEAD).isNull())
    if has_summary:
        problems.append(~F.col(_SEEN).eqNullSafe(F.col(f"{ROWS}_seen")))
    is_hot = F.col(_PIECE) >= 0
    return is_hot & reduce(or_, problems, F.lit(False)) if problems else F.lit(False)


def _result(part: Part, described: T.StructField) -> Column:
    value = F.col(part.plain_name)
    if part.on_hot is not None:
        value = F.when(F.col(_PIECE) >= 0, part.on_hot.cast(described.dataType)).otherwise(value)
    bad = F.col(_BAD)
    if part.call.needs_edge:
        bad = bad | ((F.col(_PIECE) >= 0) & ~F.coalesce(F.col(f"{EDGE}_known"), F.lit(False)))
    # Not as the other branch of a CASE: that would tell Spark that the value may be null.
    value = F.coalesce(F.when(bad, F.raise_error(F.lit(_CHANGED)).cast(described.dataType)), value)
    if described.nullable or not isinstance(described.dataType, T.NumericType):
        return value
    return F.coalesce(value, F.lit(0).cast(described.dataType))  # never null, but only this tells Spark


def _merged_totals(parts: Sequence[Part]) -> list[Total]:
    """The figures of all functions, each once; the number of rows among them if there are any."""
    totals: dict[str, Total] = {}
    for part in parts:
        for total in part.totals:
            known = totals.get(total.name)
            sides = total.sides if known is None else tuple(dict.fromkeys((*known.sides, *total.sides)))
            totals[total.name] = replace(total, sides=sides)
    if totals and ROWS not in totals:
        totals[ROWS] = Total(ROWS, F.count(F.lit(1)), F.sum, ())
    return list(totals.values())


def _value(order: OrderColumn) -> Column:
    return F.lit(0) if order.value is None else order.value


def _of_piece(figures: Sequence[Any], kind: str) -> Column:
    return F.get(_literal(figures, f"array<{kind}>"), F.col(_PIECE))


def _literal(values: Any, spark_type: str) -> Column:
    # as text that Spark folds into a literal: one by one through the Python API would take seconds
    return F.from_json(F.lit(json.dumps(values, separators=(",", ":"))), spark_type)
