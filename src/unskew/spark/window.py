"""`window` on slots: rows shuffled once, and a window that needs no further shuffle."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import Window

from unskew.core.chains.plan import ChainPlan
from unskew.core.histogram import DEFAULT_BUCKETS
from unskew.core.plan import Plan
from unskew.spark.kept import Kept
from unskew.spark.keys import Key, key_columns
from unskew.spark.measure import Sample
from unskew.spark.options import Options, hashing_suffices, observed, plan_for
from unskew.spark.slot_expression import slot_column, slot_subquery

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, WindowSpec


def window(
    df: DataFrame,
    key: Key,
    *more: str,
    slots: int | None = None,
    planner: str = "auto",
    plan: Plan | ChainPlan | Kept | str | Path | None = None,
    sample: Sample = "auto",
    weight: str | None = None,
    buckets: int = DEFAULT_BUCKETS,
) -> tuple[DataFrame, WindowSpec]:
    """The rows shuffled by slot, and a window over the key that needs no further shuffle.

    `rows, w = unskew.window(df, "user")` replaces `w = Window.partitionBy("user")`: use `w.orderBy(…)` and
    `.over(w)` on `rows`, which has the columns of `df` and no others. Spark refuses `.over(w)` inside `.agg(…)`:
    aggregate first, then select.
    """
    keys = key_columns(df, key, *more)
    options = Options(slots, planner, plan, sample, weight, buckets)
    options.check(df, keys)
    options.refuse_split("a window needs them whole, so choose another")
    chosen = plan_for([(df, keys)], options, "window", "window")
    (df,) = observed([(df, keys)], options)
    if chosen is None or hashing_suffices(chosen, options):
        return df, Window.partitionBy(*keys.columns())
    rows = df.repartitionById(chosen.slots, slot_column(chosen.table, keys.hash()))
    slot = slot_subquery(chosen.table, keys, df.sparkSession)
    return rows, Window.partitionBy(slot, *keys.columns())
