"""`join` and `window` on slots."""

from __future__ import annotations

from functools import reduce
from operator import and_
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from unskew.core.plan import Plan
from unskew.spark.keys import Key, KeyColumns, free_name, hashable, key_columns
from unskew.spark.measure import Sample
from unskew.spark.options import Options, plan_for, steps_aside
from unskew.spark.slot_expression import slot_column

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.window import WindowSpec

_HOW = {
    "inner": "inner",
    "cross": "cross",
    "outer": "full",
    "full": "full",
    "fullouter": "full",
    "left": "left",
    "leftouter": "left",
    "right": "right",
    "rightouter": "right",
    "semi": "semi",
    "leftsemi": "semi",
    "anti": "anti",
    "leftanti": "anti",
}


def join(
    left: DataFrame,
    right: DataFrame,
    on: Key,
    how: str = "inner",
    *,
    slots: int | None = None,
    planner: str = "auto",
    plan: Plan | str | Path | None = None,
    sample: Sample = "auto",
    weight: str | None = None,
    buckets: int = 4096,
) -> DataFrame:
    """Join like `left.join(right, on, how)`, both sides shuffled once, by slot, under one plan.

    `on` names columns that both sides have. Every join type of Spark is taken. A null key matches nothing in
    any of them, so rows with a null key are spread over all slots.
    """
    kind = _HOW.get(str(how).lower().replace("_", ""))
    if kind is None:
        raise ValueError(f"there is no join type {how!r}: use one of {', '.join(sorted(_HOW))}")
    options = Options(slots, planner, plan, sample, weight, buckets)
    sides = [(df, key_columns(df, on)) for df in (left, right)]
    names = list(sides[0][1].names)
    if kind == "cross":
        raise ValueError("a cross join has no key to balance: use left.crossJoin(right)")
    if not sides[0][1].type.equals(sides[1][1].type):
        raise ValueError(
            f"the key is {sides[0][1].type} on the left and {sides[1][1].type} on the right: cast one of them"
        )
    for df, keys in sides:
        options.check(df, keys)
    options.refuse_split("a join needs them whole, so choose another")
    chosen = plan_for([(df.where(_has_key(keys)), keys) for df, keys in sides], options)
    if steps_aside(chosen, options):
        return left.join(right, names, how)
    slot = free_name("__slot", left.columns, right.columns)
    routed = [
        df.withColumn(slot, _slot_or_spread(df, keys, chosen)).repartitionById(chosen.slots, slot)
        for df, keys in sides
    ]
    if kind in ("semi", "anti"):
        # Spark pushes these joins below a repartition of the left side, but not below what is not deterministic.
        routed[0] = routed[0].where(F.spark_partition_id() >= 0)
    return routed[0].join(routed[1], [slot, *names], how).drop(slot)


def window(
    df: DataFrame,
    *key: str,
    slots: int | None = None,
    planner: str = "auto",
    plan: Plan | str | Path | None = None,
    sample: Sample = "auto",
    weight: str | None = None,
    buckets: int = 4096,
) -> tuple[DataFrame, WindowSpec]:
    """The rows shuffled by slot, and a window over the key that needs no further shuffle.

    `rows, w = unskew.window(df, "user")` stands for `w = Window.partitionBy("user")`: use `w.orderBy(…)` and
    `.over(w)` on `rows`, which has the columns of `df` and no others. Give the result an alias: the name that Spark
    would make up spells out the whole window, and our part of it is long.
    """
    keys = key_columns(df, key)
    options = Options(slots, planner, plan, sample, weight, buckets)
    options.check(df, keys)
    options.refuse_split("a window needs them whole, so choose another")
    chosen = plan_for([(df, keys)], options)
    if steps_aside(chosen, options):
        return df, Window.partitionBy(*keys.columns())
    slot = slot_column(chosen.table, keys.hash())
    return df.repartitionById(chosen.slots, slot), Window.partitionBy(slot, *keys.columns())


def _slot_or_spread(df: DataFrame, keys: KeyColumns, plan: Plan) -> Column:
    """The slot of the key; rows without one (a null in it) are spread by all their columns."""
    routed = slot_column(plan.table, keys.hash())
    spread = F.pmod(F.xxhash64(*keys.columns(), *hashable(df)), F.lit(plan.slots)).cast("int")
    slot = F.when(_has_key(keys), routed).otherwise(spread)
    return F.coalesce(slot, F.lit(0))  # never null, and Spark knows


def _has_key(keys: KeyColumns) -> Column:
    """No part of the key is null; NaN is a key like any other."""
    return reduce(and_, (part.isNotNull() for part in keys.columns()))
