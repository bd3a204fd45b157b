"""Whether to switch to a new table: only if it saves more time than moving the state costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unskew.core.histogram import Histogram
from unskew.core.loads import imbalance, lower_bound, migration, slot_loads
from unskew.core.routing import RoutingTable


@dataclass(frozen=True)
class Costs:
    """What work costs on this job, as measured on it: unskew assumes no constants.

    `seconds_per_load` is the time to process one unit of load on its slot, `seconds_per_state` the time to move one
    unit of state (a byte, unless the histogram measures state in another unit), and `seconds_per_switch` the fixed
    cost of a switch, however little moves.
    """

    seconds_per_load: float
    seconds_per_state: float
    seconds_per_switch: float = 0.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not value >= 0 or value == float("inf"):
                raise ValueError(f"{name} is a measured time, finite and not negative, not {value}")


@dataclass(frozen=True)
class Decision:
    """Whether to switch, the predicted seconds saved and spent, and the reason in one sentence."""

    switch: bool
    reason: str
    gain: float = 0.0
    cost: float = 0.0


@dataclass(frozen=True)
class Policy:
    """Switch when the time saved over a horizon exceeds the time that moving the state takes.

    A window takes as long as its fullest slot, so the gain per window is the difference between the highest
    slot loads under the two tables. The mean gain of the recent windows counts for `horizon` windows to come.
    Guards against switching back and forth: the gain must exceed the cost by the factor 1 + `hysteresis`; the new
    table must be better in each of the last `patience` windows (from 2 on, one odd window moves nothing); after a
    switch `cooldown` windows pass before the next; and a table within `tolerance` of the lower bound is left alone. A
    change of N is not a matter of balance and is decided elsewhere.

    The decision is a pure function of its arguments, so a replayed batch decides the same. The decider published
    with the KIP paper ignores the cost of migration; this one is built on it.
    """

    horizon: int = 20
    hysteresis: float = 0.2
    patience: int = 1
    cooldown: int = 0
    tolerance: float = 0.02

    def __post_init__(self) -> None:
        for name, least in (("horizon", 1), ("patience", 1), ("cooldown", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
                raise ValueError(f"{name} is a whole number of windows, at least {least}, not {value!r}")
        if not self.hysteresis >= 0 or not self.tolerance >= 0:
            raise ValueError(
                f"hysteresis and tolerance are not negative, not {self.hysteresis} and {self.tolerance}"
            )

    def decide(
        self,
        current: RoutingTable,
        candidate: RoutingTable,
        recent: Sequence[Histogram],
        costs: Costs,
        *,
        windows_since_switch: int | None = None,
    ) -> Decision:
        """Judge `candidate` by the `recent` windows, oldest first; the newest says how much state moves.

        >>> from unskew.core.plan import make_table
        >>> h = Histogram.from_counts({"a": 50, "b": 30, "c": 20}, buckets=16)
        >>> table = make_table("keel", h, 2)
        >>> Policy().decide(make_table("single", h, 2), table, [h, h], Costs(0.1, 0.01)).switch
        True
        """
        if not recent:
            return Decision(False, "nothing was measured yet")
        newest = recent[-1]
        if current.same_routes(candidate):
            return Decision(False, "the planner keeps the present table")
        if windows_since_switch is not None and windows_since_switch < self.cooldown:
            return Decision(False, f"only {windows_since_switch} windows since the last switch")
        present, bound = imbalance(slot_loads(current, newest)), lower_bound(newest, current.slots)
        if present <= bound * (1 + self.tolerance):
            return Decision(
                False, f"imbalance {present:.3f} is within {self.tolerance:.0%} of its bound {bound:.3f}"
            )
        gains = [_gain(current, candidate, window, costs) for window in recent]
        better = [gain > 0 for gain in gains[-self.patience :]]
        gain = self.horizon * sum(gains) / len(gains)
        moved = migration(current, candidate, newest).state
        cost = moved * costs.seconds_per_state + costs.seconds_per_switch
        if len(better) < self.patience or not all(better):
            return Decision(False, f"better in {sum(better)} of the last {self.patience} windows", gain, cost)
        if gain <= cost * (1 + self.hysteresis):
            return Decision(
                False, f"saves {gain:.3g} s in {self.horizon} windows, moving costs {cost:.3g}", gain, cost
            )
        return Decision(
            True, f"saves {gain:.3g} s in {self.horizon} windows for {cost:.3g} s of moving", gain, cost
        )


def _gain(current: RoutingTable, candidate: RoutingTable, window: Histogram, costs: Costs) -> float:
    """The seconds that the candidate saves in this window."""
    before, after = slot_loads(current, window).max(), slot_loads(candidate, window).max()
    return float(before - after) * costs.seconds_per_load
