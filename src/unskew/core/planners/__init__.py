"""The planners: histogram(s) + previous table + N → routing table.

Each planner is one module. It has a function `plan(histogram, slots, previous=None, *, seed=0, …)`, whose docstring
states what it promises, its cost and its paper, and ends with the planner's declaration, `PLANNER`. The registry below
has one line per planner. The API, the command line, job files, the diagnosis and the docs read the declarations.
`make_table` in `unskew.core.plan` checks the input before a planner runs.
"""

from __future__ import annotations

import difflib
from importlib import import_module

from unskew.core.planners.declaration import Planner, UnsuitablePlannerError

__all__ = ["PLANNERS", "Planner", "UnsuitablePlannerError", "planner_named"]

# One line per planner: its module, in the order in which planners are listed.
_MODULES = (
    "hash",
    "modulo",
    "universal",
    "single",
    "ring",
    "scan",
    "redist",
    "readj",
    "dkg",
    "dkg_wosim",
    "oracle",
    "pkg",
    "dkg_pkg",
    "wrap_around",
    "elb",
    "clb",
    "uhlb",
    "kip",
    "keel",
    "locality",
    "auto",
)


def _declared(module: str) -> Planner:
    declaration: Planner = import_module(f"{__name__}.{module}").PLANNER
    return declaration


PLANNERS = {declaration.name: declaration for declaration in map(_declared, _MODULES)}
"""Every planner by its name."""


def planner_named(name: str) -> Planner:
    """The planner called `name`; a misspelt name is refused with the nearest one that exists."""
    if name not in PLANNERS:
        close = difflib.get_close_matches(str(name), PLANNERS, 1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise ValueError(f"there is no planner {name!r}: {hint}choose one of {', '.join(PLANNERS)}")
    return PLANNERS[name]
