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
from unskew.core.histogram import DEFAULT_BUCKETS
from unskew.core.join_load import JoinType, matched_load
from unskew.core.plan import Plan
from unskew.core.splitting.split_plan import MOST_COPIED, SplitPlan
from unskew.spark.explained import Explained, explained
from unskew.spark.join_inputs import Sides, check_names, join_type, names_in, sides_of, weights_of
from unskew.spark.join_keys import condition_keys, named_keys
from unskew.spark.join_options import JoinOptions
from unskew.spark.join_planning import Routing, route
from unskew.spark.join_routing import Side
from unskew.spark.kept import Kept, KeptPlan
from unskew.spark.keys import check_frame, free_name, key_columns
from unskew.spark.measure import Sample
from unskew.spark.options import Options, observed
from unskew.spark.placement import remember_join
from unskew.spark.split_rows import split_rows
from unskew.spark.versions.placing import join_may_shuffle_again
from unskew.spark.worth import operator_of, own_exchanges, reason_to_step_aside

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SHUFFLED = ("SortMergeJoin", "ShuffledHashJoin")


def join(
    left: DataFrame,
    right: DataFrame,
    on: str | Sequence[str] | Column | Sequence[Column] | None = None,
    how: str | None = None,
    *,
    slots: int | None = None,
    planner: str = "auto",
    plan: Plan | ChainPlan | SplitPlan | Kept | str | Path | None = None,
    sample: Sample = "auto",
    weight: str | None = None,
    buckets: int = DEFAULT_BUCKETS,
    most_copied: float = MOST_COPIED,
) -> DataFrame:
    """Join like `left.join(right, on, how)`, which takes the same `on` and `how` and gives the same result.

    Filter before the join: Spark pushes no filter below a routed semi or anti join, or below spread null keys.

    Both sides are measured, and shuffled once, by slot, under one plan that balances the rows read and the rows
    emitted. Rows with a null key match nothing; many of them are spread over all slots. `weight` names a column of
    either side or of both.

    A hot key may be split over several slots: its rows of one side, or of both, are dealt out, and those of the other
    are copied, at most `most_copied` times the rows of both sides in all. This is done where it is predicted to be
    fastest (`unskew.diagnose(left, "k", join=right)` compares), with `planner="split"`, or with a plan of
    `unskew.plan_join`.

    Where that would not pay, the result is `left.join(right, on, how)` itself: a side is broadcast or already
    partitioned, Spark would split the skewed partition, the join is short, or the keys are even enough. With `plan` or
    `planner` the join is routed, unless no column of one side has to equal one of the other, or a side is broadcast by
    a hint.

    >>> clicks = spark.createDataFrame([("ann", 2), ("ann", 4), ("bob", 3)], "user string, n int")
    >>> homes = spark.createDataFrame([("ann", "Rome"), ("eve", "Oslo")], "user string, home string")
    >>> unskew.join(clicks, homes, "user", "left").orderBy("n").show()
    +----+---+----+
    |user|  n|home|
    +----+---+----+
    | ann|  2|Rome|
    | bob|  3|NULL|
    | ann|  4|Rome|
    +----+---+----+
    """
    for df in (left, right):
        check_frame(df)
    kind = join_type(how)
    common = partial(Options, slots=slots, sample=sample, weight=weight, buckets=buckets)
    options = JoinOptions.of(common, planner, plan, most_copied)
    options.check_split(kind)
    names = names_in(on)
    for df in (left, right) if names is not None else ():
        check_names(df, names or ())
    weights = weights_of(left, right, weight)
    options.refuse_split("a join needs them whole, so choose another")
    conditions = [on] if isinstance(on, Column) else on
    plain = left.join(right, list(names) if names is not None else conditions, how)  # type: ignore[arg-type]
    _ = plain.schema  # Spark Connect analyses a join only when it is asked
    if names is not None and (options.plan is not None or options.split is not None):
        by_name = named_keys(left, right, names)
        if by_name is not None:
            sides_of(left, right, by_name, kind, weights, options)  # refuses a plan for other keys
    explanation = explained(plain)
    if left.isStreaming or right.isStreaming or _leaves_to_spark(explanation, options, plain):
        return plain
    if names is not None:
        keys = named_keys(left, right, names)
    elif explanation and conditions and all(isinstance(each, Column) for each in conditions):
        keys = condition_keys(left, right, conditions, explanation.physical)  # type: ignore[arg-type]
    else:
        keys = None
    sides = None if keys is None else sides_of(left, right, keys, kind, weights, options)
    if sides is None or (options.leaves_choice() and _cannot_pay(explanation, sides, options)):
        return plain
    routing = route(sides, kind, options, explanation, by_name=names is not None)
    if names is not None and isinstance(options.plan, KeptPlan):
        sides = _observed(sides, kind, options)
        plain = sides[0].df.join(sides[1].df, list(names), how)
    if routing is None:
        return plain
    merge = explanation is not None and operator_of(explanation.physical).name not in _SHUFFLED
    keyed_on = list(names) if names is not None else conditions
    try:
        routed = _routed(sides, keyed_on, how, kind, routing, merge=merge)
        return plain if routed.schema != plain.schema or _is_shuffled_again(routed) else routed
    except AnalysisException:
        # Spark Connect finds a column of a table joined with itself only in the very DataFrames that were joined.
        return plain


