"""The options of a join: those of every operator, and whether hot keys are to be split."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unskew.core import addresses, files
from unskew.core.join_load import OUTPUT_COST, JoinType
from unskew.core.splitting import split_plan
from unskew.core.splitting.split_plan import MOST_COPIED, SplitPlan, check_most_copied
from unskew.spark.options import Options

if TYPE_CHECKING:
    import pyarrow as pa

SPLIT = "split"
"""The name to ask for split keys by: `planner="split"`."""


@dataclass(frozen=True)
class JoinOptions(Options):
    """`split` is a plan that splits keys, if one was passed; `splits` says that keys are to be split in any case."""

    split: SplitPlan | None = None
    splits: bool = False
    most_copied: float = MOST_COPIED
    output_cost: float = OUTPUT_COST

    def __post_init__(self) -> None:
        super().__post_init__()
        check_most_copied(self.most_copied)
        cost = self.output_cost
        if isinstance(cost, bool) or not isinstance(cost, int | float) or not 0 <= cost < math.inf:
            raise ValueError(
                f"output_cost is the cost of a row emitted in rows read, such as 1.0, not {cost!r}"
            )

    @classmethod
    def of(cls, options: Callable[..., Options], planner: str, plan: Any, most_copied: float) -> JoinOptions:
        """The options as they were passed; `options` makes those of every operator from a planner and a plan."""
        split = _split_plan(plan)
        splits = planner == SPLIT
        if splits and plan is not None and split is None:
            raise ValueError(
                "planner='split' makes a plan of its own, and the plan that was passed keeps keys whole: "
                "leave one of them out"
            )
        others = options(planner="auto" if splits else planner, plan=plan if split is None else None)
        return cls(**vars(others), split=split, splits=splits, most_copied=most_copied)

    def leaves_choice(self) -> bool:
        """Whether plain Spark may do the work."""
        return self.split is None and not self.splits and super().leaves_choice()

    def check_split(self, kind: JoinType, key_type: pa.DataType | None = None) -> None:
        """Refuse a plan that splits keys in a way that this join may not, or other keys than it has."""
        if self.split is None:
            return
        self.split.check_kind(kind)
        if key_type is not None:
            self.split.check(key_type, self.slots)


def _split_plan(plan: object) -> SplitPlan | None:
    """The plan if it splits keys, or that of the file it is the path of."""
    if isinstance(plan, SplitPlan):
        return plan
    if not isinstance(plan, str | Path):
        return None
    data = addresses.read(plan)
    if files.kind_of(data, str(plan)) != split_plan.KIND:
        return None
    return SplitPlan.from_bytes(data, str(plan))
