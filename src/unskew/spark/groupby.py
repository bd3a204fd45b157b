"""`groupBy` and `cogroup` on slots: the same groups as Spark's, in better balanced partitions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException

from unskew.core.chains.plan import ChainPlan
from unskew.core.histogram import DEFAULT_BUCKETS
from unskew.core.plan import Plan
from unskew.core.routing import RoutingTable
from unskew.spark.apply_to_groups import apply_to_groups
from unskew.spark.chain import check_chain
from unskew.spark.cogrouped import Cogrouped
from unskew.spark.combining import combines
from unskew.spark.dealing import dealt
from unskew.spark.explained import Explained, explained
from unskew.spark.kept import Kept, KeptPlan
from unskew.spark.keys import (
    Key,
    KeyColumns,
    Part,
    check_batch,
    column,
    free_name,
    grouping_columns,
    key_parts,
)
from unskew.spark.measure import Sample
from unskew.spark.options import Options, hashing_suffices, observed, plan_for
from unskew.spark.pivoted import Pivoted
from unskew.spark.placement import JoinedRows, joined_rows, placed, placed_by
from unskew.spark.sampling import measured_columns
from unskew.spark.slot_expression import seat_column
from unskew.spark.versions.placing import by_slot_and_key, by_slot_column
from unskew.spark.worth import Kind, reason_to_step_aside, requires_all_keys, shuffled_bytes

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, GroupedData
    from pyspark.sql.types import StructType

    from unskew.spark.chained_groups import ChainedGroups


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

    >>> clicks = spark.createDataFrame([("ann", 2), ("ann", 4), ("bob", 3)], "user string, n int")
    >>> largest = lambda rows: rows.nlargest(1, "n")
    >>> unskew.groupBy(clicks, "user").applyInPandas(largest, "user string, n int").orderBy("user").show()
    +----+---+
    |user|  n|
    +----+---+
    | ann|  4|
    | bob|  3|
    +----+---+
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
        return plan_for([(self.df, self.keys)], self.options, size=self._size)

    @cached_property
    def _size(self) -> float | None:
        """The bytes that Spark expects the rows to have; `_steps_aside` notes them, so that Spark is asked once."""
        return None

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
        return apply_to_groups(self, "applyInPandas", func, schema, merge)

    def applyInArrow(
        self,
        func: Callable[..., Any],
        schema: StructType | str,
        merge: Callable[..., Any] | None = None,
    ) -> DataFrame:
        """Map every group with `func`, as PySpark's method of this name does; `merge` as in `applyInPandas`."""
        return apply_to_groups(self, "applyInArrow", func, schema, merge)

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
                f"cannot cogroup by {self.keys.names} and {other.keys.names}: the keys differ in length; "
                "name as many columns on both sides"
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
        from unskew.spark.chained_groups import ChainedGroups  # which returns Grouped

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
            # Spark Connect looks for a column such as `joined.n` in the very DataFrame that has it, not in these rows.
            with suppress(AnalysisException):
                result = method(by_slot).drop(joined.slot)
                _ = result.schema  # Connect analyses it only when it is asked
                return result
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
            plan = plan_for([(self.df, self.keys)], self.options, kind="aggregate", size=self._size)
        if plan is None or hashing_suffices(plan, self.options):
            return plain if self._rows is self.df else method(self._plain(self._rows))
        shuffled = placed(self._rows, self.keys, plan.table)
        return method(self._by_slot(shuffled, plan.table, name)).drop(name)

    def _steps_aside(self, spark_plan: Explained | None, kind: Kind) -> bool:
        """Whether plain Spark should do what it would do by this plan; a kept plan needs no measuring."""
        if spark_plan is not None:
            vars(self)["_size"] = shuffled_bytes(spark_plan.logical)
        measured = None if self.options.known_plan else self._measured
        return reason_to_step_aside(spark_plan, kind, self.df.sparkSession, measured) is not None

    def _measured(self) -> list[DataFrame]:
        """The columns that measuring reads."""
        return [measured_columns(self.df, self.keys, self.options.weight)]

    def _by_slot(self, rows: DataFrame, table: RoutingTable, name: str) -> GroupedData:
        """Rows that are placed by the table, grouped by slot, called `name`, and key.

        The slot is an expression of the key, so grouping by both is grouping by key, and Spark sees that the shuffle
        by slot suffices.
        """
        return rows.groupBy(self._seat(table).alias(name), *self.keys.columns())

    def _seat(self, table: RoutingTable) -> Column:
        """What rows placed by the table are shuffled by."""
        return seat_column(self.df.sparkSession, table, self.keys.hash_term())

    def _on_slot_column(self, table: RoutingTable, name: str, *, cogrouped: bool = False) -> GroupedData:
        """Rows shuffled and grouped by key and slot, a column called `name` that the user's function must not see."""
        routed, keys = dealt(self._rows, self.keys, table, name), self.keys.columns()
        if cogrouped:
            routed = by_slot_and_key(routed, table.slots, name, keys)
        else:
            routed = by_slot_column(routed, table.slots, name)
        return routed.groupBy(*keys, column(name))
