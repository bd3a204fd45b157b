"""What a planner declares about itself: everything the rest of unskew needs to know about it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

from unskew.core.histogram import Histogram
from unskew.core.routing import RoutingTable

_ARGUMENTS = frozenset({"histogram", "slots", "previous", "seed"})


PlanFunction: TypeAlias = Callable[..., RoutingTable]
"""`plan(histogram, slots, previous=None, *, seed=0, …)`: the keyword arguments beyond `seed` are the options."""

ExplainedPlanFunction: TypeAlias = Callable[..., tuple[RoutingTable, str]]
"""The same call for a planner that explains itself: the table, and the reason for it in one sentence."""


class UnsuitablePlannerError(ValueError):
    """The planner, with these options, cannot serve this number of slots over this number of buckets."""


@dataclass(frozen=True)
class Planner:
    """One planner, as the last statement of its own file declares it.

    `unskew planners` lists `summary` and `paper`, which is empty for what comes from no paper; the docs also list
    `movement`, what the planner promises about movement. A planner that `splits` keys serves only operators that can
    merge partial results. One that `uses_cores` has an option `cores`, the number of slots that run at once; one that
    `uses_windows` has an option `windows`, the load over time. Above `max_slots` it would take minutes. A diagnosis
    tries the planners that are `compared`. `explained` is set where the planner gives a reason with its table.
    """

    name: str
    plan: PlanFunction
    summary: str
    movement: str
    paper: str = ""
    splits: bool = False
    uses_cores: bool = False
    uses_windows: bool = False
    max_slots: int | None = None
    compared: bool = True
    explained: ExplainedPlanFunction | None = None

    @cached_property
    def options(self) -> dict[str, Any]:
        """The options and their defaults, as the signature of `plan` has them."""
        parameters = inspect.signature(self.plan).parameters.values()
        return {p.name: p.default for p in parameters if p.name not in _ARGUMENTS}

    def context_options(
        self, *, cores: int | None = None, windows: Sequence[Histogram] = ()
    ) -> dict[str, Any]:
        """Of what the caller knows about the job, the part that this planner uses, as its options.

        A planner that uses windows needs at least two of them: a single one is passed twice.
        """
        options: dict[str, Any] = {}
        if self.uses_cores and cores is not None:
            options["cores"] = cores
        if self.uses_windows and windows:
            options["windows"] = windows if len(windows) > 1 else [*windows, *windows]
        return options

    def run(
        self,
        histogram: Histogram,
        slots: int,
        previous: RoutingTable | None = None,
        *,
        seed: int = 0,
        **options: Any,
    ) -> tuple[RoutingTable, str]:
        """The table and the reason for it; the reason is empty unless the planner explains itself."""
        if self.explained is not None:
            return self.explained(histogram, slots, previous, seed=seed, **options)
        return self.plan(histogram, slots, previous, seed=seed, **options), ""
