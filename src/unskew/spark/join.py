"""`join` on slots: both sides shuffled once, under one plan, or the plain join where that is better."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial, reduce
from operator import and_
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException
from pyspark.sql import Column
from pyspark.sql import functions as F

from unskew.core.chains.plan import ChainPlan
from unskew.core.histogram import DEFAULT_BUCKETS, Histogram
from unskew.core.join_load import JoinLoad, JoinType, join_load, matched_load
from unskew.core.plan import Plan
from unskew.core.planners import planner_named
from unskew.core.routing import check_slots
from unskew.spark.explained import Explained, explained
from unskew.spark.join_keys import JoinKeys, condition_keys, named_keys
from unskew.spark.join_routing import Side, part_names
from unskew.spark.join_worth import splits_skew, worth_routing
from unskew.spark.kept import Kept, KeptPlan
from unskew.spark.keys import check_frame, field, free_name, key_columns
from unskew.spark.measure import Sample, check_weight, measure_inputs
from unskew.spark.no_measure import measuring_allowed, warn_plain
from unskew.spark.options import Options, observed, planning_of
from unskew.spark.parallelism import buckets_for, cores_of, default_slots
from unskew.spark.sampling import budget_for
from unskew.spark.worth import MEASURING, operator_of, own_exchanges, reason_to_step_aside, shuffled_bytes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_HOW: dict[str, JoinType] = {
    "inner": "inner",
    "cross": "inner",
    "outer": "full",
    "full": "full",
    "fullouter": "full",
    "left": "left",
    "leftouter": "left",
    "right": "right",
    "rightouter": "right",
    "semi": "semi",
    "leftsemi": "semi",
    "anti": "anti",
    "leftanti": "anti",
}

_SHUFFLED = ("SortMergeJoin", "ShuffledHashJoin")


def join(
    left: DataFrame,
    right: DataFrame,
    on: str | Sequence[str] | Column | Sequence[Column] | None = None,
    how: str | None = None,
    *,
    slots: int | None = None,
    planner: str = "auto",
    plan: Plan | ChainPlan | Kept | str | Path | None = None,
    sample: Sample = "auto",
    weight: str | None = None,
    buckets: int = DEFAULT_BUCKETS,
) -> DataFrame:
    """Join like `left.join(right, on, how)`, which takes the same `on` and `how` and gives the same result.

    Filter before the join: Spark pushes no filter below a routed semi or anti join, or below spread null keys.

    Both sides are measured, and shuffled once, by slot, under one plan that balances the rows read and the rows
    emitted. Rows with a null key match nothing; many of them are spread over all slots. `weight` names a column of
    either side or of both.

    Where that would not pay, the result is `left.join(right, on, how)` itself: a side is broadcast or already
    partitioned, Spark would split the skewed partition, the join is short, or the keys are even enough. With `plan` or
    `planner` the join is routed, unless no column of one side has to equal one of the other, or a side is broadcast by
    a hint.
    """
    for df in (left, right):
        check_frame(df)
    kind = _HOW.get("inner" if how is None else str(how).lower().replace("_", ""))
    if kind is None:
        raise ValueError(f"there is no join type {how!r}: use one of {', '.join(sorted(_HOW))}")
    options = Options(slots, planner, plan, sample, weight, buckets)
    names = _names(on)
    for df in (left, right) if names is not None else ():
        _check_names(df, names or ())
    weights = _weights(left, right, weight)
    options.refuse_split("a join needs them whole, so choose another")
    conditions = [on] if isinstance(on, Column) else on
    plain = left.join(right, list(names) if names is not None else conditions, how)  # type: ignore[arg-type]
    _ = plain.schema  # Spark Connect analyses a join only when it is asked
    if names is not None and options.plan is not None:
        by_name = named_keys(left, right, names)
        if by_name is not None:
            _sides(left, right, by_name, kind, weights, options)  # refuses a plan for other keys
    explanation = explained(plain)
    if left.isStreaming or right.isStreaming or _leaves_to_spark(explanation, options, plain):
        return plain
    if names is not None:
        keys = named_keys(left, right, names)
    elif explanation and conditions and all(isinstance(each, Column) for each in conditions):
        keys = condition_keys(left, right, conditions, explanation.physical)  # type: ignore[arg-type]
    else:
        keys = None
    sides = None if keys is None else _sides(left, right, keys, kind, weights, options)
    if sides is None or (options.leaves_choice() and _cannot_pay(explanation, sides, options)):
        return plain
    routing, spread = _plan(sides, kind, options, explanation)
    if names is not None and isinstance(options.plan, KeptPlan):
        sides = _observed(sides, kind, options)
        plain = sides[0].df.join(sides[1].df, list(names), how)
    if routing is None:
        return plain
    merge = explanation is not None and operator_of(explanation.physical).name not in _SHUFFLED
    keyed_on = list(names) if names is not None else conditions
    try:
        routed = _routed(sides, keyed_on, how, kind, routing, spread, merge=merge)
        return routed if routed.schema == plain.schema else plain
    except AnalysisException:
        # Spark Connect finds a column of a table joined with itself only in the very DataFrames that were joined.
        return plain


def _names(on: Any) -> tuple[str, ...] | None:
    """The names that `on` consists of, or None if it is something else."""
    if isinstance(on, str):
        return (on,)
    if isinstance(on, list | tuple) and all(isinstance(name, str) for name in on):
        return tuple(on)
    return None


def _check_names(df: DataFrame, names: Sequence[str]) -> None:
    if not names:
        raise ValueError("name at least one key column")
    if len({field(df, name).name for name in names}) < len(names):
        raise ValueError(f"a key column is named twice: {', '.join(names)}")


def _weights(left: DataFrame, right: DataFrame, weight: str | None) -> tuple[str | None, str | None]:
    """The weight on each side; a side without it weighs 1 per record."""
    has = [weight is not None and weight.lower() in map(str.lower, df.columns) for df in (left, right)]
    if weight is not None:
        for df, has_weight in zip((left, right), has, strict=True):
            if has_weight or not any(has):
                check_weight(df, weight)
    return weight if has[0] else None, weight if has[1] else None


def _leaves_to_spark(explanation: Explained | None, options: Options, plain: DataFrame) -> bool:
    """Whether Spark's own plan for the join is the best there is; judged before any column is looked at."""
    if explanation is None:
        return options.leaves_choice()
    operator = operator_of(explanation.physical)
    if not options.leaves_choice():
        # a hint cannot be taken back: Spark would broadcast a routed side, too
        return "Hint=(strategy=broadcast" in explanation.logical.below(("Project", "Filter")).text
    if operator.name not in _SHUFFLED or len(own_exchanges(operator)) < 2:
        return True
    reason = reason_to_step_aside(explanation, "join", plain.sparkSession)
    # what is expensive about the inputs may not be needed to measure their keys: that is asked again
    return reason is not None and not reason.startswith(MEASURING)


