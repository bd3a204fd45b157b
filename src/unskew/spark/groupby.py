"""`groupBy` and `cogroup` on slots: the same groups as Spark's, in better balanced partitions."""

from __future__ import annotations

import functools
import inspect
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

from unskew.core.plan import Plan, make_table
from unskew.spark.apply import Settings, in_arrow, in_pandas
from unskew.spark.keys import KeyColumns, column, field, free_name, key_columns
from unskew.spark.measure import Sample
from unskew.spark.options import Options, plan_for, steps_aside
from unskew.spark.slot_expression import slot_column

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, GroupedData
    from pyspark.sql.types import StructType

    from unskew.core.chains.plan import ChainPlan
    from unskew.spark.chain import Chained

_COMBINES = frozenset(
    """any_value approx_count_distinct avg bit_and bit_or bit_xor bool_and bool_or corr count count_if covar_pop
    covar_samp every first first_value kurtosis last last_value max mean min skewness some std stddev stddev_pop
    stddev_samp sum try_avg try_sum var_pop var_samp variance""".split()  # noqa: SIM905 (readable)
)
"""Aggregates whose partial results are small: Spark combines them before the shuffle, so a hot key is one row a map
task and there is no skew to mend. With DISTINCT it shuffles by key and value first, which spreads a hot key, too."""


def group_by(
    df: DataFrame,
    *key: str,
    slots: int | None = None,
    planner: str = "auto",
    plan: Plan | str | Path | None = None,
    sample: Sample = "auto",
    weight: str | None = None,
    buckets: int = 4096,
) -> Grouped:
    """Group by key like `df.groupBy(*key)`, with the keys spread evenly over `slots` partitions.

    Nothing runs until a method of the result is called. Then the key is measured (unless `plan` is given: a
    plan or the path of a saved one), a table is planned, and the rows are shuffled once, by slot. With the planner
    "auto" a key without harmful skew is placed by hash alone.
    """
    keys = key_columns(df, key)
    options = Options(slots, planner, plan, sample, weight, buckets)
    options.check(df, keys)
    return Grouped(df, keys, options)