def _is_shuffled_again(routed: DataFrame) -> bool:
    """Whether Spark would shuffle the placed rows once more, so that plain Spark is better."""
    if not join_may_shuffle_again(routed.sparkSession):
        return False
    explanation = explained(routed)
    return explanation is None or bool(own_exchanges(operator_of(explanation.physical)))


def _leaves_to_spark(explanation: Explained | None, options: JoinOptions, plain: DataFrame) -> bool:
    """Whether Spark's own plan for the join is the best there is; judged before any column is looked at."""
    if explanation is None:
        return options.leaves_choice()
    operator = operator_of(explanation.physical)
    if not options.leaves_choice():
        # a hint cannot be taken back: Spark would broadcast a routed side, too
        return "Hint=(strategy=broadcast" in explanation.logical.below(("Project", "Filter")).text
    if operator.name not in _SHUFFLED or len(own_exchanges(operator)) < 2:
        return True
    # whether measuring would be expensive is asked once the columns are known that it needs
    return reason_to_step_aside(explanation, "join", plain.sparkSession, None) is not None


def _cannot_pay(explanation: Explained | None, sides: Sides, options: JoinOptions) -> bool:
    """Whether plain Spark should do this, judged before anything is measured; a kept plan needs no measuring."""
    if options.known_plan:
        return False
    spark = sides[0].df.sparkSession
    reason = reason_to_step_aside(explanation, "join", spark, lambda: [side.measured for side in sides])
    return reason is not None


def _observed(sides: Sides, kind: JoinType, options: JoinOptions) -> Sides:
    """The sides, counted while the user's job reads them, so that a kept plan can be reviewed."""
    if any(part.cast or part.null_safe for side in sides for part in side.parts):
        return sides
    inputs = [(side.df, key_columns(side.df, [part.name for part in side.parts])) for side in sides]
    rows = observed(
        inputs, options, skips_null=True, combined=lambda both: matched_load(both[0], both[1], kind)
    )
    left, right = (replace(side, df=df) for side, df in zip(sides, rows, strict=True))
    return left, right


def _routed(
    sides: Sides, on: Any, how: str | None, kind: JoinType, routing: Routing, *, merge: bool
) -> DataFrame:
    """The join of both sides by slot, under the user's own condition and the equality of the slots.

    The slot is compared last: it is the same in all rows of a partition, so a sort had better look at the key first.
    """
    by_name = isinstance(on[0], str)
    taken = [side.df.columns for side in sides]
    left_slot = free_name("__slot", *taken)
    right_slot = left_slot if by_name else free_name(left_slot + "_", *taken)
    markers = _markers(kind, routing, taken)
    left, right = (
        _on_slots(side, routing, which, name, markers)
        for which, (side, name) in enumerate(zip(sides, (left_slot, right_slot), strict=True))
    )
    if kind in ("semi", "anti"):
        # A filter on the result is not pushed below this, either: filter before the join.
        # Spark pushes these joins below a repartition of the left side, but not below a non-deterministic filter.
        left = left.where(F.spark_partition_id() >= 0)
    if merge:
        # Spark would broadcast the smaller side on top of both shuffles.
        left = left.hint("merge")
    if by_name:
        joined = _without_artefacts(left.join(right, [*on, left_slot], how), markers)
        result = joined.drop(left_slot)
        if _slot_follows_key(sides[0], kind, routing):
            remember_join(result, joined, left_slot, on, routing.plan.table)
        return result
    condition = reduce(and_, [*on, F.col(left_slot) == F.col(right_slot)])
    return left.join(right, condition, how).drop(left_slot, right_slot)


def _slot_follows_key(left: Side, kind: JoinType, routing: Routing) -> bool:
    """Whether the left side's slot of every row of the result is a function of its key."""
    whole = isinstance(routing.plan, Plan) or not len(routing.plan.keys)
    spread = routing.spread[0] and left.has_nulls and kind != "inner"
    return whole and not spread and kind in ("inner", "left", "semi", "anti")


def _on_slots(
    side: Side, routing: Routing, which: int, name: str, markers: tuple[str, str] | None
) -> DataFrame:
    """The rows of one side in the partitions of their slots."""
    plan, spread = routing.plan, routing.spread[which]
    if isinstance(plan, Plan) or not len(plan.keys):
        return side.routed(plan.table, name, spread=spread)
    marker = None if markers is None else markers[which]
    return split_rows(side, plan, which, name, spread=spread, marker=marker)


def _markers(kind: JoinType, routing: Routing, taken: Sequence[Sequence[str]]) -> tuple[str, str] | None:
    """Names for columns that say of the rows of each side whether their key is split, where a join needs to know."""
    if kind != "full" or isinstance(routing.plan, Plan) or not len(routing.plan.keys):
        return None
    left = free_name("__split", *taken)
    return left, free_name(left + "_", *taken)


def _without_artefacts(joined: DataFrame, markers: tuple[str, str] | None) -> DataFrame:
    """A full join without the rows of split keys that matched nothing in one of their cells.

    Each row of a split key matches somewhere: its key is on both sides, equality is the whole condition, and every pair
    meets. So none of its copies may be emitted as unmatched; those that are stood in a cell without rows of the other
    side.
    """
    if markers is None:
        return joined
    left, right = map(F.col, markers)
    artefact = (left & right.isNull()) | (right & left.isNull())
    return joined.where(~F.coalesce(artefact, F.lit(False))).drop(*markers)
