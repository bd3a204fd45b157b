"""From the options of an operator to the plan it runs under."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.errors import PySparkException

from unskew.core.histogram import Histogram
from unskew.core.history import merge_all
from unskew.core.plan import Plan
from unskew.core.planners import planner_named
from unskew.core.routing import RoutingTable, check_slots
from unskew.spark.keys import KeyColumns
from unskew.spark.measure import Sample, check_sample, check_weight, measure

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SLOTS_PER_CORE = 3
"""The KIP paper finds 2-3 slots a core best under a balanced table."""


@dataclass(frozen=True)
class Options:
    """What every operator takes: `slots=, planner=, plan=, sample=, weight=, buckets=`."""

    slots: int | None = None
    planner: str = "auto"
    plan: Plan | str | Path | None = None
    sample: Sample = "auto"
    weight: str | None = None
    buckets: int = 4096

    def __post_init__(self) -> None:
        planner_named(self.planner)
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
        """Refuse an input that these options do not fit; no Spark job runs."""
        check_weight(df, self.weight)
        if isinstance(self.plan, Plan):
            self.plan.check(keys.type, self.slots)

    def alike(self, other: Options) -> bool:
        """Whether both ask for the same; a plan that was read twice is one plan."""
        mine, theirs = (o.plan.table if isinstance(o.plan, Plan) else None for o in (self, other))
        return replace(self, plan=None) == replace(other, plan=None) and mine == theirs

    def refuse_split(self, remedy: str) -> None:
        """Refuse a table that splits keys, for an operator that needs them whole."""
        plan = self.plan
        name = plan.planner if isinstance(plan, Plan) else self.planner
        if plan.table.is_split if isinstance(plan, Plan) else planner_named(name).splits:
            raise ValueError(f"planner {name!r} splits keys over slots: {remedy}")


def plan_for(inputs: Sequence[tuple[DataFrame, KeyColumns]], options: Options) -> Plan:
    """The plan for one operator over one or more inputs: the given one, else they are measured and planned for."""
    if isinstance(options.plan, Plan):
        return options.plan
    slots = options.slots or default_slots(inputs[0][0])
    check_slots(slots, options.buckets)
    measured = [
        measure(df, list(k.names), buckets=options.buckets, weight=options.weight, sample=options.sample)
        for df, k in inputs
    ]
    names = inputs[0][1].names
    histogram = merge_all(_renamed(h, names) for h in measured)
    context = planner_named(options.planner).context_options(cores=cores_of(inputs[0][0]) or slots)
    return Plan.make(histogram, slots, options.planner, **context)


def steps_aside(plan: Plan, options: Options) -> bool:
    """Whether `auto` found that hashing is as good as any table."""
    if options.plan is not None or options.planner != "auto":
        return False
    table = plan.table
    return table.same_routes(RoutingTable.hashed(table.slots, len(table.buckets), table.key_type))


def _renamed(histogram: Histogram, names: tuple[str, ...]) -> Histogram:
    """The histogram under other names of the key's columns: those of the two sides may differ."""
    if len(names) == 1:
        return replace(histogram, key_names=names)
    keys = pa.StructArray.from_arrays(histogram.keys.flatten(), names=list(names))
    return replace(histogram, keys=keys, key_names=names)


def default_slots(df: DataFrame) -> int:
    """Three slots a core; where the cores cannot be told (Spark Connect), what Spark would use for a shuffle."""
    cores = cores_of(df)
    if cores is None:
        return int(df.sparkSession.conf.get("spark.sql.shuffle.partitions") or 200)
    return max(2, SLOTS_PER_CORE * cores)


def cores_of(df: DataFrame) -> int | None:
    """How many tasks Spark runs at once, where that can be told."""
    try:
        return int(df.sparkSession.sparkContext.defaultParallelism)
    except PySparkException:  # Spark Connect has no SparkContext, and says so
        return None
