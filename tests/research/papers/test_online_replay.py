from __future__ import annotations

import pytest

from research.papers.online_replay import replay_online
from unskew.core.histogram import Histogram


def test_a_window_is_judged_under_the_table_that_was_in_force() -> None:
    window = Histogram.from_counts(dict.fromkeys(range(4), 10) | {99: 30}, buckets=64)
    steps = replay_online("keel", [window, window], 2)
    hashed = replay_online("hash", [window], 2)
    assert steps[0].imbalance == hashed[0].imbalance
    assert steps[1].imbalance == pytest.approx(1.0, abs=0.15)
    assert steps[0].moved is not None


def test_a_plan_is_made_once_per_period_from_the_windows_of_the_period() -> None:
    windows = [Histogram.from_counts({0: n, 1: n, 2: 10}, buckets=64) for n in (9, 1, 9, 1)]
    steps = replay_online("clb", windows, 2, every=2, substreams=64)
    assert [step.moved is None for step in steps] == [True, False, True, False]
    assert replay_online("clb", windows, 2)[0].moved is not None, "one window is enough for a plan"


def test_a_decayed_history_moves_less_on_a_stream_that_alternates() -> None:
    counts = [{0: 50, 1: 10, 2: 30, 3: 10}, {0: 10, 1: 50, 2: 10, 3: 30}] * 6
    windows = [Histogram.from_counts(window, buckets=64) for window in counts]
    at_once, slowly = (
        sum(step.moved or 0.0 for step in replay_online("kip", windows, 2, decay=decay)[2:])
        for decay in (None, 0.9)
    )
    assert slowly <= at_once
