"""From the options of an operator to its plan: measure the inputs, then plan, then say whether to route.

Options → plan_for (measure, then plan) → hashing_suffices: leave it to Spark, else `slot_column` of the plan's table
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from unskew.core.chains.plan import ChainPlan
from unskew.core.histogram import DEFAULT_BUCKETS, Histogram
from unskew.core.history import merge_all
from unskew.core.plan import Plan, make_table
from unskew.core.planners import planner_named
from unskew.core.routing import RoutingTable, check_slots
from unskew.spark.keys import KeyColumns, distinct_names
from unskew.spark.measure import Sample, check_sample, check_weight, measure_for_planning
from unskew.spark.parallelism import buckets_for, cores_of, default_slots
from unskew.spark.sampling import budget_for

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Options:
    """The options of every operator: `slots=, planner=, plan=, sample=, weight=, buckets=`."""

    slots: int | None = None
    planner: str = "auto"
    plan: Plan | ChainPlan | str | Path | None = None
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
        if not isinstance(self.plan, Plan | None):
            raise ValueError(
                f"plan is what unskew.plan returns or the path of a saved plan, not a {type(self.plan).__name__}"
            )

    def check(self, df: DataFrame, keys: KeyColumns) -> None:
        """Refuse an input that does not fit these options; no Spark job runs."""
        check_weight(df, self.weight)
        if isinstance(self.plan, Plan):
            self.plan.check(keys.type, self.slots)

    def alike(self, other: Options) -> bool:
        """Whether both ask for the same; a plan read twice from one file is the same plan."""
        tables = [options.plan.table if isinstance(options.plan, Plan) else None for options in (self, other)]
        return replace(self, plan=None) == replace(other, plan=None) and tables[0] == tables[1]

    def leaves_choice(self) -> bool:
        """Whether neither a plan nor a planner was asked for, so that plain Spark may do the work."""
        return self.plan is None and self.planner == "auto"

    def summary(self) -> str:
        """The options that matter most, in words."""
        if isinstance(self.plan, Plan):
            return repr(self.plan)
        slots = "default slots" if self.slots is None else f"{self.slots} slots"
        weight = "" if self.weight is None else f", weight {self.weight}"
        sample = "all records" if self.sample is None else f"sample {self.sample}"
        return f"planner {self.planner}, {slots}{weight}, {sample}"

    def refuse_split(self, remedy: str) -> None:
        """Refuse a table that splits keys, for an operator that needs them whole."""
        plan = self.plan
        name = plan.planner if isinstance(plan, Plan) else self.planner
        if plan.table.is_split if isinstance(plan, Plan) else planner_named(name).splits:
            raise ValueError(f"planner {name!r} splits keys over slots: {remedy}")


def plan_for(inputs: Sequence[tuple[DataFrame, KeyColumns]], options: Options) -> Plan:
    """The plan of one operator over one or more inputs: the one in the options, else they are measured and planned."""
    if isinstance(options.plan, Plan):
        return options.plan
    df, keys = inputs[0]
    spark = df.sparkSession
    slots = options.slots or default_slots(spark)
    buckets = options.buckets if options.slots else buckets_for(slots, options.buckets)
    check_slots(slots, buckets)
    histograms = [
        measure_for_planning(
            side, side_keys, buckets, options.weight, options.sample, budget=budget_for(slots)
        )
        for side, side_keys in inputs
    ]
    merged = merge_all(_renamed(histogram, keys.names) for histogram in histograms)
    context = planner_named(options.planner).context_options(cores=cores_of(spark) or slots)
    return Plan.make(merged, slots, options.planner, **context)


def hashing_suffices(plan: Plan, options: Options) -> bool:
    """Whether `auto` planned what hashing does anyway, so that plain Spark serves as well."""
    if not options.leaves_choice():
        return False
    table = plan.table
    return table.same_routes(RoutingTable.hashed(table.slots, len(table.buckets), table.key_type))


def split_plan(plan: Plan) -> Plan | None:
    """The plan with keys above half a slot split as finely as the heaviest needs; None if no key needs it.

    Only a plan by `auto` is changed: any other planner was asked for.
    """
    if plan.planner != "auto" or plan.bound <= 1.0:
        return None
    options: dict[str, Any] = {
        "theta": 0.5 / plan.slots,
        "mu": None,
        "choices": max(2, math.ceil(plan.bound)),
    }
    table = make_table("dkg-pkg", plan.histogram, plan.slots, **options)
    return replace(plan, table=table, planner="dkg-pkg", options=options)


def _renamed(histogram: Histogram, names: tuple[str, ...]) -> Histogram:
    """The histogram with other names for the key columns: the two sides may name them differently."""
    if len(names) == 1:
        return replace(histogram, key_names=names)
    keys = pa.StructArray.from_arrays(histogram.keys.flatten(), names=distinct_names(names))
    return replace(histogram, keys=keys, key_names=names)