def _sides(
    left: DataFrame,
    right: DataFrame,
    keys: JoinKeys,
    kind: JoinType,
    weights: tuple[str | None, str | None],
    options: Options,
) -> tuple[Side, Side] | None:
    """Both sides, or None if their keys cannot be hashed alike; a ValueError if a given plan is for other keys."""
    names = part_names(left, keys.left)
    sides = (
        Side(left, keys.left, names, kind in ("left", "full", "anti"), weights[0]),
        Side(right, keys.right, names, kind in ("right", "full"), weights[1]),
    )
    try:
        alike = sides[0].keys.type.equals(sides[1].keys.type)
    except ValueError:
        if options.leaves_choice():
            return None
        raise
    if not alike:
        return None
    if isinstance(options.plan, Plan | KeptPlan):
        options.plan.check(sides[0].keys.type, options.slots)
    return sides


def _cannot_pay(explanation: Explained | None, sides: tuple[Side, Side], options: Options) -> bool:
    """Whether plain Spark should do this, judged before anything is measured; a kept plan needs no measuring."""
    spark = sides[0].df.sparkSession
    measured = [side.measured for side in sides]
    reason = reason_to_step_aside(explanation, "join", spark, measured)
    return reason is not None and not (options.known_plan and reason.startswith(MEASURING))


