"""The planners: histogram(s) + previous table + N → routing table.

One module a planner. Each has a function `plan(histogram, slots, previous=None, *, seed=0, …)` whose keyword
arguments beyond `seed` are its options, and a docstring that says what it promises, its cost and its paper.
`make_table` in `unskew.core.plan` checks the input before any of them runs.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Protocol, cast

from unskew.core.histogram import Histogram
from unskew.core.routing import RoutingTable

NAMES = (
    "hash",
    "modulo",
    "universal",
    "single",
    "ring",
    "scan",
    "redist",
    "readj",
    "dkg",
    "dkg-wosim",
    "oracle",
    "pkg",
    "dkg-pkg",
    "elb",
    "clb",
    "uhlb",
    "kip",
    "keel",
    "locality",
    "auto",
)

SPLITTING = frozenset({"pkg", "dkg-pkg"})
"""Planners whose tables have split rows: only for operators that can merge partial results."""


class Planner(Protocol):
    """The one signature of all planners."""

    def __call__(
        self,
        histogram: Histogram,
        slots: int,
        previous: RoutingTable | None = None,
        *,
        seed: int = 0,
        **options: Any,
    ) -> RoutingTable:
        """A table for `slots` slots."""
        ...


def planner(name: str) -> Planner:
    """The planner of that name."""
    if name not in NAMES:
        raise ValueError(f"there is no planner {name!r}: choose one of {', '.join(NAMES)}")
    module = import_module(f"{__name__}.{name.replace('-', '_')}")
    return cast(Planner, module.plan)
