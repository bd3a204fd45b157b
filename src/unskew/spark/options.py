"""From the options of an operator to its plan: measure the inputs, then plan, then say whether to route.

Options → plan_for (measure, then plan) → hashing_suffices: leave it to Spark, else `slot_column` of the plan's table
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from unskew.core.chains.plan import ChainPlan
from unskew.core.histogram import DEFAULT_BUCKETS, Histogram
from unskew.core.history import merge_all
from unskew.core.plan import Plan, make_table
from unskew.core.planners import PLANNERS, planner_named
from unskew.core.review import Planning
from unskew.core.routing import RoutingTable, check_slots
from unskew.spark.kept import Kept, KeptPlan
from unskew.spark.keys import KeyColumns, distinct_names
from unskew.spark.measure import Sample, check_sample, check_weight, measure_inputs
from unskew.spark.no_measure import measuring_allowed, warn_plain
from unskew.spark.parallelism import buckets_for, cores_of, default_slots
from unskew.spark.sampling import LEAST_OF_GROUPS, budget_for
from unskew.spark.settings import shuffle_partitions
from unskew.spark.sketches import MOST_BUCKETS
from unskew.spark.worth import Kind, log_plain, size_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


LEAST_GAIN: dict[Kind, float] = {"aggregate": 0.15, "window": 0.15, "cogroup": 0.5}
"""What a plan must promise to save of the tasks after the shuffle where plain Spark would do the work otherwise.

