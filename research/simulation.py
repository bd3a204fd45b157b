"""Replay measured windows through a planner: how well it balances them, and what it moves."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from unskew.core.histogram import Floats, Histogram
from unskew.core.loads import imbalance, lower_bound, migration, slot_loads
from unskew.core.plan import make_table
from unskew.core.planners import planner_named
from unskew.core.routing import RoutingTable


@dataclass(frozen=True, eq=False)
class Step:
    """One window under one planner.

    `imbalance` is that of the window under the table planned from it, `stale` that under the table that was in
    force when the window began, `bound` the least possible. `moved` is the share of all state that changed slots.
    """

    imbalance: float
    stale: float
    bound: float
    moved: float
    seconds: float
    loads: Floats
    table: RoutingTable


def replay(
    planner: str, windows: Iterable[Histogram], slots: int, *, seed: int = 0, history: int = 8, **options: Any
) -> list[Step]:
    """Re-plan after every window, each time from the previous table; the first plan moves nothing.

    A planner that takes several windows gets the last `history` windows.
    """
    if history < 1:
        raise ValueError(f"history is the number of windows that a planner gets: at least 1, not {history}")
    recent: deque[Histogram] = deque(maxlen=history)
    steps: list[Step] = []
    table: RoutingTable | None = None
    for window in windows:
        recent.append(window)
        extra = planner_named(planner).context_options(windows=list(recent))
        started = time.perf_counter()
        new = make_table(planner, window, slots, table, seed=seed, **extra, **options)
        seconds = time.perf_counter() - started
        before = table if table is not None else RoutingTable.hashed(slots, window.buckets, window.key_type)
        loads = slot_loads(new, window)
        # elb may use fewer slots than it was offered
        bound = lower_bound(window, new.slots)
        moved = migration(table, new, window).state_share if table is not None else 0.0
        steps.append(
            Step(
                imbalance(loads),
                imbalance(slot_loads(before, window)),
                bound,
                moved,
                seconds,
                loads,
                new,
            )
        )
        table = new
    return steps


@dataclass(frozen=True)
class Outcome:
    """A replay in four numbers, over all windows but the first.

    `imbalance` and `stale` are means of max/mean divided by the bound of the same window, `moved` is the mean share
    of the state moved per window, `seconds` the median planning time.
    """

    imbalance: float
    stale: float
    moved: float
    seconds: float


def outcome(steps: Sequence[Step]) -> Outcome:
    """Summarise a replay of at least two windows."""
    if len(steps) < 2:
        raise ValueError(
            f"a replay of {len(steps)} windows has no outcome: replay at least 2, since the first does not count"
        )
    later = steps[1:]
    return Outcome(
        float(np.mean([s.imbalance / s.bound for s in later])),
        float(np.mean([s.stale / s.bound for s in later])),
        float(np.mean([s.moved for s in later])),
        float(np.median([s.seconds for s in later])),
    )
