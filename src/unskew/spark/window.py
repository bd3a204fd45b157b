"""`window` on slots: rows shuffled once, and a window that needs no further shuffle."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from unskew.core.chains.plan import ChainPlan
from unskew.core.histogram import DEFAULT_BUCKETS
from unskew.core.plan import Plan
from unskew.spark.explained import explained
from unskew.spark.keys import Key, Part, check_batch, grouping_columns
from unskew.spark.measure import Sample
from unskew.spark.options import Options, hashing_suffices, plan_for
from unskew.spark.slot_expression import slot_column
from unskew.spark.worth import reason_to_step_aside, requires_all_keys

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, WindowSpec


def window(
    df: DataFrame,
    key: Key,
    *more: Part,
    slots: int | None = None,
    planner: str = "auto",
    plan: Plan | ChainPlan | str | Path | None = None,
    sample: Sample = "auto",
    weight: str | None = None,
    buckets: int = DEFAULT_BUCKETS,
) -> tuple[DataFrame, WindowSpec]:
    """The rows shuffled by slot, and a window over the key that needs no further shuffle.

    `rows, w = unskew.window(df, "user")` replaces `w = Window.partitionBy("user")`: use `w.orderBy(…)` and
    `.over(w)` on `rows`, which has the columns of `df` and no others. Give the result an alias: the name that Spark
    makes up spells out the whole window, and our part of it is long.
    """
    check_batch(df)
    keys = grouping_columns(df, key, *more)
    options = Options(slots, planner, plan, sample, weight, buckets)
    plain = Window.partitionBy(*keys.columns())
    if keys.obstacle is not None:
        return df, plain
    options.check(df, keys)
    options.refuse_split("a window needs them whole, so choose another")
    if requires_all_keys(df.sparkSession):
        return df, plain
    if options.leaves_choice():
        counted = df.select("*", F.count(F.lit(1)).over(plain).alias("n"))
        measured = df.select(
            *(expr.alias(f"k{i}") for i, expr in enumerate(keys.exprs)), *([weight] if weight else [])
        )
        if reason_to_step_aside(explained(counted), "window", df.sparkSession, [measured]) is not None:
            return df, plain
    plan = plan_for([(df, keys)], options)
    if hashing_suffices(plan, options):
        return df, plain
    slot = slot_column(plan.table, keys.hash())
    return df.repartitionById(plan.slots, slot), Window.partitionBy(slot, *keys.columns())
