"""Windows of a stream under the tables that were in force: each is planned from windows that are over."""

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
class Lived:
    """One window: the slot loads under the table in force, and the share of the state moved after it.

    `moved` is None after a window that was not followed by planning.
    """

    loads: Floats
    moved: float | None

    @property
    def imbalance(self) -> float:
        """Max over mean load."""
        return imbalance(self.loads)


def follow(
    planner: str,
    windows: Iterable[Histogram],
    slots: int,
    *,
    every: int = 1,
    decay: float | None = None,
    seed: int = 0,
    **options: Any,
) -> list[Lived]:
    """Begin with plain hashing and plan anew after every `every` windows.

    `replay` of the core judges a table by the window it was made from; here a table is judged by what comes after
    it. With `decay` a plan is made from the decayed mean of all windows, else from the last one. A planner that
    takes several windows gets the last `every`.
    """
    takes_windows = planner_named(planner).uses_windows
    recent: deque[Histogram] = deque(maxlen=every)
    history = History(decay=decay)
    table: RoutingTable | None = None
    lived = []
    for number, window in enumerate(windows, start=1):
        if table is None:
            table = RoutingTable.hashed(slots, window.buckets, window.key_type)
        recent.append(window)
        history.add(window)
        loads = slot_loads(table, window)
        moved = None
        if number % every == 0:
            if takes_windows:
                options["windows"] = list(recent) * (2 if every == 1 else 1)  # one window is no series
            measured = window if decay is None else history.histogram
            new = make_table(planner, measured, slots, table, seed=seed, **options)
            moved, table = migration(table, new, window).state_share, new
        lived.append(Lived(loads, moved))
    return lived
