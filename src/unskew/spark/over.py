"""`over`: window functions by name, so that a key with too many rows for one slot can be cut by its order."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException
from pyspark.sql import Window

from unskew.core.chains.plan import ChainPlan
from unskew.core.histogram import DEFAULT_BUCKETS
from unskew.core.plan import Plan
from unskew.core.splitting.pieces import hot_keys
from unskew.core.window_functions import AGGREGATES, Frame, WindowFunction
from unskew.spark.explained import explained
from unskew.spark.kept import Kept
from unskew.spark.keys import Key, KeyColumns, check_batch, field, grouping_columns
from unskew.spark.measure import Sample
from unskew.spark.no_measure import measuring_allowed
from unskew.spark.options import LEAST_GAIN, Options, hashing_suffices, observed, plan_for
from unskew.spark.over_functions import Call, argument_of
from unskew.spark.over_layout import MOST_COPIED, Layout, Reach, make_layout
from unskew.spark.over_order import OrderBy, OrderColumn, order_columns
from unskew.spark.over_pieces import PREFIX, cut_window
from unskew.spark.parallelism import cores_of
from unskew.spark.placement import placed
from unskew.spark.row_order import may_differ
from unskew.spark.sampling import (
    KeySample,
    budget_for,
    sample_keys,
)
from unskew.spark.slot_expression import slot_subquery
from unskew.spark.versions.settings_since import setting_or_none
from unskew.spark.worth import reason_to_step_aside, requires_all_keys

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql import types as T

_ROUTED, _SUMMARISED, _DISTINCT = 0.05, 0.25, 0.5
"""What cutting adds, as shares of the work: to route rows, to read hot keys again, to count their order values."""


@dataclass(frozen=True, eq=False)
class PlannedWindow:
    """What `Over.planned` decided: the rows with their new columns, and why they are computed that way.

    `pieces` is the number of pieces that hot keys are cut into, 0 if all keys stay whole. `copied` is the predicted
    share of rows that are copied to a neighbouring piece. `loads` are the predicted loads of the slots, empty in plain
    Spark.
    """

    rows: DataFrame
    reason: str
    pieces: int = 0
    copied: float = 0.0
    loads: tuple[float, ...] = ()


@dataclass(frozen=True, eq=False)
class Over:
    """A window over a key, ready for functions: what `unskew.over` returns."""

    df: DataFrame
    keys: KeyColumns
    order: Sequence[OrderColumn]
    options: Options
    frame: Frame | None = None

    def rowsBetween(self, start: int, end: int) -> Over:
        """The same window with this frame for aggregates that have none of their own, as in PySpark."""
        return replace(self, frame=Frame.between("rows", start, end))

    def rangeBetween(self, start: int, end: int) -> Over:
        """The same window with this frame for aggregates that have none of their own, as in PySpark."""
        return replace(self, frame=Frame.between("range", start, end))

    def withColumns(self, **functions: WindowFunction) -> DataFrame:
        """The rows with a column for each function, as `df.withColumns` has them with plain Spark's functions.

        Give all functions in one call: they share the shuffle and the sort. Columns of the same name are replaced.
        """
        return self.planned(**functions).rows

    def planned(self, **functions: WindowFunction) -> PlannedWindow:
        """As `withColumns`, with the reason why hot keys are cut or not. Measures once, unless there is a plan."""
        calls = self._calls(functions)
        plain, result = self._plain(calls)
        if self.keys.obstacle is not None:
            return PlannedWindow(plain, self.keys.obstacle)
        self.options.check(self.df, self.keys)
        self.options.refuse_split("a window cuts keys by their order instead, so choose another")
        reason = self._reason_for_plain(plain)
        if reason is not None:
            return PlannedWindow(plain, reason)
        obstacle = self._obstacle(calls)
        plan = plan_for([(self.df, self.keys)], self.options, "over", "window")
        if plan is None:
            return PlannedWindow(plain, "there is no plan, and measuring is off")
        if not len(hot_keys(plan.histogram, plan.slots)) or plan.bound <= 1.0:
            return self._whole(plan, calls, "no key has more load than a slot should get")
        if obstacle is not None:
            return self._whole(plan, calls, obstacle, warn=True)
        # the order is sampled only if even pieces would pay
        refusal = self._too_slow(plan, calls)
        if refusal is not None:
            return self._whole(plan, calls, refusal)
        sample = self._sampled(plan)
        if sample is None:
            return self._whole(plan, calls, "measuring is off, so hot keys cannot be cut")
        reach = reduce(or_, (call.reach for call in calls), Reach())
        order = _cuttable(self.order)
        layout = make_layout(plan.histogram, plan.slots, sample, order, reach)
        refusal = self._refusal(plan, layout, calls)
        if layout is None or refusal is not None:
            return self._whole(plan, calls, refusal or "", warn=not self.options.leaves_choice())
        (df,) = observed([(self.df, self.keys)], self.options)
        rows = cut_window(df, self.df, self.keys, self.order, calls, layout, result)
        hot = len(layout.keys)
        keys = "1 hot key is" if hot == 1 else f"{hot} hot keys are"
        return PlannedWindow(
            rows,
            f"{keys} cut into {len(layout.slot_of)} pieces",
            len(layout.slot_of),
            layout.copied,
            tuple(layout.cut.loads.tolist()),
        )

    def _calls(self, functions: dict[str, WindowFunction]) -> list[Call]:
        if not functions:
            raise ValueError("name at least one column: withColumns(n=unskew.windows.row_number())")
        calls = []
        names: set[str] = set()
        for name, function in functions.items():
            if not isinstance(function, WindowFunction):
                raise ValueError(
                    f"{name} is a function of unskew.windows, such as unskew.windows.sum('amount'), not a "
                    f"{type(function).__name__}: unskew.over has to see which function it computes"
                )
            if name.lower() in names:
                raise ValueError(
                    f"two columns are called {name!r}: rename one; case does not tell them apart"
                )
            names.add(name.lower())
            if isinstance(function.column, str) and not set(".`") & set(function.column):
                field(self.df, function.column)
            frame = self._frame(function)
            argument = argument_of(function, self.df.columns)
            kind = None if argument is None else self._type(name, argument)
            calls.append(Call(name, function, argument, kind, frame))
        return calls

    def _frame(self, function: WindowFunction) -> Frame | None:
        if function.name not in AGGREGATES:
            return None
        default = Frame("range", None, 0) if self.order else Frame("rows", None, None)
        return function.frame or self.frame or default

    def _type(self, name: str, argument: Column) -> T.DataType:
        try:
            return self.df.select(argument).schema.fields[0].dataType
        except PySparkException as error:
            raise _refused(name, error) from error

    def _plain(self, calls: Sequence[Call]) -> tuple[DataFrame, T.StructType]:
        """The window of plain Spark, which also says what is wrong with the functions and which types they return."""
        plain = self.df
        window = Window.partitionBy(*self.keys.columns()).orderBy(*(each.sort for each in self.order))
        try:
            plain = self.df.withColumns({call.name: call.plain(window) for call in calls})
            return plain, plain.schema
        except PySparkException as error:
            raise _refused(", ".join(call.name for call in calls), error) from error

    def _reason_for_plain(self, plain: DataFrame) -> str | None:
        spark = self.df.sparkSession
        if requires_all_keys(spark):
            return "spark.sql.requireAllClusterKeysForDistribution is true, so rows placed by slot are shuffled again"
        if not self.options.leaves_choice():
            return None
        # not only what is measured: of hot keys, all that the functions need is read a second time
        measured = None if self.options.known_plan else lambda: [self.df]
        return reason_to_step_aside(explained(plain), "window", spark, measured, cuts=True)

    def _is_too_short(self, calls: Sequence[Call]) -> bool:
        """Whether placing whole keys cannot pay, although cutting hot ones might have."""
        if not self.options.leaves_choice():
            return False
        plain, _ = self._plain(calls)
        return reason_to_step_aside(explained(plain), "window", self.df.sparkSession, None) is not None

    def _obstacle(self, calls: Sequence[Call]) -> str | None:
        """Why no key can be cut, whatever the rows are."""
        if not self.order:
            return "there is no order to cut a key by"
        if not self.order[0].is_cuttable:
            return f"rows cannot be compared by a column of type {self.order[0].type.simpleString()}: order by another"
        if any(each.value is None for each in self.order) and any(
            call.function.name == "dense_rank" for call in calls
        ):
            return "dense_rank counts order values, and an order column can only be sorted by"
        names = [name.lower() for name in self.df.columns]
        if len(set(names)) < len(names):
            return "two columns have the same name"
        if any(name.startswith(PREFIX) for name in names):
            return f"a column's name begins with {PREFIX}"
        arguments = [call.argument for call in calls if call.argument is not None]
        computed = explained(self.df.select("*", *arguments))
        # what is read twice must be the same both times; what is copied must not be computed after that
        if computed is None or (may_differ(computed.logical) and any(call.needs_summary for call in calls)):
            return "the input may have other values when it is read again: write it to a table first"
        ansi = setting_or_none(self.df.sparkSession, "spark.sql.ansi.enabled") == "true"
        obstacles = (call.obstacle(ansi=ansi) for call in calls)
        return next((each for each in obstacles if each is not None), None)

    def _sampled(self, plan: Plan) -> KeySample | None:
        """A sample of the order values of hot keys; None if nothing may be measured."""
        if not measuring_allowed(self.df):
            return None
        hot = plan.histogram.hashes[hot_keys(plan.histogram, plan.slots)].tolist()
        rows = self.df.where(self.keys.hash().isin(hot))
        order = [each.sampled() for each in _cuttable(self.order)]
        return sample_keys(rows, [self.keys], self.options.weight, budget_for(plan.slots), order)

    def _refusal(self, plan: Plan, layout: Layout | None, calls: Sequence[Call]) -> str | None:
        """Why the hot keys are better left whole."""
        if layout is None:
            return "the hot keys have too few order values to be cut between"
        if layout.copied > MOST_COPIED:
            return f"the frames reach so far that {layout.copied:.0%} of the rows would be copied to other pieces"
        return self._too_slow(plan, calls, float(layout.cut.loads.max()), layout.copied)

    def _too_slow(
        self, plan: Plan, calls: Sequence[Call], largest: float = 0.0, copied: float = 0.0
    ) -> str | None:
        """Why cutting would not be faster, if the largest slot has that load and that share of the rows is copied."""
        if not self.options.leaves_choice():
            return None
        cores = cores_of(self.df.sparkSession) or plan.slots
        even = plan.histogram.total / cores
        extra = _ROUTED + copied
        names = {call.function.name for call in calls}
        if any(call.needs_summary for call in calls):
            extra += _SUMMARISED
        if "dense_rank" in names:
            extra += _DISTINCT
        whole = max(even, float(plan.loads.max()))
        cut = max(even, largest) + extra * even
        if cut > (1.0 - LEAST_GAIN["window"]) * whole:
            return f"cutting would take {cut / whole:.2f} times as long as whole keys on {cores} cores"
        return None

    def _whole(self, plan: Plan, calls: Sequence[Call], reason: str, *, warn: bool = False) -> PlannedWindow:
        """The window over whole keys: placed by the plan, or as plain Spark does it."""
        if warn:
            warnings.warn(f"unskew.over keeps hot keys whole: {reason}", stacklevel=4)
        (df,) = observed([(self.df, self.keys)], self.options)
        parts = self.keys.columns()
        loads: tuple[float, ...] = ()
        if not hashing_suffices(plan, self.options) and not self._is_too_short(calls):
            df = placed(df, self.keys, plan.table)
            parts = [slot_subquery(plan.table, self.keys, df.sparkSession), *parts]
            loads = tuple(plan.loads.tolist())
        window = Window.partitionBy(*parts).orderBy(*(each.sort for each in self.order))
        rows = df.withColumns({call.name: call.plain(window) for call in calls})
        return PlannedWindow(rows, reason, loads=loads)


def over(
    df: DataFrame,
    key: Key,
    orderBy: OrderBy = (),
    *,
    slots: int | None = None,
    planner: str = "auto",
    plan: Plan | ChainPlan | Kept | str | Path | None = None,
    sample: Sample = "auto",
    weight: str | None = None,
    buckets: int = DEFAULT_BUCKETS,
) -> Over:
    """A window over a key for functions of `unskew.windows`; a key with too many rows for one slot is cut.

    `unskew.over(df, "user", orderBy="at").withColumns(n=windows.row_number(), total=windows.sum("amount"))` has the
    rows of `df.withColumns(…)` with the functions of plain Spark over `Window.partitionBy("user").orderBy("at")`. A hot
    key is cut between rows with different order values; each piece is computed in a slot of its own, and a few figures
    of all pieces complete the result. Floating-point sums are added in another order, so their last digits may differ.

    Where no key is hot, or cutting cannot pay or is impossible, keys stay whole: `planned` says why.

    >>> from unskew import windows
    >>> clicks = spark.createDataFrame([("ann", 2), ("ann", 4), ("bob", 3)], "user string, n int")
    >>> by_user = unskew.over(clicks, "user", orderBy="n")
    >>> by_user.withColumns(place=windows.row_number(), so_far=windows.sum("n")).orderBy("n").show()
    +----+---+-----+------+
    |user|  n|place|so_far|
    +----+---+-----+------+
    | ann|  2|    1|     2|
    | bob|  3|    1|     3|
    | ann|  4|    2|     6|
    +----+---+-----+------+
    """
    check_batch(df)
    keys = grouping_columns(df, key)
    options = Options(slots, planner, plan, sample, weight, buckets)
    return Over(df, keys, order_columns(df, orderBy), options)


def _cuttable(order: Sequence[OrderColumn]) -> list[OrderColumn]:
    """The order columns that rows may be cut by: the first ones, as far as they can be compared with constants."""
    columns = []
    for each in order:
        if not each.is_cuttable:
            break
        columns.append(each)
    return columns


def _refused(name: str, error: PySparkException) -> ValueError:
    line = str(error).splitlines()[0] if str(error) else type(error).__name__
    return ValueError(f"{name} cannot be computed: {line}")
