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
from unskew.spark.kept import Kept
from unskew.spark.keys import Key, KeyColumns, Part, check_batch, grouping_columns
from unskew.spark.measure import Sample
from unskew.spark.options import Options, hashing_suffices, observed, plan_for
from unskew.spark.placement import placed, placed_by
from unskew.spark.sampling import measured_columns
from unskew.spark.slot_expression import slot_subquery
from unskew.spark.worth import reason_to_step_aside, requires_all_keys

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, WindowSpec


def window(
    df: DataFrame,
    key: Key,
    *more: Part,
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
    aggregate first, then select. Put functions over one window into one `select`: each `withColumn` sorts again.

    >>> from pyspark.sql import functions as F
    >>> clicks = spark.createDataFrame([("ann", 2), ("ann", 4), ("bob", 3)], "user string, n int")
    >>> rows, by_user = unskew.window(clicks, "user")
    >>> rows.withColumn("place", F.row_number().over(by_user.orderBy("n"))).orderBy("n").show()
    +----+---+-----+
    |user|  n|place|
    +----+---+-----+
    | ann|  2|    1|
    | bob|  3|    1|
    | ann|  4|    2|
    +----+---+-----+
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
    wanted = options.known_plan
    if wanted is not None or options.leaves_choice():
        table = placed_by(df, keys, None, None if wanted is None else wanted.table)
        if table is not None:
            return df, Window.partitionBy(slot_subquery(table, keys, df.sparkSession), *keys.columns())
    chosen = None
    if not (options.leaves_choice() and _steps_aside(df, keys, options, plain)):
        chosen = plan_for([(df, keys)], options, "window", "window")
    (df,) = observed([(df, keys)], options)
    if chosen is None or hashing_suffices(chosen, options):
        return df, plain
    rows = placed(df, keys, chosen.table)
    slot = slot_subquery(chosen.table, keys, df.sparkSession)
    return rows, Window.partitionBy(slot, *keys.columns())


def _steps_aside(df: DataFrame, keys: KeyColumns, options: Options, plain: WindowSpec) -> bool:
    """Whether plain Spark should do this; a kept plan needs no measuring."""
    counted = df.select("*", F.count(F.lit(1)).over(plain).alias("n"))

    def measured() -> list[DataFrame]:
        return [measured_columns(df, keys, options.weight)]

    reason = reason_to_step_aside(
        explained(counted), "window", df.sparkSession, None if options.known_plan else measured
    )
    return reason is not None
