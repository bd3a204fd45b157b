from __future__ import annotations

import numpy as np
import pytest

from research.papers.experiment import Record, judge
from research.papers.guo.balancing import MOVED
from research.papers.guo.live import ALGORITHMS, Windows, halves, noise, ratios, throughputs
from research.papers.guo.skewness import SKEWNESS
from research.papers.live_streams import Periodic
from research.papers.running import compute
from unskew.core.histogram import Histogram
from unskew.core.plan import make_table


def test_elb_moves_less_than_pkg_and_uhlb() -> None:
    record = compute(MOVED, windows=12, period=4, rate=2_000)
    facts = {claim.says: fact for claim, fact in judge(MOVED, record).facts}
    assert facts["ELB moves less than PKG and than UHLB"].holds
    assert np.mean(record.results["moved"]["UHLB"]) == pytest.approx(0.9, abs=0.05)
    assert len(record.results["moved"]["CLB"]) == 2


def test_clb_with_one_window_leaves_nearly_all_on_one_instance() -> None:
    record = compute(SKEWNESS, windows=8, rate=60_000, runs=1, **{"other every": 4})
    all_on_one = 60_000**2 * 0.1 * 0.9
    assert record.results["Gaussian, every 1"]["mean"] > 0.6 * all_on_one
    assert record.results["Gaussian, every 4"]["mean"] < 0.5 * all_on_one


@pytest.fixture
def scaled() -> Record:
    """Three windows on one instance, one that needs a second, two on two instances; only UHLB is uneven."""
    loads = [[1000], [1000], [1000], [2000], [1000, 1000], [1000, 1000]]
    even, uneven = [9.0, 1.0, 1.0, 2.0, 1.0, 1.0], [9.0, 1.0, 1.0, 2.0, 2.5, 1.5]
    results = {name: {"loads": loads, "moved": [0] * 6} for name in ALGORITHMS}
    walls = {name: uneven if name == "UHLB" else even for name in ALGORITHMS}
    points = [
        {"seconds": 1.0, "parts": {str(at): s for at, s in enumerate(walls[name])}} for name in ALGORITHMS
    ]
    return Record(
        "guo-6", {"most": 2, "unit": 1000}, 0, results, {"seconds": 1.0, "points": points}, {}, quick=True
    )


def test_a_tuple_waits_for_its_batch(scaled: Record) -> None:
    uneven = Windows.of(scaled, "UHLB")
    assert uneven.with_slots(1).mean == pytest.approx(1.0), "the first window starts workers"
    assert uneven.with_slots(2).mean == pytest.approx(2.0)
    assert noise(scaled) == 1.0


def test_throughput_doubles_where_loads_are_even(scaled: Record) -> None:
    assert throughputs(scaled, "ELB") == pytest.approx([1.0, 2.0])
    assert throughputs(scaled, "UHLB") == pytest.approx([1.0, 1.0])
    assert ratios(scaled, "ELB") == pytest.approx([1.0, 1.0])


def test_pkg_sends_each_tuple_to_the_less_loaded_of_two_instances() -> None:
    words = np.random.default_rng(0).zipf(1.5, 5_000) % 1000
    keys = halves(words, 8)
    assert np.array_equal(keys // 2, words)
    both = np.stack([2 * words, 2 * words + 1])
    table = make_table("hash", Histogram.from_arrays(*np.unique(both, return_counts=True)), 8)
    loads = [0] * 8
    for at, key in enumerate(keys.tolist()):
        slots = table.slot_of(both[:, at]).tolist()
        assert loads[slots[key % 2]] <= loads[slots[1 - key % 2]]
        loads[slots[key % 2]] += 1


def test_a_periodic_policy_waits_for_its_turn() -> None:
    from unskew.core.migration.policy import Costs

    window = Histogram.from_counts({0: 5, 1: 1}, buckets=16)
    now, then = make_table("single", window, 2), make_table("hash", window, 2)
    costs = Costs(0.0, 1.0)
    switches = [
        Periodic(every=3).decide(now, then, [window], costs, windows_since_switch=since).switch
        for since in (None, 2, 3)
    ]
    assert switches == [True, False, True]
    assert not Periodic().decide(now, now, [window], costs).switch
    assert not Periodic(every=None).decide(now, then, [window], costs).switch
