"""Replay windows of a stream online: each window is routed by a table that was planned from earlier windows."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from unskew.core.histogram import Floats, Histogram
from unskew.core.history import History
from unskew.core.loads import imbalance, migration, slot_loads
from unskew.core.plan import make_table
from unskew.core.planners import planner_named
from unskew.core.routing import RoutingTable


@dataclass(frozen=True, eq=False)
class OnlineStep:
    """One window: the slot loads under the table in force, and the share of the state moved after it.

    `moved` is None if no plan was made after the window.
    """

    loads: Floats
    moved: float | None

    @property
    def imbalance(self) -> float:
        """Max over mean load."""
        return imbalance(self.loads)


def replay_online(
    planner: str,
    windows: Iterable[Histogram],
    slots: int,
    *,
    every: int = 1,
    decay: float | None = None,
    seed: int = 0,
    **options: Any,
) -> list[OnlineStep]:
    """Begin with plain hashing and re-plan after every `every` windows.

    `research.simulation.replay` judges a table by the window it was planned from; here a table is judged by the
    windows that come after it. With `decay` a plan is made from the decayed mean of all windows, otherwise from the
    last one. A planner that takes several windows gets the last `every`.
    """
    takes_windows = planner_named(planner).uses_windows
    recent: deque[Histogram] = deque(maxlen=every)
    history = History(decay=decay)
    table: RoutingTable | None = None
    steps = []
    for number, window in enumerate(windows, start=1):
        if table is None:
            table = RoutingTable.hashed(slots, window.buckets, window.key_type)
        recent.append(window)
        history.add(window)
        loads = slot_loads(table, window)
        moved = None
        if number % every == 0:
            if takes_windows:
                # a planner of several windows needs at least two
                options["windows"] = list(recent) * (2 if every == 1 else 1)
            measured = window if decay is None else history.histogram
            new = make_table(planner, measured, slots, table, seed=seed, **options)
            moved, table = migration(table, new, window).state_share, new
        steps.append(OnlineStep(loads, moved))
    return steps
