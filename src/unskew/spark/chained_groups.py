"""Chained operators: rows grouped by one key, whose results are grouped by the next, under the plans of a chain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from unskew.core.chains.plan import ChainPlan
from unskew.core.plan import Plan
from unskew.spark.chain import check_chain, plan_chain
from unskew.spark.groupby import Grouped, group_by
from unskew.spark.keys import Key, Part, key_parts
from unskew.spark.no_measure import measuring_allowed, warn_plain
from unskew.spark.options import Options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

Next = TypeVar("Next", covariant=True)
"""What `applyInPandas` of a chain returns: the groups of the next operator."""


@dataclass(frozen=True)
class ChainedGroups(Generic[Next]):
    """Rows grouped by a key, whose results are then grouped by others; what `thenBy` returns.

    `applyInPandas` and `applyInArrow` are those of the first operator. What they return has those of the next operator,
    and the last operator gives a DataFrame.
    """

    df: DataFrame
    keys: tuple[tuple[Part, ...], ...]
    options: Options
    servers: int | None = None
    saved_plan: ChainPlan | None = None

    def thenBy(self, key: Key, *more: Part) -> ChainedGroups[PlannedChain[Next]]:
        """One more operator after these."""
        keys = (*self.keys, key_parts(key, *more))
        check_chain(self.df, keys, self.options, self.servers, self.saved_plan)
        return ChainedGroups(self.df, keys, self.options, self.servers, self.saved_plan)

    @cached_property
    def plan(self) -> ChainPlan:
        """The tables of all operators: those of the saved plan, else measures the keys and plans."""
        if self.saved_plan is not None:
            return self.saved_plan
        return plan_chain(
            self.df,
            self.keys,
            slots=self.options.slots,
            servers=self.servers,
            sample=self.options.sample,
            buckets=self.options.buckets,
        )

    def __repr__(self) -> str:
        source = "saved plan" if self.saved_plan is not None else self.options.summary()
        return f"ChainedGroups({_path(self.keys)}, {source})"

    def applyInPandas(self, func: Callable[..., Any], schema: StructType | str) -> Next:
        """Map every group of the first key with `func`; returns the rows grouped by the next key."""
        return self._planned().applyInPandas(func, schema)

    def applyInArrow(self, func: Callable[..., Any], schema: StructType | str) -> Next:
        """Map every group of the first key with `func`; returns the rows grouped by the next key."""
        return self._planned().applyInArrow(func, schema)

    def _planned(self) -> PlannedChain[Next]:
        if self.saved_plan is None and not measuring_allowed(self.df):
            warn_plain("groupBy")
            return PlannedChain(self.df, self.keys, (None,) * len(self.keys))
        return PlannedChain(self.df, self.keys, self.plan.plans)


@dataclass(frozen=True)
class PlannedChain(Generic[Next]):
    """Rows and the two or more operators that are still to run on them, each with its plan."""

    df: DataFrame
    keys: tuple[tuple[Part, ...], ...]
    plans: tuple[Plan | None, ...]

    def __repr__(self) -> str:
        plan = self.plans[0]
        return f"PlannedChain({_path(self.keys)}, {'plain Spark' if plan is None else f'{plan.slots} slots'})"

    def applyInPandas(self, func: Callable[..., Any], schema: StructType | str) -> Next:
        """Map every group of the next key with `func`."""
        return self._after(self._grouped().applyInPandas(func, schema))

    def applyInArrow(self, func: Callable[..., Any], schema: StructType | str) -> Next:
        """Map every group of the next key with `func`."""
        return self._after(self._grouped().applyInArrow(func, schema))

    def _grouped(self) -> Grouped:
        return group_by(self.df, self.keys[0], plan=self.plans[0])

    def _after(self, result: DataFrame) -> Next:
        rest: PlannedChain[Any] = PlannedChain(result, self.keys[1:], self.plans[1:])
        return cast("Next", rest if len(rest.keys) > 1 else rest._grouped())


def _path(keys: Sequence[tuple[Part, ...]]) -> str:
    return ", then ".join(f"by {', '.join(map(_label, parts))}" for parts in keys)


def _label(part: Part) -> str:
    # str(column) is Column<'its text'>
    return part if isinstance(part, str) else str(part).removeprefix("Column<'").removesuffix("'>")