def _observed(sides: tuple[Side, Side], kind: JoinType, options: Options) -> tuple[Side, Side]:
    """The sides, counted while the user's job reads them, so that a kept plan can be reviewed."""
    if any(part.cast or part.null_safe for side in sides for part in side.parts):
        return sides
    inputs = [(side.df, key_columns(side.df, [part.name for part in side.parts])) for side in sides]
    rows = observed(
        inputs, options, skips_null=True, combined=lambda both: matched_load(both[0], both[1], kind)
    )
    left, right = (replace(side, df=df) for side, df in zip(sides, rows, strict=True))
    return left, right


def _plan(
    sides: tuple[Side, Side], kind: JoinType, options: Options, explanation: Explained | None
) -> tuple[Plan | None, tuple[bool, bool]]:
    """The plan, and whether to spread the null keys of each side; no plan if plain Spark is as good."""
    df = sides[0].df
    preserved = sides[0].preserved, sides[1].preserved
    if isinstance(options.plan, Plan):
        return options.plan, preserved
    if isinstance(options.plan, KeptPlan):
        measured = partial(_measured_plan, sides, kind, options, explanation)
        plan = options.plan.plan_for(df, planning_of(df, options), lambda: measured()[0], "join")
        if plan is None:
            return None, preserved
        load = JoinLoad(plan.histogram, plan.histogram)
        worth = worth_routing(
            plan, load, cores_of(df.sparkSession) or plan.slots, sides[0].keys, df.sparkSession
        )
        return plan if worth else None, preserved
    if not measuring_allowed(df):
        warn_plain("join")
        return None, preserved
    plan, load, measured_sides = _measured_plan(sides, kind, options, explanation)
    cores = cores_of(df.sparkSession) or plan.slots
    if options.leaves_choice() and (
        explanation is None
        or splits_skew(explanation, measured_sides, kind, df.sparkSession)
        or not worth_routing(plan, load, cores, sides[0].keys, df.sparkSession)
    ):
        return None, preserved
    return plan, (load.spread_left, load.spread_right)


def _measured_plan(
    sides: tuple[Side, Side], kind: JoinType, options: Options, explanation: Explained | None
) -> tuple[Plan, JoinLoad, tuple[Histogram, Histogram]]:
    """The plan of the measured sides, the load it balances, and what was measured of each side."""
    spark = sides[0].df.sparkSession
    slots = options.slots or default_slots(spark, shuffled_bytes(explanation.logical) if explanation else 0.0)
    buckets = options.buckets if options.slots else buckets_for(slots, options.buckets)
    check_slots(slots, buckets)
    inputs = [(side.measured, side.keys, side.measured_weight) for side in sides]
    left, right = measure_inputs(inputs, buckets, options.sample, budget_for(slots))
    if any(side.has_nulls for side in sides):
        load = join_load(left, right, kind, slots)
    else:
        matched = matched_load(left, right, kind)
        load = JoinLoad(matched, matched)
    context = planner_named(options.planner).context_options(cores=cores_of(spark) or slots)
    return Plan.make(load.histogram, slots, options.planner, **context), load, (left, right)


def _routed(
    sides: tuple[Side, Side],
    on: Any,
    how: str | None,
    kind: JoinType,
    plan: Plan,
    spread: tuple[bool, bool],
    *,
    merge: bool,
) -> DataFrame:
    """The join of both sides by slot, under the user's own condition and the equality of the slots.

    The slot is compared last: it is the same in all rows of a partition, so a sort had better look at the key first.
    """
    by_name = isinstance(on[0], str)
    taken = [side.df.columns for side in sides]
    left_slot = free_name("__slot", *taken)
    right_slot = left_slot if by_name else free_name(left_slot + "_", *taken)
    left, right = (
        side.routed(plan, name, spread=side_spread)
        for side, name, side_spread in zip(sides, (left_slot, right_slot), spread, strict=True)
    )
    if kind in ("semi", "anti"):
        # A filter on the result is not pushed below this, either: filter before the join.
        # Spark pushes these joins below a repartition of the left side, but not below a non-deterministic filter.
        left = left.where(F.spark_partition_id() >= 0)
    if merge:
        # Spark would broadcast the smaller side on top of both shuffles.
        left = left.hint("merge")
    if by_name:
        return left.join(right, [*on, left_slot], how).drop(left_slot)
    condition = reduce(and_, [*on, F.col(left_slot) == F.col(right_slot)])
    return left.join(right, condition, how).drop(left_slot, right_slot)
