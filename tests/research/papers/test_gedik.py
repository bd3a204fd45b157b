from __future__ import annotations

import numpy as np
import pytest

from research.papers.experiment import Verdict, judge
from research.papers.gedik import resources, sizes, times, toy
from research.papers.gedik.growing import HEAD, value, zipf
from research.papers.running import compute


def test_the_printed_balances_of_the_toy_example_are_possible() -> None:
    assert judge(toy.TOY, compute(toy.TOY)).verdict is Verdict.AGREES


def test_consistent_hashing_moves_less_and_balances_worse() -> None:
    small = {"keys": [10_000], "resources": ["LLL"], "planner": ["uniform", "consistent", "scan"], "runs": 3}
    record = compute(resources.RESOURCES, **small)
    b, m = (
        {planner: value(record, measure, planner=planner) for planner in small["planner"]}
        for measure in ("b", "m")
    )
    assert b["scan"] < b["consistent"]
    assert m["consistent"] < m["scan"] < m["uniform"]
    assert m["uniform"] == pytest.approx(9, abs=1)


def test_results_of_timed_experiments_do_not_depend_on_the_clock() -> None:
    small = {"keys": [10_000], "sigma": [0.1, 1.0], "planner": ["scan"]}
    first, second = (compute(times.SCALER, **small) for _ in range(2))
    assert first.results == second.results
    assert all(point["parts"]["planning"] > 0 for point in first.times["points"])


def test_keys_beyond_the_head_count_by_their_number_and_weight() -> None:
    load = zipf(2 * HEAD, 1.0, run=0)
    assert load.distinct == pytest.approx(2 * HEAD)
    assert load.total == pytest.approx(np.sum(1.0 / np.arange(1, 2 * HEAD + 1)))


def test_the_lossy_counter_hardly_depends_on_the_skew() -> None:
    small = {
        "keys": [100_000],
        "z": [0.1, 1.0],
        "z_of": {},
        "resources": ["LCL"],
        "draws": 200_000,
        "runs": 1,
    }
    flat, steep = (row["counted"] for row in compute(sizes.SKEW, **small).results)
    assert 1 < flat / steep < 2
