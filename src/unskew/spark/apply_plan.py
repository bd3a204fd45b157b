"""A plan on a DataFrame: the slot of every record as a column, and the records partitioned by it.

`Plan.apply` calls this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from unskew.spark.dealing import dealt
from unskew.spark.keys import Key, Part, check_frame, column, field, key_columns
from unskew.spark.versions.placing import by_seat, seated

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from unskew.core.plan import Plan

SLOT = "slot"
"""The column that `Plan.apply` adds."""


def apply_plan(plan: Plan, df: DataFrame, key: Key | None = None, *more: Part) -> DataFrame:
    """The DataFrame with the column `slot`, partitioned by it; the key is the measured one unless it is named."""
    check_frame(df)
    keys = key_columns(df, plan.key_names(df) if key is None else key, *more)
    plan.check(keys.type)
    if any(name.lower() == SLOT for name in df.columns):
        raise ValueError(f"the DataFrame has a column {field(df, SLOT).name!r} already: rename it first")
    seat = seated(df.sparkSession, plan.slots, column(SLOT))
    return by_seat(dealt(df, keys, plan.table, SLOT), plan.slots, seat)
