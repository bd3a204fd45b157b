"""A replay gives the same as planning window by window."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from research.simulation import outcome, replay
from research.workloads import drifting_windows
from unskew.core.histogram import Histogram
from unskew.core.loads import imbalance, lower_bound, migration, slot_loads
from unskew.core.plan import make_table
from unskew.core.planners import hash as plain_hash
from unskew.core.routing import RoutingTable

WINDOWS = list(drifting_windows(steps=4, keys=300, draws=5000, shuffled=50, buckets=64, seed=3))


@pytest.mark.parametrize("planner", ["hash", "keel"])
def test_a_replay_equals_planning_step_by_step(planner: str) -> None:
    steps = replay(planner, iter(WINDOWS), 5)
    table: RoutingTable | None = None
    for step, window in zip(steps, WINDOWS, strict=True):
        new = make_table(planner, window, 5, table)
        before = table or RoutingTable.hashed(5, 64)
        assert step.table.same_routes(new)
        assert step.table.version == new.version
        assert step.imbalance == imbalance(slot_loads(new, window))
        assert step.stale == imbalance(slot_loads(before, window))
        assert step.bound == lower_bound(window, 5)
        assert step.moved == (migration(table, new, window).state_share if table else 0.0)
        assert step.loads.tolist() == slot_loads(new, window).tolist()
        assert step.seconds > 0
        table = new


def test_options_reach_the_planner() -> None:
    tight, loose = (outcome(replay("keel", WINDOWS, 5, target=target)) for target in (0.0, 1.0))
    assert tight.imbalance < loose.imbalance
    assert tight.moved > loose.moved == 0
    with pytest.raises(ValueError, match="no option"):
        replay("keel", WINDOWS, 5, traget=0.1)


@pytest.mark.parametrize("history", [1, 2, 3])
def test_a_planner_of_several_windows_gets_the_newest(history: int, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[list[Histogram]] = []

    def plan(
        histogram: Histogram,
        slots: int,
        previous: RoutingTable | None = None,
        *,
        seed: int = 0,
        windows: Any = None,
    ) -> RoutingTable:
        calls.append(list(windows))
        return RoutingTable.hashed(slots, histogram.buckets, histogram.key_type)

    monkeypatch.setattr(plain_hash, "plan", plan)
    replay("hash", WINDOWS, 5, history=history)
    for step, windows in enumerate(calls):
        newest = WINDOWS[max(0, step + 1 - history) : step + 1]
        # variances need two windows: a single one is passed twice
        assert windows == (newest if len(newest) > 1 else newest * 2)


def test_too_little_history_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1, not 0"):
        replay("hash", WINDOWS, 5, history=0)
    for few in ([], replay("hash", WINDOWS[:1], 5)):
        with pytest.raises(ValueError, match=f"a replay of {len(few)} windows has no outcome"):
            outcome(few)


def test_the_outcome_ignores_the_first_window() -> None:
    steps = replay("keel", WINDOWS, 5)
    result = outcome(steps)
    assert result.imbalance == pytest.approx(np.mean([s.imbalance / s.bound for s in steps[1:]]))
    assert result.stale == pytest.approx(np.mean([s.stale / s.bound for s in steps[1:]]))
    assert result.moved == pytest.approx(np.mean([s.moved for s in steps[1:]]))
    assert result.seconds == np.median([s.seconds for s in steps[1:]])
    assert outcome(replay("hash", WINDOWS, 5)).moved == 0


def test_the_bound_is_that_of_the_slots_in_use() -> None:
    hot = Histogram.from_counts({"a": 60, "b": 20, "c": 20}, buckets=64)
    for step in replay("elb", [hot, hot], 8, lower=40, upper=60):
        assert step.table.slots == 2
        assert step.bound == 1.2
