"""`groupBy`, `cogroup` and `thenBy` on slots: the same groups as Spark's, in better balanced partitions.

The classes here return each other, so they share a module: `Grouped` (by `groupBy`), `ChainedGroups` (by `thenBy`) and
`PlannedChain` (what is left of a chain after its first operator).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from unskew.core.chains.plan import ChainPlan
from unskew.core.histogram import DEFAULT_BUCKETS
from unskew.core.plan import Plan
from unskew.core.routing import RoutingTable
from unskew.spark.chain import check_chain, plan_chain
from unskew.spark.cogrouped import Cogrouped
from unskew.spark.combining import combines
from unskew.spark.dealing import dealt, dealt_out
from unskew.spark.explained import Explained, explained
from unskew.spark.kept import Kept, KeptPlan
from unskew.spark.keys import (
    Key,
    KeyColumns,
    Part,
    check_batch,
    column,
    field,
    free_name,
    grouping_columns,
    key_parts,
)
from unskew.spark.measure import Sample
from unskew.spark.no_measure import measuring_allowed, warn_plain
from unskew.spark.options import Options, hashing_suffices, observed, plan_for, split_plan
from unskew.spark.pivoted import Pivoted
from unskew.spark.placed_groups import apply_by_partition, kept_in_place, placed_by_spark
from unskew.spark.placement import JoinedRows, joined_rows, placed, placed_by
from unskew.spark.sampling import measured_columns
from unskew.spark.slot_expression import slot_column
from unskew.spark.user_function import without_column, without_slot
from unskew.spark.worth import MEASURING, Kind, reason_to_step_aside, requires_all_keys

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, GroupedData
    from pyspark.sql.types import StructType

Next = TypeVar("Next", covariant=True)
"""What `applyInPandas` of a chain returns: the groups of the next operator."""


def group_by(
    df: DataFrame,
    key: Key,
    *more: Part,
    slots: int | None = None,
    planner: str = "auto",
    plan: Plan | ChainPlan | Kept | str | Path | None = None,
    sample: Sample = "auto",
    weight: str | None = None,
    buckets: int = DEFAULT_BUCKETS,
) -> Grouped:
    """Group by key like `df.groupBy(key, *more)`, with the keys spread evenly over `slots` partitions.

    Nothing runs until a method of the result is called. Then the key is measured (unless `plan` is given: a
    plan or the path of a saved one), a table is planned, and the rows are shuffled once, by slot. With the planner
    "auto" a key without harmful skew is placed by hash alone.
    """
    check_batch(df)
    keys = grouping_columns(df, key, *more)
    options = Options(slots, planner, plan, sample, weight, buckets)
    if keys.obstacle is None:
        options.check(df, keys)
    return Grouped(df, keys, options)


@dataclass(frozen=True)
class Grouped:
    """Grouped rows, with the methods of PySpark's `GroupedData`; what `unskew.groupBy` returns."""

    df: DataFrame
    keys: KeyColumns
    options: Options

    @cached_property
    def plan(self) -> Plan | None:
        """The plan that the methods run under, or None if hashing is as good; measures the key."""
        return None if self._plan is None or hashing_suffices(self._plan, self.options) else self._plan

    @cached_property
    def _plan(self) -> Plan | None:
        """The plan even if hashing is as good; None if rows cannot be placed by this key."""
        if self.keys.obstacle is not None:
            return None
        return plan_for([(self.df, self.keys)], self.options)

    @cached_property
    def _rows(self) -> DataFrame:
        """The rows, counted while the user's job runs if the plan is a kept one."""
        return observed([(self.df, self.keys)], self.options)[0]

    def __repr__(self) -> str:
        return f"Grouped(by {self.keys}, {self.options.summary()})"

    def applyInPandas(
        self,
        func: Callable[..., Any],
        schema: StructType | str,
        merge: Callable[..., Any] | None = None,
    ) -> DataFrame:
        """Map every group with `func`, as PySpark's method of this name does.

        With `merge` a key that is too heavy for one slot may be split: `func` then gets a part of its rows,
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
        return self._aggregate(lambda grouped: grouped.agg(*exprs))  # type: ignore[arg-type]

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

    def apply(self, udf: Any) -> DataFrame:
        """Map every group with a `pandas_udf` of the kind GROUPED_MAP, which PySpark has deprecated."""
        self._plain().apply(udf)  # warns, and refuses what is no such function
        return self.applyInPandas(udf.func, udf.returnType)

    def applyInPandasWithState(self, *args: Any, **kwargs: Any) -> DataFrame:
        """Plain Spark's own: it keeps state between the batches of a stream. See `unskew.stream` for state on slots."""
        return self._plain().applyInPandasWithState(*args, **kwargs)

    def transformWithState(self, *args: Any, **kwargs: Any) -> DataFrame:
        """Plain Spark's own. See `unskew.stream` for state on slots."""
        return self._plain().transformWithState(*args, **kwargs)

    def transformWithStateInPandas(self, *args: Any, **kwargs: Any) -> DataFrame:
        """Plain Spark's own. See `unskew.stream` for state on slots."""
        return self._plain().transformWithStateInPandas(*args, **kwargs)

    def pivot(self, pivot_col: str, values: list[Any] | None = None) -> Pivoted:
        """Pivot on a column, as PySpark's method of this name does."""
        return Pivoted(self, pivot_col, values)

    def cogroup(self, other: Grouped) -> Cogrouped:
        """Cogroup with other grouped rows: both sides under one plan."""
        if not isinstance(other, Grouped):
            raise ValueError(f"cogroup takes what unskew.groupBy returns, not {type(other).__name__}")
        if len(self.keys.names) != len(other.keys.names):
            raise ValueError(
                f"cannot cogroup by {self.keys.names} and {other.keys.names}: the keys differ in length"
            )
        if self.keys.types() != other.keys.types():
            raise ValueError(
                f"cannot cogroup keys of type {self.keys.type} and {other.keys.type}: cast one of them"
            )
        options = self.options if other.options.alike(Options()) else other.options
        if not self.options.alike(options) and not self.options.alike(Options()):
            raise ValueError(
                "the two sides of a cogroup run under one plan: give one of them the options, or both the same"
            )
        for side in (self, other):
            if side.keys.obstacle is None:
                options.check(side.df, side.keys)
        options.refuse_split("a cogroup needs them whole, so choose another")
        return Cogrouped(self, other, options)

    def thenBy(
        self,
        key: Key,
        *more: Part,
        servers: int | None = None,
        plan: Plan | ChainPlan | str | Path | None = None,
    ) -> ChainedGroups[Grouped]:
        """Group the output of this operator by another key, with keys that occur together in one place.

        `unskew.groupBy(df, "region").thenBy("hashtag").applyInPandas(f, …).applyInPandas(g, …)`: `f` maps the groups
        of the first key, `g` those of the second, with one shuffle each, and most records of the second shuffle are
        read where they were written. `servers` and `plan` as in `unskew.plan_chain`.
        """
        if isinstance(plan, str | Path):
            plan = ChainPlan.load(plan)
        if plan is not None and not isinstance(plan, ChainPlan):
            raise ValueError(
                f"plan is what unskew.plan_chain returns or the path of a saved one, not a {type(plan).__name__}"
            )
        chain = (self.keys.parts, key_parts(key, *more))
        check_chain(self.df, chain, self.options, servers, plan)
        return ChainedGroups(self.df, chain, self.options, servers, plan)

    def _plain(self, rows: DataFrame | None = None) -> GroupedData:
        return (self.df if rows is None else rows).groupBy(*self.keys.columns())

    def _builtin(self, name: str, cols: Sequence[str]) -> DataFrame:
        if self.keys.obstacle is None and (
            not self.options.leaves_choice()
            or self._after_join() is not None
            or self._placed_by() is not None
        ):
            return self._aggregate(lambda grouped: getattr(grouped, name)(*cols))
        result: DataFrame = getattr(self._plain(), name)(*cols)
        return result

    def _placed_by(self, spark_plan: Explained | None = None) -> RoutingTable | None:
        """The table that the rows are placed by already: any for this key, or the one that was asked for."""
        plan = self.options.known_plan
        if plan is None and not self.options.leaves_choice():
            return None
        return placed_by(self.df, self.keys, spark_plan, None if plan is None else plan.table)

    def _after_join(self) -> JoinedRows | None:
        """The rows with their slots, if they are the result of a join by this key."""
        plan = self.options.plan
        if isinstance(plan, KeptPlan) or (plan is None and not self.options.leaves_choice()):
            return None
        return joined_rows(self.df, self.keys, plan.table if isinstance(plan, Plan) else None)

    def _aggregate(self, method: Callable[[GroupedData], DataFrame]) -> DataFrame:
        """Run an aggregation on slots, unless plain Spark does it as well, and take the slot out of the result."""
        self.options.refuse_split("an aggregation needs them whole, so choose another")
        plain = method(self._plain())
        if self.keys.obstacle is not None or requires_all_keys(self.df.sparkSession):
            return plain
        joined = self._after_join()
        if joined is not None and joined.slot not in plain.columns:
            by_slot = joined.rows.groupBy(column(joined.slot), *self.keys.columns())
            return method(by_slot).drop(joined.slot)
        chooses = self.options.leaves_choice()
        spark_plan = explained(plain) if chooses else None
        name = free_name("__slot", self.df.columns, plain.columns)
        table = self._placed_by(spark_plan)
        if table is not None:
            return method(self._by_slot(self.df, table, name)).drop(name)
        if chooses and combines(spark_plan):
            return plain
        plan = None
        if not (chooses and self._steps_aside(spark_plan, "aggregate")):
            plan = plan_for([(self.df, self.keys)], self.options, kind="aggregate")
        if plan is None or hashing_suffices(plan, self.options):
            return plain if self._rows is self.df else method(self._plain(self._rows))
        shuffled = placed(self._rows, self.keys, plan.table)
        return method(self._by_slot(shuffled, plan.table, name)).drop(name)

    def _steps_aside(self, spark_plan: Explained | None, kind: Kind) -> bool:
        """Whether plain Spark should do what it would do by this plan; a kept plan needs no measuring."""
        reason = reason_to_step_aside(
            spark_plan,
            kind,
            self.df.sparkSession,
            [measured_columns(self.df, self.keys, self.options.weight)],
        )
        return reason is not None and not (self.options.known_plan and reason.startswith(MEASURING))

    def _by_slot(self, rows: DataFrame, table: RoutingTable, name: str) -> GroupedData:
        """Rows that are placed by the table, grouped by slot, called `name`, and key.

        The slot is an expression of the key, so grouping by both is grouping by key, and Spark sees that the shuffle
        by slot suffices.
        """
        return rows.groupBy(slot_column(table, self.keys.hash()).alias(name), *self.keys.columns())

    def _on_slot_column(self, table: RoutingTable, name: str) -> GroupedData:
        """Rows shuffled and grouped by slot, a column called `name` that the user's function must not see, and key."""
        routed = dealt(self._rows, self.keys, table, name)
        return routed.repartitionById(table.slots, name).groupBy(column(name), *self.keys.columns())

    def _in_slots(self, rows: DataFrame, table: RoutingTable) -> DataFrame:
        """The rows shuffled by slot. Nothing notices later that split keys are placed, since they are not together."""
        if table.is_split:
            return dealt_out(rows, self.keys, table, free_name("__slot", self.df.columns))
        return placed(rows, self.keys, table)

    def _apply(
        self,
        method: str,
        func: Callable[..., Any],
        schema: StructType | str,
        merge: Callable[..., Any] | None,
    ) -> DataFrame:
        if merge is None:
            self.options.refuse_split("pass merge= to combine the partial results")
        else:
            self.options.refuse_whole()
        plain: DataFrame = getattr(self._plain(), method)(func, schema)
        if merge is not None:
            self._check_partial(plain)
        joined = self._after_join() if merge is None and self._can_stream_partitions() else None
        if self.keys.obstacle is not None:
            result, spark_plan, plan = plain, None, None
        elif joined is not None:
            in_place = kept_in_place(joined.rows, self.keys, column(joined.slot))
            return apply_by_partition(
                in_place, self.df.columns, self.keys, method, func, schema, plain.schema
            )
        else:
            spark_plan = explained(plain) if self.options.leaves_choice() else None
            table = self._placed_by(spark_plan) if merge is None else None
            aside = (
                table is None and self.options.leaves_choice() and self._steps_aside(spark_plan, "function")
            )
            plan = None
            if not aside and table is None:
                plan = self.plan if merge is None else self._split_plan()
            rows = self._rows
            if self._can_stream_partitions():
                # Also if hashing is as good as any table: a stream per partition is faster than a stream per group.
                by_plan = None if aside or table is not None else plan or self._plan
                if table is not None:
                    in_place = kept_in_place(rows, self.keys, slot_column(table, self.keys.hash()))
                elif by_plan is not None:
                    in_place = self._in_slots(rows, by_plan.table)
                else:
                    in_place = placed_by_spark(rows, self.keys, spark_plan)
                result = apply_by_partition(
                    in_place, self.df.columns, self.keys, method, func, schema, plain.schema
                )
            elif table is not None:
                result = self._apply_by_group(rows, table, method, func, schema)
            elif plan is None:
                result = plain if rows is self.df else getattr(self._plain(rows), method)(func, schema)
            else:
                shuffled = self._in_slots(rows, plan.table)
                result = self._apply_by_group(shuffled, plan.table, method, func, schema)
        if merge is None:
            return result
        merged: DataFrame = getattr(result.groupBy(*map(column, self.keys.result_names)), method)(
            merge, schema
        )
        return merged

    def _can_stream_partitions(self) -> bool:
        """Whether `apply` works with this Spark: it uses PySpark's private conversions, which differ by version."""
        return self.df.sparkSession.version.startswith("4.3.")

    def _apply_by_group(
        self,
        rows: DataFrame,
        table: RoutingTable,
        method: str,
        func: Callable[..., Any],
        schema: StructType | str,
    ) -> DataFrame:
        """One Arrow stream per group of placed rows, by PySpark's own method."""
        name = free_name("__slot", self.df.columns)
        if table.is_split:
            # A split key's slot is a column: an expression would be computed again after the shuffle, and differ.
            grouped = self._on_slot_column(table, name)
            func = without_column(func, 1, name)
        else:
            grouped = self._by_slot(rows, table, name)
        result: DataFrame = getattr(grouped, method)(without_slot(func, 1), schema)
        return result

    def _check_partial(self, partial: DataFrame) -> None:
        try:
            for name in self.keys.result_names:
                field(partial, name)
        except ValueError as error:
            raise ValueError(
                f"merge= groups the partial results by key, so schema needs it: {error}"
            ) from error

    def _split_plan(self) -> Plan | None:
        """The plan for an operator that can merge."""
        # Not `self.plan`: that hashing is as good as any table holds for whole keys only.
        return None if self._plan is None else split_plan(self._plan) or self.plan


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