@dataclass(frozen=True)
class Grouped:
    """Grouped rows, with the methods of PySpark's `GroupedData`."""

    df: DataFrame
    keys: KeyColumns
    options: Options

    @cached_property
    def plan(self) -> Plan | None:
        """The plan that the methods run under, or None where hashing is as good; measures the key."""
        return None if steps_aside(self._planned, self.options) else self._planned

    @cached_property
    def _planned(self) -> Plan:
        return plan_for([(self.df, self.keys)], self.options)

    def applyInPandas(
        self,
        func: Callable[..., Any],
        schema: StructType | str,
        merge: Callable[..., Any] | None = None,
    ) -> DataFrame:
        """Map every group with `func`, as PySpark's method of this name does.

        With `merge` a key that is too heavy for one slot may be split: `func` then sees a part of its rows,
        and `merge` gets the partial results of a key (one or more) and returns the final ones.
        """
        return self._apply("applyInPandas", func, schema, merge)

    def applyInArrow(
        self,
        func: Callable[..., Any],
        schema: StructType | str,
        merge: Callable[..., Any] | None = None,
    ) -> DataFrame:
        """Map every group with `func`, as PySpark's method of this name does; `merge` as in `applyInPandas`."""
        return self._apply("applyInArrow", func, schema, merge)

    def agg(self, *exprs: Column | dict[str, str]) -> DataFrame:
        """Aggregate every group, as PySpark's method of this name does.

        Aggregates that Spark combines before the shuffle (sum, count, max, …) do not suffer from skew and are left to
        plain Spark, unless a plan or a planner was asked for.
        """
        if self._asked() or not all(map(combines, exprs)):
            return self._finish(lambda grouped: grouped.agg(*exprs))  # type: ignore[arg-type]
        return self.df.groupBy(*self.keys.columns()).agg(*exprs)  # type: ignore[arg-type]

    def count(self) -> DataFrame:
        """The number of rows of every group."""
        return self._builtin("count", ())

    def sum(self, *cols: str) -> DataFrame:
        """The sum of each numeric column, or of those named."""
        return self._builtin("sum", cols)

    def avg(self, *cols: str) -> DataFrame:
        """The mean of each numeric column, or of those named."""
        return self._builtin("avg", cols)

    def mean(self, *cols: str) -> DataFrame:
        """The mean of each numeric column, or of those named."""
        return self._builtin("mean", cols)

    def min(self, *cols: str) -> DataFrame:
        """The least value of each numeric column, or of those named."""
        return self._builtin("min", cols)

    def max(self, *cols: str) -> DataFrame:
        """The greatest value of each numeric column, or of those named."""
        return self._builtin("max", cols)

    def pivot(self, pivot_col: str, values: list[Any] | None = None) -> GroupedData:
        """Pivot on a column. Spark combines before it shuffles here, so this is plain Spark's own."""
        return self.df.groupBy(*self.keys.columns()).pivot(pivot_col, values)

    def cogroup(self, other: Grouped) -> Cogrouped:
        """Cogroup with other grouped rows: both sides under one plan."""
        if not isinstance(other, Grouped):
            raise ValueError(f"cogroup takes what unskew.groupBy returns, not {type(other).__name__}")
        if len(self.keys.names) != len(other.keys.names):
            raise ValueError(
                f"cannot cogroup by {self.keys.names} and {other.keys.names}: the keys differ in length"
            )
        if _types(self.keys) != _types(other.keys):
            raise ValueError(
                f"cannot cogroup keys of type {self.keys.type} and {other.keys.type}: cast one of them"
            )
        options = self.options if other.options.alike(Options()) else other.options
        if not self.options.alike(options) and not self.options.alike(Options()):
            raise ValueError(
                "the two sides of a cogroup run under one plan: give one of them the options, or both the same"
            )
        for side in (self, other):
            options.check(side.df, side.keys)
        options.refuse_split("a cogroup needs them whole, so choose another")
        return Cogrouped(self, other, options)

    def thenBy(
        self, *key: str, servers: int | None = None, plan: ChainPlan | str | Path | None = None
    ) -> Chained:
        """Group what this operator puts out by another key, with keys that occur together in one place.

        `unskew.groupBy(df, "region").thenBy("hashtag").applyInPandas(f, …).applyInPandas(g, …)`: `f` maps the groups
        of the first key, `g` those of the second, with one shuffle each, and most records of the second shuffle are
        read where they were written. `servers` and `plan` as in `unskew.plan_chain`.
        """
        from unskew.spark.chain import chained  # it stands on this module

        return chained(self.df, (self.keys.names, key), self.options, servers, plan)

    def _asked(self) -> bool:
        return self.options.plan is not None or self.options.planner != "auto"

    def _builtin(self, name: str, cols: Sequence[str]) -> DataFrame:
        if self._asked():
            return self._finish(lambda grouped: getattr(grouped, name)(*cols))
        plain: DataFrame = getattr(self.df.groupBy(*self.keys.columns()), name)(*cols)
        return plain

    def _finish(self, method: Callable[[GroupedData], DataFrame]) -> DataFrame:
        """Run an aggregation on slots and take the slot out of the result."""
        self.options.refuse_split("an aggregation needs them whole, so choose another")
        plain = method(self.df.groupBy(*self.keys.columns()))
        if self.plan is None:
            return plain
        name = free_name("__slot", self.df.columns, plain.columns)
        return method(self._on_slots(self.plan, name)).drop(name)

    def _on_slots(self, plan: Plan, name: str) -> GroupedData:
        """Rows shuffled by slot and grouped by slot, called `name`, and key.

        The slot is an expression of the key, so grouping by both is grouping by key, and Spark sees that the shuffle
        by slot serves.
        """
        slot = slot_column(plan.table, self.keys.hash())
        shuffled = self.df.repartitionById(plan.slots, slot)
        return shuffled.groupBy(slot.alias(name), *self.keys.columns())

    def _apply(
        self,
        method: str,
        func: Callable[..., Any],
        schema: StructType | str,
        merge: Callable[..., Any] | None,
    ) -> DataFrame:
        if merge is None:
            self.options.refuse_split("pass merge= to combine the partial results")
        plain: DataFrame = getattr(self.df.groupBy(*self.keys.columns()), method)(func, schema)
        if merge is not None:
            self._check_partial(plain)
        plan = self.plan if merge is None else self._split_plan()
        if self._takes_whole_groups(func):
            # also where hashing is as good as any table: a partition as one stream is faster than a stream a group
            result = self._apply_by_partition(plan or self._planned, method, func, schema, plain)
        elif plan is None:
            result = plain
        else:
            result = self._apply_by_group(plan, method, func, schema)
        return result if merge is None else self._merged(result, method, merge, schema)

    def _takes_whole_groups(self, func: Callable[..., Any]) -> bool:
        """Whether `group_apply` can call the function: not one on parts of a group, and not on another Spark.

        It converts with PySpark's internal code, which the workers of another version may not have.
        """
        return self.df.sparkSession.version.startswith("4.3.") and "Iterator" not in _hints(func)

    def _apply_by_partition(
        self, plan: Plan, method: str, func: Callable[..., Any], schema: StructType | str, plain: DataFrame
    ) -> DataFrame:
        """One stream a partition. `plain` is the same as Spark would do it; its schema is the one asked for."""
        apply = in_pandas if method == "applyInPandas" else in_arrow
        keys = [self.df.columns.index(field(self.df, name).name) for name in self.keys.names]
        settings = Settings.of(self.df.sparkSession.conf.get)
        shuffled = self.df.repartitionById(plan.slots, slot_column(plan.table, self.keys.hash()))
        ordered = shuffled.sortWithinPartitions(*self.keys.columns())
        return ordered.mapInArrow(apply(func, _arguments(func), keys, plain.schema, settings), schema)

    def _apply_by_group(
        self, plan: Plan, method: str, func: Callable[..., Any], schema: StructType | str
    ) -> DataFrame:
        """One stream a group, by PySpark's own method."""
        name = free_name("__slot", self.df.columns)
        if plan.table.is_split:
            # a split key's slot is drawn once, into a column: an expression would be drawn anew after the shuffle
            grouped = self._on_slot_column(plan, name)
            func = _without_column(func, 1, name)
        else:
            grouped = self._on_slots(plan, name)
        result: DataFrame = getattr(grouped, method)(_without_slot(func, 1), schema)
        return result

    def _on_slot_column(self, plan: Plan, name: str) -> GroupedData:
        """As `_on_slots`, with the slot as a column called `name`, which the user's function must not see."""
        routed = self.df.withColumn(name, slot_column(plan.table, self.keys.hash()))
        return routed.repartitionById(plan.slots, name).groupBy(column(name), *self.keys.columns())

    def _merged(
        self, partial: DataFrame, method: str, merge: Callable[..., Any], schema: StructType | str
    ) -> DataFrame:
        merged: DataFrame = getattr(partial.groupBy(*self.keys.columns()), method)(merge, schema)
        return merged

    def _check_partial(self, partial: DataFrame) -> None:
        try:
            key_columns(partial, self.keys.names)
        except ValueError as error:
            raise ValueError(
                f"merge= groups the partial results by key, so schema needs it: {error}"
            ) from error

    def _split_plan(self) -> Plan | None:
        """The plan for an operator that can merge: keys above half a slot are split as finely as the heaviest needs."""
        plan = (
            self._planned
        )  # also where auto steps aside: that hashing cannot be bettered holds for whole keys only
        if plan.planner != "auto" or plan.bound <= 1.0:
            return self.plan
        options: dict[str, Any] = {
            "theta": 0.5 / plan.slots,
            "mu": None,
            "choices": max(2, math.ceil(plan.bound)),
        }
        table = make_table("dkg-pkg", plan.histogram, plan.slots, **options)
        return replace(plan, table=table, planner="dkg-pkg", options=options)


