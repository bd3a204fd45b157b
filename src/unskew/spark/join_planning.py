"""The plan of a join: given, kept, or made from what is measured of both sides; none if plain Spark should do it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql import types as T

from unskew.core.histogram import Histogram
from unskew.core.join_load import JoinLoad, JoinType, join_load, matched_load
from unskew.core.plan import Plan
from unskew.core.planners import planner_named
from unskew.core.routing import check_slots
from unskew.core.splitting.join_choice import JoinChoice, choose_way
from unskew.core.splitting.split_plan import SplitPlan
from unskew.spark.explained import Explained
from unskew.spark.join_inputs import Sides
from unskew.spark.join_options import JoinOptions
from unskew.spark.join_worth import split_cost, splits_skew, whole_cost, worth_routing
from unskew.spark.kept import KeptPlan
from unskew.spark.measure import measure_inputs
from unskew.spark.no_measure import measuring_allowed, warn_plain
from unskew.spark.options import planning_of
from unskew.spark.parallelism import PlainShuffle, buckets_for, cores_of, default_slots
from unskew.spark.row_order import may_differ
from unskew.spark.sampling import budget_for
from unskew.spark.worth import shuffled_bytes

if TYPE_CHECKING:
    from unskew.core.hashing import Hashes

_CONFIRMED_TYPES = (T.StringType, T.ByteType, T.ShortType, T.IntegerType, T.LongType)
"""Keys that a full join may split: Spark and Python write them alike, so that they can be compared one by one."""


@dataclass(frozen=True)
class Routing:
    """How a join is routed, and whether the null keys of each side are spread over all slots."""

    plan: Plan | SplitPlan
    spread: tuple[bool, bool]


@dataclass(frozen=True)
class MeasuredJoin:
    """What was measured of both sides, and the load that a plan has to balance over so many slots."""

    left: Histogram
    right: Histogram
    load: JoinLoad
    slots: int

    @property
    def spread(self) -> tuple[bool, bool]:
        """Whether the null keys of each side are spread over all slots."""
        return self.load.spread_left, self.load.spread_right


def route(
    sides: Sides, kind: JoinType, options: JoinOptions, explanation: Explained | None, *, by_name: bool
) -> Routing | None:
    """The plan of the join; None if plain Spark is as good."""
    df = sides[0].df
    preserved = sides[0].preserved, sides[1].preserved
    given = options.split or options.plan
    if isinstance(given, Plan | SplitPlan):
        return Routing(given, preserved)
    if isinstance(given, KeptPlan):
        plan = _kept_plan(given, sides, kind, options, explanation)
        return None if plan is None else Routing(plan, preserved)
    if not measuring_allowed(df):
        warn_plain("join")
        return None
    measured = measured_join(sides, kind, options, explanation)
    confirmed = partial(splittable_keys, measured, sides, kind, explanation, by_name=by_name)
    if options.splits:
        return Routing(split_plan(measured, kind, options, confirmed()), measured.spread)
    whole = whole_plan(measured, sides, options)
    if not options.leaves_choice():
        return Routing(whole, measured.spread)
    if explanation is None:
        return None
    split = split_plan(measured, kind, options, None)
    choice = chosen_way(measured, sides, kind, whole, split, explanation)
    if choice.chosen == "split" and kind == "full":
        # only now is it worth another pass over the keys
        split = split_plan(measured, kind, options, confirmed())
        choice = chosen_way(measured, sides, kind, whole, split, explanation)
    if choice.chosen == "plain":
        return None
    return Routing(split if choice.chosen == "split" else whole, measured.spread)


def _kept_plan(
    kept: KeptPlan, sides: Sides, kind: JoinType, options: JoinOptions, explanation: Explained | None
) -> Plan | None:
    """The kept plan, which has whole keys; None if plain Spark is as good."""
    df = sides[0].df

    def first() -> Plan:
        return whole_plan(measured_join(sides, kind, options, explanation), sides, options)

    plan = kept.plan_for(df, planning_of(df, options), first, "join")
    if plan is None:
        return None
    # it has the rows read of each key as its records
    load = JoinLoad(plan.histogram, plan.histogram, read=plan.histogram.records)
    cores = cores_of(df.sparkSession) or plan.slots
    plain = PlainShuffle.of(df.sparkSession, _size(explanation))
    return plan if worth_routing(plan, load, cores, sides[0].keys, plain) else None


def measured_join(
    sides: Sides, kind: JoinType, options: JoinOptions, explanation: Explained | None
) -> MeasuredJoin:
    """Measure both sides in one job."""
    spark = sides[0].df.sparkSession
    size = _size(explanation)
    slots = options.slots or default_slots(spark, size)
    buckets = options.buckets if options.slots else buckets_for(slots, options.buckets)
    check_slots(slots, buckets)
    inputs = [(side.measured, side.keys, side.measured_weight) for side in sides]
    histograms = measure_inputs(inputs, buckets, options.sample, budget_for(slots), size)
    left, right = (side.joined(histogram) for side, histogram in zip(sides, histograms, strict=True))
    if any(side.has_nulls for side in sides):
        load = join_load(left, right, kind, slots, options.output_cost)
    else:
        matched = matched_load(left, right, kind, options.output_cost)
        load = JoinLoad(matched, matched, read=left.total + right.total)
    return MeasuredJoin(left, right, load, slots)


def whole_plan(measured: MeasuredJoin, sides: Sides, options: JoinOptions) -> Plan:
    """The plan of the planner that was asked for, with whole keys."""
    cores = cores_of(sides[0].df.sparkSession) or measured.slots
    context = planner_named(options.planner).context_options(cores=cores)
    return Plan.make(measured.load.histogram, measured.slots, options.planner, **context)


def split_plan(
    measured: MeasuredJoin, kind: JoinType, options: JoinOptions, only: Hashes | None
) -> SplitPlan:
    """The plan with grids for hot keys."""
    return SplitPlan.make(
        measured.left,
        measured.right,
        measured.load,
        kind,
        measured.slots,
        most_copied=options.most_copied,
        output_cost=options.output_cost,
        only=only,
    )


def chosen_way(
    measured: MeasuredJoin,
    sides: Sides,
    kind: JoinType,
    whole: Plan,
    split: SplitPlan,
    explanation: Explained | None,
) -> JoinChoice:
    """The three ways beside each other, and the fastest by prediction."""
    spark = sides[0].df.sparkSession
    histograms = measured.left, measured.right
    key_type = sides[0].keys.type
    plain = PlainShuffle.of(spark, _size(explanation))
    return choose_way(
        measured.load,
        kind,
        whole,
        split,
        cores=cores_of(spark) or measured.slots,
        partitions=plain.partitions,
        merged_share=plain.merged_share,
        cost=whole_cost(key_type),
        split_cost=split_cost(key_type),
        spark_splits=explanation is not None and splits_skew(explanation, histograms, kind, spark),
    )


def _size(explanation: Explained | None) -> float:
    """The bytes that are shuffled, by Spark's estimate; 0 if it gives none."""
    return shuffled_bytes(explanation.logical) if explanation else 0.0