Of Spark's own operators, the tasks before the shuffle, which no plan makes shorter, take as long, and routing takes a
twentieth. A cogroup on slots has one column more to convert for every group of both sides, which is much if groups are
tiny. A function on groups outweighs all of that, and runs on unskew's faster operator in any case.
"""


@dataclass(frozen=True)
class Options:
    """The options of every operator: `slots=, planner=, plan=, sample=, weight=, buckets=`."""

    slots: int | None = None
    planner: str = "auto"
    plan: Plan | ChainPlan | KeptPlan | Kept | str | Path | None = None
    sample: Sample = "auto"
    weight: str | None = None
    buckets: int = DEFAULT_BUCKETS

    def __post_init__(self) -> None:
        if planner_named(self.planner).uses_windows:
            raise ValueError(
                f"planner {self.planner!r} needs several windows of load, and a batch job has one: choose another"
            )
        if self.slots is not None:
            check_slots(self.slots, self.buckets)
        check_sample(self.sample)
        if isinstance(self.plan, str | Path):
            object.__setattr__(self, "plan", Plan.load(self.plan))
        if isinstance(self.plan, Kept):
            object.__setattr__(self, "plan", self.plan.opened())
        if not isinstance(self.plan, Plan | KeptPlan | None):
            raise ValueError(
                "plan is what unskew.plan returns, the path of a saved plan or an unskew.Kept, "
                f"not a {type(self.plan).__name__}"
            )

    def check(self, df: DataFrame, keys: KeyColumns) -> None:
        """Refuse an input that does not fit these options; no Spark job runs."""
        check_weight(df, self.weight)
        if isinstance(self.plan, Plan | KeptPlan):
            self.plan.check(keys.type, self.slots)

    @property
    def known_plan(self) -> Plan | None:
        """The plan that was given or kept, if there is one."""
        plan = self.plan.plan if isinstance(self.plan, KeptPlan) else self.plan
        return plan if isinstance(plan, Plan) else None

    def alike(self, other: Options) -> bool:
        """Whether both ask for the same; a plan read twice from one file is the same plan."""
        plans = [
            options.plan.table if isinstance(options.plan, Plan) else options.plan
            for options in (self, other)
        ]
        return replace(self, plan=None) == replace(other, plan=None) and plans[0] == plans[1]

    def leaves_choice(self) -> bool:
        """Whether plain Spark may do the work: no planner was asked for, and no plan, except one that is kept."""
        return not isinstance(self.plan, Plan) and self.planner == "auto"

    def summary(self) -> str:
        """The options that matter most, in words."""
        if self.plan is not None:
            return repr(self.plan)
        slots = "default slots" if self.slots is None else f"{self.slots} slots"
        weight = "" if self.weight is None else f", weight {self.weight}"
        sample = "all records" if self.sample is None else f"sample {self.sample}"
        return f"planner {self.planner}, {slots}{weight}, {sample}"

    def refuse_split(self, remedy: str) -> None:
        """Refuse a table that splits keys, for an operator that needs them whole."""
        plan = self.known_plan
        name = self.planner if plan is None else plan.planner
        if planner_named(name).splits if plan is None else plan.table.is_split:
            raise ValueError(f"planner {name!r} splits keys over slots: {remedy}")

    def refuse_whole(self) -> None:
        """Refuse a planner that keeps keys whole, where `merge=` asks that they are split."""
        if self.plan is None and self.planner != "auto" and not planner_named(self.planner).splits:
            splitting = ", ".join(name for name, planner in PLANNERS.items() if planner.splits)
            raise ValueError(
                f"planner {self.planner!r} keeps keys whole, so merge= has nothing to merge: leave merge= out, or "
                f"choose auto or one that splits keys ({splitting})"
            )


def plan_for(
    inputs: Sequence[tuple[DataFrame, KeyColumns]],
    options: Options,
    operator: str = "groupBy",
    kind: Kind = "function",
    size: float | None = None,
) -> Plan | None:
    """The plan of one operator over one or more inputs: the one in the options, else they are measured and planned.

    `size` is that of all inputs in bytes, if Spark was asked already. None leaves the work to plain Spark: there is no
    plan and measuring is off, or a kept plan cannot be used.
    """
    if isinstance(options.plan, Plan):
        return options.plan
    df, _ = inputs[0]
    if isinstance(options.plan, KeptPlan):
        measured = partial(_measured_plan, inputs, options, kind, size)
        return options.plan.plan_for(df, planning_of(df, options), measured, operator)
    if not measuring_allowed(df):
        warn_plain(operator)
        return None
    return _measured_plan(inputs, options, kind, size)


def observed(
    inputs: Sequence[tuple[DataFrame, KeyColumns]],
    options: Options,
    *,
    skips_null: bool = False,
    combined: Callable[[Sequence[Histogram]], Histogram] = merge_all,
) -> list[DataFrame]:
    """The rows of the inputs, counted while the user's job reads them if the plan is a kept one.

    `combined` makes the load that is planned from those of the inputs.
    """
    # Spark's sketches have no weights, and a limited number of buckets.
    if not isinstance(options.plan, KeptPlan) or options.weight is not None or options.buckets > MOST_BUCKETS:
        return [df for df, _ in inputs]
    planning = planning_of(inputs[0][0], options)
    return options.plan.observed(inputs, planning, options.buckets, combined, skips_null=skips_null)


def planning_of(df: DataFrame, options: Options) -> Planning:
    """How a kept plan is made and judged."""
    plan = options.known_plan
    spark = df.sparkSession
    slots = options.slots or (default_slots(spark) if plan is None else plan.slots)
    return Planning(slots, cores_of(spark) or slots, options.planner)


def _measured_plan(
    inputs: Sequence[tuple[DataFrame, KeyColumns]], options: Options, kind: Kind, size: float | None
) -> Plan:
    df, keys = inputs[0]
    spark = df.sparkSession
    if size is None and not options.slots:
        size = sum(size_of(each) for each, _ in inputs)
    slots = options.slots or default_slots(spark, size or 0.0)
    buckets = options.buckets if options.slots else buckets_for(slots, options.buckets)
    check_slots(slots, buckets)
    weighted = [(side, side_keys, options.weight) for side, side_keys in inputs]
    budget = budget_for(slots, LEAST_OF_GROUPS)
    histograms = measure_inputs(weighted, buckets, options.sample, budget, size)
    merged = merge_all(_renamed(histogram, keys.names) for histogram in histograms)
    context = planner_named(options.planner).context_options(cores=cores_of(spark) or slots)
    if options.planner == "auto" and kind in LEAST_GAIN:
        context |= {"gain": LEAST_GAIN[kind], "partitions": shuffle_partitions(spark)}
    return Plan.make(merged, slots, options.planner, **context)


def hashing_suffices(plan: Plan, options: Options) -> bool:
    """Whether `auto` planned what hashing does anyway, so that plain Spark serves as well."""
    if not options.leaves_choice():
        return False
    table = plan.table
    suffices = table.same_routes(RoutingTable.hashed(table.slots, len(table.buckets), table.key_type))
    if suffices:
        log_plain("operator", "hashing places its keys as well as a plan would")
    return suffices


def split_plan(plan: Plan) -> Plan | None:
    """The plan with keys cut that are too heavy for one slot, by wrap-around; None if no key is.

    Only a plan by `auto` is changed: any other planner was asked for.
    """
    if plan.planner != "auto" or plan.bound <= 1.0:
        return None
    table = make_table("wrap-around", plan.histogram, plan.slots)
    reason = f"the heaviest key is {plan.bound:.2f} times the mean slot, and partial results can be merged"
    return replace(plan, table=table, planner="wrap-around", options={}, reason=reason)


def _renamed(histogram: Histogram, names: tuple[str, ...]) -> Histogram:
    """The histogram with other names for the key columns: the two sides may name them differently."""
    if len(names) == 1:
        return replace(histogram, key_names=names)
    keys = pa.StructArray.from_arrays(histogram.keys.flatten(), names=distinct_names(names))
    return replace(histogram, keys=keys, key_names=names)
