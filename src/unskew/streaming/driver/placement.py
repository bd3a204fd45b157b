"""How the keys of a live query are placed, and how that may change while it runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from unskew.core.migration.budget import Budget
from unskew.core.migration.scaling import Scaling


@dataclass(frozen=True)
class Placement:
    """What steers a live query beyond its slots, its first plan and its policy.

    `planner` is one of `unskew.planners()` (default: "keel", and "locality" for chained operators); `options` are the
    planner's own, those of "locality" for chained operators being `every` (batches between two re-plans), `imbalance`,
    `worth`, `target` and `seed`. `budget` spreads a migration over batches (`Budget.fluid()`, `Budget.batched(0.1)`;
    default: all at once). `scaling` changes the number of slots by a rule (`LoadRange`, `Utilisation`), and `max_slots`
    is the most there can ever be on this checkpoint (default: the slots it starts with; each costs a little in every
    batch, even while it is not used). `buckets` is how many hash buckets place the keys that are not heavy (default:
    4096, as in batch jobs).

    >>> Placement(max_slots=8, planner="kip").planner
    'kip'
    """

    max_slots: int | None = None
    planner: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    budget: Budget = field(default_factory=Budget.sudden)
    scaling: Scaling | None = None
    buckets: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.budget, Budget):
            raise ValueError(
                f"budget is an unskew.Budget, not {self.budget!r}: leave it out to move all at once"
            )
        if self.scaling is not None and not callable(getattr(self.scaling, "slots", None)):
            raise ValueError(f"scaling is a rule such as unskew.LoadRange, not {self.scaling!r}")
        if not isinstance(self.options, Mapping):
            raise ValueError(f"options are the planner's, by name, not {self.options!r}")