def splittable_keys(
    measured: MeasuredJoin,
    sides: Sides,
    kind: JoinType,
    explanation: Explained | None,
    *,
    by_name: bool,
) -> Hashes | None:
    """The keys that may be split; None if all may.

    A full join may split keys that are on both sides, if equality is the whole condition (`dealt_sides` says why). The
    sample may have missed them on one side, so the hot keys of either are looked for in both, by another pass over the
    keys. The inputs must yield the same keys again when the join runs, so nothing in them may be random.
    """
    if kind != "full":
        return None
    none = np.zeros(0, np.int64)
    if not by_name or explanation is None or any(len(side.parts) > 1 for side in sides):
        return none
    if may_differ(explanation.logical):
        return none
    types = [side.df.select(side.parts[0].column()).schema.fields[0].dataType for side in sides]
    compared = [isinstance(each, _CONFIRMED_TYPES) for each in types]
    if not all(compared) or any(part.cast or part.null_safe for side in sides for part in side.parts):
        return none
    histogram = measured.load.histogram
    heavy = histogram.tracked.weights > 0.5 * histogram.total / measured.slots
    hashes = histogram.hashes[heavy]
    if not len(hashes):
        return none
    try:
        values = histogram.keys.filter(pa.array(heavy)).to_pylist()
    except UnicodeDecodeError:  # bytes that are no text: Spark replaces them, so they cannot be compared
        return none
    on_both = _keys_on_both(sides, hashes)
    keys = zip(hashes.tolist(), values, strict=True)
    return np.array([key_hash for key_hash, key in keys if key in on_both], np.int64)


def _keys_on_both(sides: Sides, hashes: Hashes) -> set[object]:
    """The keys with one of these hashes that both sides have, found in one job."""
    frames = [
        side.df.select(side.parts[0].column().alias("key"), F.lit(number).alias("side"))
        for number, side in enumerate(sides)
    ]
    wanted = frames[0].union(frames[1]).where(F.xxhash64("key").isin(hashes.tolist()))
    rows = wanted.where("key is not null").distinct().collect()
    return {row[0] for row in rows if row[1] == 0} & {row[0] for row in rows if row[1] == 1}
