"""`[plan]`, `[policy]` and `[scaling]`: how many slots a job has, what places its keys, and when state moves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, cast

from unskew.core.migration.policy import Policy
from unskew.core.migration.scaling import LoadRange, Scaling, Utilisation
from unskew.core.planners import planner_named
from unskew.core.routing import check_slots
from unskew.jobs.settings import (
    Location,
    boolean,
    check_names,
    numbers_of,
    one_of,
    plain_values,
    positive_int,
    setting,
    table,
    text,
)

SCALINGS: dict[str, type[LoadRange | Utilisation]] = {"load-range": LoadRange, "utilisation": Utilisation}
"""The rules for the number of slots that `[scaling] rule` can name."""


def read_policy(value: Any, location: Location) -> Policy | None:
    """When to switch tables; None for a fixed table. Numbers that are left out are those of `Policy()`."""
    policy = numbers_of(Policy, besides="fixed")(value, location)
    fixed = boolean(value.get("fixed", False), location.child("fixed"))
    if fixed and len(value) > 1:
        raise location.error("a fixed table needs no other setting: leave out either fixed or the others")
    return None if fixed else policy


def read_scaling(value: Any, location: Location) -> Scaling:
    """The rule for the number of slots."""
    if "rule" not in table(value, location):
        settings = ["rule", *(field.name for rule in SCALINGS.values() for field in fields(rule))]
        check_names(value, settings, location.path)
        raise location.child("rule").error(f"this setting is missing: name {' or '.join(SCALINGS)}")
    rule = one_of(*SCALINGS)(value["rule"], location.child("rule"))
    return numbers_of(SCALINGS[rule], besides="rule")(value, location)


def read_sample(value: Any, location: Location) -> str | int | float:
    """How much of the data is measured."""
    if isinstance(value, bool) or not (value in ("auto", "all") or isinstance(value, int | float)):
        raise location.error(f"write 'auto', 'all', a share such as 0.1 or a number of rows, not {value!r}")
    return cast(str | int | float, value)


@dataclass(frozen=True)
class PlacementSettings:
    """How many slots there are, and what decides which keys go where."""

    slots: int | None = setting(positive_int, None)
    max_slots: int | None = setting(positive_int, None, only="stream")
    planner: str | None = setting(text, None)
    options: dict[str, Any] = setting(plain_values, {}, only="stream")
    buckets: int | None = setting(positive_int, None)
    file: str | None = setting(text, None)
    sample: str | int | float | None = setting(read_sample, None, only="batch")
    weight: str | None = setting(text, None, only="batch")

    def __post_init__(self) -> None:
        if self.planner is not None:
            _check("planner", planner_named, self.planner)
        if self.slots is not None and self.buckets is not None:
            _check("slots", check_slots, self.slots, self.buckets)
        if self.max_slots is not None and self.max_slots < (self.slots or 1):
            raise ValueError(f"max_slots: this is the most there can be: at least slots = {self.slots}")


def _check(setting: str, check: Callable[..., object], *values: Any) -> None:
    """Run a check of the core, and name the setting if it fails."""
    try:
        check(*values)
    except ValueError as error:
        raise ValueError(f"{setting}: {error}") from error
