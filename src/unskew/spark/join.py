"""`join` on slots: both sides shuffled once, under one plan."""

from __future__ import annotations

from functools import reduce
from operator import and_
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from unskew.core.chains.plan import ChainPlan
from unskew.core.histogram import DEFAULT_BUCKETS
from unskew.core.plan import Plan
from unskew.spark.kept import Kept
from unskew.spark.keys import Key, KeyColumns, free_name, hashable, key_columns
from unskew.spark.measure import Sample
from unskew.spark.options import Options, hashing_suffices, observed, plan_for
from unskew.spark.slot_expression import slot_column

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

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
    plan: Plan | ChainPlan | Kept | str | Path | None = None,
    sample: Sample = "auto",
    weight: str | None = None,
    buckets: int = DEFAULT_BUCKETS,
) -> DataFrame:
    """Join like `left.join(right, on, how)`, both sides shuffled once, by slot, under one plan.

    `on` names columns that both sides have. Every join type of Spark works, except a cross join. A null key never
    matches, so rows with a null key are spread over all slots.
    """
    kind = _HOW.get(str(how).lower().replace("_", ""))
    if kind is None:
        raise ValueError(f"there is no join type {how!r}: use one of {', '.join(sorted(_HOW))}")
    options = Options(slots, planner, plan, sample, weight, buckets)
    left_keys, right_keys = key_columns(left, on), key_columns(right, on)
    if kind == "cross":
        raise ValueError("a cross join has no key to balance: use left.crossJoin(right)")
    if not left_keys.type.equals(right_keys.type):
        raise ValueError(
            f"the key is {left_keys.type} on the left and {right_keys.type} on the right: cast one of them"
        )
    sides = [(left, left_keys), (right, right_keys)]
    for df, keys in sides:
        options.check(df, keys)
    options.refuse_split("a join needs them whole, so choose another")
    chosen = plan_for([(df.where(_has_key(keys)), keys) for df, keys in sides], options, "join")
    rows = observed(sides, options, skips_null=True)
    names = list(left_keys.names)
    if chosen is None or hashing_suffices(chosen, options):
        return rows[0].join(rows[1], names, how)
    slot = free_name("__slot", left.columns, right.columns)
    routed = [
        df.withColumn(slot, _slot_or_spread(df, keys, chosen)).repartitionById(chosen.slots, slot)
        for df, keys in zip(rows, (left_keys, right_keys), strict=True)
    ]
    if kind in ("semi", "anti"):
        # Spark pushes these joins below a repartition of the left side, but not below a non-deterministic filter.
        routed[0] = routed[0].where(F.spark_partition_id() >= 0)
    return routed[0].join(routed[1], [slot, *names], how).drop(slot)


def _slot_or_spread(df: DataFrame, keys: KeyColumns, plan: Plan) -> Column:
    """The slot of the key; rows with a null in the key are spread by all their columns."""
    routed = slot_column(plan.table, keys.hash())
    spread = F.pmod(F.xxhash64(*keys.columns(), *hashable(df)), F.lit(plan.slots)).cast("int")
    slot = F.when(_has_key(keys), routed).otherwise(spread)
    # never null, but only this tells Spark
    return F.coalesce(slot, F.lit(0))


def _has_key(keys: KeyColumns) -> Column:
    """No part of the key is null; NaN is a key like any other."""
    return reduce(and_, (part.isNotNull() for part in keys.columns()))
