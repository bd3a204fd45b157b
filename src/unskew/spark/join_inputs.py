"""What a join is asked for: its type, the names it joins by, its weights, its two sides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from unskew.core.join_load import JoinType
from unskew.core.plan import Plan
from unskew.spark.join_keys import JoinKeys
from unskew.spark.join_options import JoinOptions
from unskew.spark.join_routing import Side, part_names
from unskew.spark.kept import KeptPlan
from unskew.spark.keys import field
from unskew.spark.measure import check_weight

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Sides: TypeAlias = tuple[Side, Side]

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


def join_type(how: str | None) -> JoinType:
    """The join type that `how` names in one of Spark's spellings."""
    kind = _HOW.get("inner" if how is None else str(how).lower().replace("_", ""))
    if kind is None:
        raise ValueError(f"there is no join type {how!r}: use one of {', '.join(sorted(_HOW))}")
    return kind


def names_in(on: Any) -> tuple[str, ...] | None:
    """The names that `on` consists of, or None if it is something else."""
    if isinstance(on, str):
        return (on,)
    if isinstance(on, list | tuple) and all(isinstance(name, str) for name in on):
        return tuple(on)
    return None


def check_names(df: DataFrame, names: Sequence[str]) -> None:
    """Refuse key columns that a DataFrame does not have, or that are named twice."""
    if not names:
        raise ValueError("name at least one key column")
    if len({field(df, name).name for name in names}) < len(names):
        raise ValueError(f"a key column is named twice: {', '.join(names)}; name each once")


def weights_of(left: DataFrame, right: DataFrame, weight: str | None) -> tuple[str | None, str | None]:
    """The weight on each side; a side without it weighs 1 per record."""
    has = [weight is not None and weight.lower() in map(str.lower, df.columns) for df in (left, right)]
    if weight is not None:
        for df, has_weight in zip((left, right), has, strict=True):
            if has_weight or not any(has):
                check_weight(df, weight)
    return weight if has[0] else None, weight if has[1] else None


def sides_of(
    left: DataFrame,
    right: DataFrame,
    keys: JoinKeys,
    kind: JoinType,
    weights: tuple[str | None, str | None],
    options: JoinOptions,
) -> Sides | None:
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
    options.check_split(kind, sides[0].keys.type)
    return sides
