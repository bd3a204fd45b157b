"""What can be said of a join before it runs: a plan that splits its hot keys, and the three ways beside each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from unskew.core.histogram import DEFAULT_BUCKETS
from unskew.core.join_load import OUTPUT_COST, JoinType
from unskew.core.splitting.join_choice import JoinChoice
from unskew.core.splitting.split_plan import MOST_COPIED, SplitPlan
from unskew.spark.explained import Explained, explained
from unskew.spark.join_inputs import Sides, check_names, join_type, names_in, sides_of, weights_of
from unskew.spark.join_keys import named_keys
from unskew.spark.join_options import JoinOptions
from unskew.spark.join_planning import (
    MeasuredJoin,
    chosen_way,
    measured_join,
    split_plan,
    splittable_keys,
    whole_plan,
)
from unskew.spark.keys import check_batch
from unskew.spark.measure import Sample

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def plan_join(
    left: DataFrame,
    right: DataFrame,
    on: str | Sequence[str],
    how: str | None = None,
    *,
    slots: int | None = None,
    most_copied: float = MOST_COPIED,
    output_cost: float = OUTPUT_COST,
    sample: Sample = "auto",
    weight: str | None = None,
    buckets: int = DEFAULT_BUCKETS,
) -> SplitPlan:
    """Measure both sides of a join and plan it with hot keys split: `unskew.join(left, right, on, how, plan=plan)`.

    The plan copies at most `most_copied` times the rows of both sides. It balances the rows that are read plus
    `output_cost` times those that are emitted. It can be saved and used by later runs; a key that has become hot since
    then stays whole, and one that has vanished costs nothing. A full join cannot use a plan that was made before.

    >>> clicks = spark.range(1000).selectExpr("IF(id < 600, 'ann', CAST(id AS string)) AS user", "id AS n")
    >>> homes = clicks.select("user").distinct().selectExpr("user", "'Rome' AS home")
    >>> plan = unskew.plan_join(clicks, homes, "user", slots=4)
    >>> list(plan.grids)
    ['ann']
    >>> unskew.join(clicks, homes, "user", plan=plan).count()
    1000
    """
    join = _Join.of(
        left,
        right,
        on,
        how,
        JoinOptions(
            slots, "auto", None, sample, weight, buckets, most_copied=most_copied, output_cost=output_cost
        ),
    )
    return join.split()


def compare_ways(
    left: DataFrame,
    right: DataFrame,
    on: str | Sequence[str],
    how: str | None = None,
    *,
    slots: int | None = None,
    sample: Sample = "auto",
    weight: str | None = None,
    buckets: int = DEFAULT_BUCKETS,
) -> JoinChoice:
    """A join as Spark does it, with whole keys, and with hot keys split: what each would take, and which is chosen."""
    join = _Join.of(left, right, on, how, JoinOptions(slots, "auto", None, sample, weight, buckets))
    whole = whole_plan(join.measured, join.sides, join.options)
    return chosen_way(join.measured, join.sides, join.kind, whole, join.split(), join.explanation)


@dataclass(frozen=True)
class _Join:
    """A join by names whose sides are measured."""

    sides: Sides
    kind: JoinType
    options: JoinOptions
    explanation: Explained | None
    measured: MeasuredJoin

    @classmethod
    def of(
        cls, left: DataFrame, right: DataFrame, on: str | Sequence[str], how: str | None, options: JoinOptions
    ) -> _Join:
        for df in (left, right):
            check_batch(df)
        kind, names = join_type(how), names_in(on)
        if names is None:
            raise ValueError(f"a join is planned by the names of its key columns, not by {on!r}")
        for df in (left, right):
            check_names(df, names)
        keys = named_keys(left, right, names)
        sides = (
            None
            if keys is None
            else sides_of(left, right, keys, kind, weights_of(left, right, options.weight), options)
        )
        if sides is None:
            raise ValueError(
                f"the two sides have {', '.join(names)} of types, or under a name, that cannot be compared by slot: "
                "cast one to the other, or rename it"
            )
        explanation = explained(left.join(right, list(names), how))
        return cls(sides, kind, options, explanation, measured_join(sides, kind, options, explanation))

    def split(self) -> SplitPlan:
        """The plan with grids."""
        only = splittable_keys(self.measured, self.sides, self.kind, self.explanation, by_name=True)
        return split_plan(self.measured, self.kind, self.options, only)
