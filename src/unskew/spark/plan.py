"""A plan that can be applied to a DataFrame."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from unskew.core.plan import Plan as CorePlan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SLOT = "slot"
"""The column that `Plan.apply` adds."""


class Plan(CorePlan):
    """A routing table with what it was made from, and the way to put it on a DataFrame."""

    def apply(self, df: DataFrame, key: str | list[str] | None = None) -> DataFrame:
        """Add the column `slot` and partition by it: `df.transform(plan.apply)`.

        The key is that of the measured DataFrame, unless it is named here. Partition i holds slot i.
        """
        from unskew.spark.keys import field, key_columns
        from unskew.spark.slot_expression import slot_column

        keys = key_columns(df, key if key is not None else list(self.key_names(df)))
        self.check(keys.type)
        if any(name.lower() == SLOT for name in df.columns):
            raise ValueError(f"the DataFrame has a column {field(df, SLOT).name!r} already: rename it first")
        return df.withColumn(SLOT, slot_column(self.table, keys.hash())).repartitionById(self.slots, SLOT)

    def key_names(self, df: DataFrame) -> tuple[str, ...]:
        """The key columns the plan was measured on."""
        names = self.histogram.key_names
        if not names:
            raise ValueError(
                f"the plan does not know its key columns: name them, one or more of {', '.join(df.columns)}"
            )
        return names

    def check(self, key_type: pa.DataType, slots: int | None = None) -> None:
        """Refuse to be used for another key type or another number of slots."""
        planned = self.table.key_type
        if not _same_hash(planned, key_type):
            raise ValueError(
                f"the plan is for {planned} keys, but the key here is {key_type}: measure and plan anew"
            )
        if slots is not None and slots != self.slots:
            raise ValueError(
                f"the plan is for {self.slots} slots, but slots={slots} is asked for: leave slots out, or plan anew "
                f"with unskew.plan(histogram, slots={slots}, previous=plan)"
            )


def _same_hash(a: pa.DataType, b: pa.DataType) -> bool:
    """Whether keys of both types are hashed alike; the names of a composite key's columns do not matter."""
    if pa.types.is_struct(a) and pa.types.is_struct(b):
        fields = [[t.field(i).type for i in range(t.num_fields)] for t in (a, b)]
        return len(fields[0]) == len(fields[1]) and all(map(_same_hash, *fields))
    return bool(a.equals(b))
