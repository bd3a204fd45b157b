"""`cogroup` on slots: two sets of grouped rows under one plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from unskew.core.plan import Plan
from unskew.spark.explained import explained
from unskew.spark.keys import free_name
from unskew.spark.options import Options, hashing_suffices, observed, plan_for
from unskew.spark.sampling import measured_columns
from unskew.spark.user_function import without_column, without_slot
from unskew.spark.versions.grouped import check_method
from unskew.spark.versions.private import is_remote
from unskew.spark.worth import reason_to_step_aside, requires_all_keys

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from unskew.spark.groupby import Grouped


@dataclass(frozen=True)
class Cogrouped:
    """Two sets of grouped rows under one plan; what `Grouped.cogroup` returns."""

    left: Grouped
    right: Grouped
    options: Options

    @cached_property
    def plan(self) -> Plan | None:
        """The plan for both sides together, or None if hashing is as good; measures both sides."""
        sides = (self.left, self.right)
        if any(side.keys.obstacle is not None for side in sides):
            return None
        plan = plan_for([(side.df, side.keys) for side in sides], self.options, "cogroup", "cogroup")
        return None if plan is None or hashing_suffices(plan, self.options) else plan

    def __repr__(self) -> str:
        return f"Cogrouped(by {self.left.keys} and by {self.right.keys}, {self.options.summary()})"

    def applyInPandas(self, func: Callable[..., Any], schema: StructType | str) -> DataFrame:
        """Map every pair of groups with `func`, as PySpark's method of this name does."""
        return self._apply("applyInPandas", func, schema)

    def applyInArrow(self, func: Callable[..., Any], schema: StructType | str) -> DataFrame:
        """Map every pair of groups with `func`, as PySpark's method of this name does."""
        return self._apply("applyInArrow", func, schema)

    def _apply(self, method: str, func: Callable[..., Any], schema: StructType | str) -> DataFrame:
        spark = self.left.df.sparkSession
        check_method(spark, method)
        plan = None
        if not self._steps_aside(method, func, schema):
            plan = self.plan
        rows = [self.left.df, self.right.df]
        # On Connect the client of Spark 4.3 drops what the right side of a cogroup observed.
        if self.options.plan is not None and not is_remote():
            rows = observed([(side.df, side.keys) for side in (self.left, self.right)], self.options)
        sides = [
            replace(side, df=df, options=Options())
            for side, df in zip((self.left, self.right), rows, strict=True)
        ]
        if plan is None or requires_all_keys(spark):
            left, right = (side._plain() for side in sides)
        else:
            # A column: Spark does not see that two expressions place both sides alike, and would shuffle them again.
            name = free_name("__slot", self.left.df.columns, self.right.df.columns)
            left, right = (side._on_slot_column(plan.table, name, cogrouped=True) for side in sides)
            func = without_slot(without_column(func, 2, name), 2, last=True)
        result: DataFrame = getattr(left.cogroup(right), method)(func, schema)
        return result

    def _steps_aside(self, method: str, func: Callable[..., Any], schema: StructType | str) -> bool:
        """Whether plain Spark should do this; a kept plan needs no measuring."""
        if not self.options.leaves_choice():
            return False
        plain: DataFrame = getattr(self.left._plain().cogroup(self.right._plain()), method)(func, schema)
        reason = reason_to_step_aside(
            explained(plain),
            "cogroup",
            plain.sparkSession,
            None if self.options.known_plan else self._measured,
        )
        return reason is not None

    def _measured(self) -> list[DataFrame]:
        """The columns of both sides that measuring reads."""
        return [measured_columns(side.df, side.keys, self.options.weight) for side in (self.left, self.right)]
