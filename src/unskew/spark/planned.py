"""From the options of an operator to the plan it runs under."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from unskew.core.history import merge_all
from unskew.core.planners import NAMES
from unskew.core.routing import RoutingTable, check_slots
from unskew.spark.keys import KeyColumns
from unskew.spark.measure import Sample, measure
from unskew.spark.plan import Plan

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
        if self.planner not in NAMES:
            raise ValueError(f"there is no planner {self.planner!r}: choose one of {', '.join(NAMES)}")
        if self.slots is not None:
            check_slots(self.slots, self.buckets)
        if isinstance(self.plan, str | Path):
            object.__setattr__(self, "plan", Plan.load(self.plan))


def plan_for(inputs: Sequence[tuple[DataFrame, KeyColumns]], options: Options) -> Plan | None:
    """The plan for one operator over one or more inputs, or None where plain Spark does as well.

    A given plan is checked and used. Otherwise the inputs are measured and planned for; `auto` may find that hashing is
    as good, and then the operator is best left to Spark itself.
    """
    keys = inputs[0][1]
    if options.plan is not None:
        assert isinstance(options.plan, Plan)  # Options has loaded a path
        options.plan.check(keys.type, options.slots)
        return options.plan
    slots = options.slots or default_slots(inputs[0][0])
    check_slots(slots, options.buckets)
    measured = [
        measure(df, list(k.names), buckets=options.buckets, weight=options.weight, sample=options.sample)
        for df, k in inputs
    ]
    plan = Plan.make(merge_all(measured), slots, options.planner)
    stays = RoutingTable.hashed(slots, options.buckets, plan.table.key_type)
    return None if options.planner == "auto" and plan.table.same_routes(stays) else plan


def default_slots(df: DataFrame) -> int:
    """Three slots a core; where the cores cannot be told (Spark Connect), what Spark would use for a shuffle."""
    session = df.sparkSession
    try:
        cores = session.sparkContext.defaultParallelism
    except PySparkException:  # Spark Connect has no SparkContext, and says so
        return int(session.conf.get("spark.sql.shuffle.partitions") or 200)
    return max(2, SLOTS_PER_CORE * cores)