@dataclass(frozen=True)
class Cogrouped:
    """Two sets of grouped rows under one plan."""

    left: Grouped
    right: Grouped
    options: Options

    @cached_property
    def plan(self) -> Plan | None:
        """The plan for both sides together, or None where it is left to plain Spark."""
        plan = plan_for([(g.df, g.keys) for g in (self.left, self.right)], self.options)
        return None if steps_aside(plan, self.options) else plan

    def applyInPandas(self, func: Callable[..., Any], schema: StructType | str) -> DataFrame:
        """Map every pair of groups with `func`, as PySpark's method of this name does."""
        return self._apply("applyInPandas", func, schema)

    def applyInArrow(self, func: Callable[..., Any], schema: StructType | str) -> DataFrame:
        """Map every pair of groups with `func`, as PySpark's method of this name does."""
        return self._apply("applyInArrow", func, schema)

    def _apply(self, method: str, func: Callable[..., Any], schema: StructType | str) -> DataFrame:
        sides = (self.left, self.right)
        plan = self.plan
        if plan is None:
            left, right = (g.df.groupBy(*g.keys.columns()) for g in sides)
        else:
            # a column: Spark does not see that two expressions place both sides alike, and would shuffle them again
            name = free_name("__slot", self.left.df.columns, self.right.df.columns)
            left, right = (g._on_slot_column(plan, name) for g in sides)
            func = _without_slot(_without_column(func, 2, name), 2)
        result: DataFrame = getattr(left.cogroup(right), method)(func, schema)
        return result


