import json
import math

import numpy as np
import pytest

from unskew.core.diagnosis import COMPARED, diagnose
from unskew.core.histogram import Histogram
from unskew.core.planners import SPLITTING


def test_a_heavy_key_bounds_every_planner_that_keeps_keys_whole() -> None:
    counts = {"hot": 500} | {f"k{i}": 1 for i in range(500)}
    found = diagnose(Histogram.from_counts(counts), 8)
    assert found.bound == 4.0
    assert found.heavy[0].key == "hot"
    assert found.heavy[0].share == 0.5
    assert found.heavy[0].slots == 4.0
    for verdict in found.verdicts:
        assert verdict.splits_keys == (verdict.planner in SPLITTING)
        assert verdict.splits_keys or verdict.imbalance >= found.bound - 1e-9
        assert math.isclose(verdict.loads.sum(), 1000)
    assert "50.0% of the load" in found.advice


def test_the_predicted_time_is_that_of_the_fullest_slot_when_every_slot_has_a_core() -> None:
    found = diagnose(Histogram.from_counts({f"k{i}": i for i in range(1, 100)}), 4)
    for verdict in found.verdicts:
        assert math.isclose(verdict.time, verdict.imbalance)
        assert verdict.stragglers == np.count_nonzero(verdict.loads > 2 * verdict.loads.mean())
    assert found.speedup == found.verdict("hash").time / found.verdict("auto").time > 1


def test_one_core_takes_the_same_time_under_every_table() -> None:
    found = diagnose(Histogram.from_counts({f"k{i}": i for i in range(1, 100)}), 4, cores=1)
    assert all(math.isclose(verdict.time, 1.0) for verdict in found.verdicts)


def test_even_keys_are_left_to_hashing() -> None:
    found = diagnose(Histogram.from_counts(dict.fromkeys(range(100_000), 1)), 4)
    assert found.speedup == pytest.approx(1.0, abs=0.05)
    assert "fine" in found.advice


def test_skew_that_no_table_can_mend_is_not_called_fine() -> None:
    found = diagnose(Histogram.from_counts({"hot": 1000, "cold": 1}), 8)
    assert "fine" not in found.advice
    assert "bounds the job" in found.advice


def test_empty_data_is_diagnosed_as_empty() -> None:
    found = diagnose(Histogram.empty(), 4)
    assert found.speedup == 1.0
    assert not found.heavy
    assert "empty" in found.advice


def test_every_key_fits_json() -> None:
    keys = [math.nan, math.inf, -0.5]
    found = diagnose(Histogram.from_keys(keys), 2, planners=())
    read = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert {str(heavy["key"]) for heavy in read["heavy"]} == {"nan", "inf", "-0.5"}


def test_a_planner_that_would_take_minutes_is_left_out() -> None:
    even = Histogram.from_counts(dict.fromkeys(range(64), 1))
    names = {verdict.planner for verdict in diagnose(even, 300, planners=["redist", "scan"]).verdicts}
    assert names == {"hash", "scan", "auto"}


def test_all_planners_are_compared_and_progress_is_told() -> None:
    told: list[str] = []
    found = diagnose(Histogram.from_counts({"a": 3, "b": 2, "c": 1}), 2, progress=told.append)
    assert [verdict.planner for verdict in found.verdicts] == told
    assert set(told) == set(COMPARED)


def test_no_core_is_refused() -> None:
    with pytest.raises(ValueError, match="cores"):
        diagnose(Histogram.from_counts({"a": 1}), 2, cores=0)


@pytest.mark.parametrize(
    ("slots", "planners", "message"),
    [
        (0, (), "at least one slot"),
        (2.5, (), "whole number"),
        (17, (), "17 slots but only 16 buckets"),
        (2, ["kepl"], "no planner 'kepl'"),
    ],
)
def test_slots_and_names_that_are_none_are_refused(slots: int, planners: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        diagnose(Histogram.from_counts({"a": 1}, buckets=16), slots, planners=planners)