def combines(expr: Column | dict[str, str]) -> bool:
    """Whether every aggregate in the expression is one that Spark combines before the shuffle.

    Told from the text of the expression; a name that is not known counts as one that does not combine, which is
    never wrong, only slower.

    >>> combines({"x": "sum"}), combines({"x": "collect_list"})
    (True, False)
    """
    names = expr.values() if isinstance(expr, dict) else re.findall(r"([A-Za-z_]\w*)\(", str(expr))
    return bool(names) and {name.lower() for name in names} <= _COMBINES


def _types(keys: KeyColumns) -> list[Any]:
    if len(keys.names) == 1:
        return [keys.type]
    return [keys.type.field(i).type for i in range(keys.type.num_fields)]


def _without_slot(func: Callable[..., Any], inputs: int) -> Callable[..., Any]:
    """The user's function, its key without the slot that stands first in ours; others are left as they are."""
    if _arguments(func) != inputs + 1:
        return func
    return _like(func, lambda key, *rows: func(key[1:], *rows))


def _without_column(func: Callable[..., Any], inputs: int, name: str) -> Callable[..., Any]:
    """The user's function on rows without our slot column; rows are its last `inputs` arguments."""

    def clean(rows: Any) -> Any:
        if hasattr(rows, "drop_columns"):  # Arrow
            return rows.drop_columns([name])
        return rows.drop(columns=[name]) if hasattr(rows, "columns") else map(clean, rows)

    def cleaned(*given: Any) -> Any:
        return func(*given[:-inputs], *map(clean, given[-inputs:]))

    return _like(func, cleaned)


def _like(func: Callable[..., Any], inner: Callable[..., Any]) -> Callable[..., Any]:
    """`inner` with as many arguments as `func`, its type hints and its name: PySpark looks at all of them."""
    arguments = _arguments(func)
    if arguments == 1:
        return functools.wraps(func)(lambda a: inner(a))
    if arguments == 2:
        return functools.wraps(func)(lambda a, b: inner(a, b))
    return functools.wraps(func)(lambda a, b, c: inner(a, b, c))


def _hints(func: Callable[..., Any]) -> str:
    """The types of the function's arguments and result, as text."""
    written = inspect.getfullargspec(func).annotations
    try:
        return f"{written} {get_type_hints(func)}"
    except (
        NameError,
        TypeError,
    ):  # a name that is not known here, a callable object: PySpark goes by the text, too
        return str(written)


def _arguments(func: Callable[..., Any]) -> int:
    return len(inspect.getfullargspec(func).args)
