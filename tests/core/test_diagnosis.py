import json
import math
from dataclasses import replace

import numpy as np
import pytest

from unskew.core.diagnosis import NextKey, diagnose
from unskew.core.histogram import Histogram
from unskew.core.planners import PLANNERS, Planner
from unskew.core.routing import RoutingTable


def test_a_heavy_key_bounds_every_planner_that_keeps_keys_whole() -> None:
    counts = {"hot": 500} | {f"k{i}": 1 for i in range(500)}
    diagnosis = diagnose(Histogram.from_counts(counts), 8)
    assert diagnosis.bound == 4.0
    assert diagnosis.heavy[0].key == "hot"
    assert diagnosis.heavy[0].share == 0.5
    assert diagnosis.heavy[0].slots == 4.0
    for verdict in diagnosis.verdicts:
        assert verdict.splits_keys == PLANNERS[verdict.planner].splits
        assert verdict.splits_keys or verdict.imbalance >= diagnosis.bound - 1e-9
        assert math.isclose(verdict.loads.sum(), 1000)
    assert "50.0% of the load" in diagnosis.advice


def test_the_predicted_time_is_that_of_the_fullest_slot_when_every_slot_has_a_core() -> None:
    diagnosis = diagnose(Histogram.from_counts({f"k{i}": i for i in range(1, 100)}), 4)
    for verdict in diagnosis.verdicts:
        assert math.isclose(verdict.time, verdict.imbalance)
        assert verdict.stragglers == np.count_nonzero(verdict.loads > 2 * verdict.loads.mean())
    assert diagnosis.speedup == diagnosis.verdict("hash").time / diagnosis.verdict("auto").time > 1


def test_one_core_takes_the_same_time_under_every_table() -> None:
    diagnosis = diagnose(Histogram.from_counts({f"k{i}": i for i in range(1, 100)}), 4, cores=1)
    assert all(math.isclose(verdict.time, 1.0) for verdict in diagnosis.verdicts)


def test_even_keys_are_left_to_hashing() -> None:
    diagnosis = diagnose(Histogram.from_counts(dict.fromkeys(range(100_000), 1)), 4)
    assert diagnosis.speedup == pytest.approx(1.0, abs=0.05)
    assert "fine" in diagnosis.advice
    assert diagnosis.advice.endswith("Next: nothing, plain Spark is enough here.")


def test_skew_that_no_table_can_fix_is_not_called_fine() -> None:
    diagnosis = diagnose(Histogram.from_counts({"hot": 1000, "cold": 1}), 8)
    assert "fine" not in diagnosis.advice
    assert "bounds the job" in diagnosis.advice
    assert diagnosis.advice.endswith("splits this key.")


def test_the_advice_ends_with_a_line_to_paste() -> None:
    histogram = Histogram.from_counts({f"k{i}": 40 for i in range(9)}, buckets=64)
    diagnosis = diagnose(replace(histogram, key_names=("user", 'a"b')), 4)
    assert diagnosis.speedup > 1.05
    assert diagnosis.advice.endswith(
        """Next: unskew.groupBy(df, 'user', 'a"b') in place of df.groupBy('user', 'a"b')."""
    )


def test_empty_data_is_diagnosed_as_empty() -> None:
    diagnosis = diagnose(Histogram.empty(), 4)
    assert diagnosis.speedup == 1.0
    assert not diagnosis.heavy
    assert "empty" in diagnosis.advice


def test_every_key_fits_json() -> None:
    keys = [math.nan, math.inf, -0.5]
    diagnosis = diagnose(Histogram.from_keys(keys), 2, planners=())
    read = json.loads(json.dumps(diagnosis.to_dict(), allow_nan=False))
    assert {str(heavy["key"]) for heavy in read["heavy"]} == {"nan", "inf", "-0.5"}


def test_a_planner_that_would_take_minutes_is_left_out() -> None:
    even = Histogram.from_counts(dict.fromkeys(range(64), 1))
    names = {verdict.planner for verdict in diagnose(even, 300, planners=["redist", "scan"]).verdicts}
    assert names == {"hash", "scan", "auto"}


def test_the_compared_planners_are_tried_and_progress_is_reported() -> None:
    reported: list[str] = []
    diagnosis = diagnose(Histogram.from_counts({"a": 3, "b": 2, "c": 1}), 2, progress=reported.append)
    assert [verdict.planner for verdict in diagnosis.verdicts] == reported
    assert reported == [name for name, planner in PLANNERS.items() if planner.compared]
    assert set(PLANNERS) - set(reported) == {"single", "modulo", "clb", "locality"}


def test_a_planner_that_cannot_serve_so_few_buckets_is_left_out() -> None:
    names = [verdict.planner for verdict in diagnose(Histogram.from_counts({"a": 1}, buckets=3), 2).verdicts]
    assert {"dkg", "dkg-pkg"}.isdisjoint(names)
    assert "kip" in names


def test_a_planner_that_needs_several_windows_is_left_out() -> None:
    verdicts = diagnose(Histogram.from_counts({"a": 1}, buckets=8), 2, planners=["clb"]).verdicts
    assert [verdict.planner for verdict in verdicts] == ["hash", "auto"]


def test_a_planner_that_fails_does_not_vanish_silently(monkeypatch: pytest.MonkeyPatch) -> None:
    def plan(histogram: Histogram, slots: int, *args: object, **options: object) -> RoutingTable:
        raise ValueError("operands could not be broadcast together")

    broken = Planner("broken", plan, summary="fails", movement="no promise")
    monkeypatch.setitem(PLANNERS, "broken", broken)
    with pytest.raises(ValueError, match="could not be broadcast"):
        diagnose(Histogram.from_counts({"a": 1}, buckets=8), 2)


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
def test_impossible_slots_and_unknown_names_are_refused(
    slots: int, planners: list[str], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        diagnose(Histogram.from_counts({"a": 1}, buckets=16), slots, planners=planners)


def test_every_value_prints_in_one_line() -> None:
    diagnosis = diagnose(Histogram.from_counts({"a": 6, "b": 2, "c": 2}, buckets=16), 2, planners=["kip"])
    verdict = "Verdict(hash, imbalance 1.600, time 1.600, 0 stragglers, 0 heavy rows)"
    assert repr(diagnosis.verdict("hash")) == verdict
    assert repr(diagnosis.heavy[0]) == "HeavyKey('a', 60.0% of the load, 1.20 slots)"
    expected = "Diagnosis(key, 2 slots on 2 cores, imbalance hash 1.600, auto 1.200, bound 1.200)"
    assert str(diagnosis) == expected
    next_key = NextKey(("tag",), 0.25, 0.875, (1.0, 1.0), (1.0, 1.0), ())
    assert repr(next_key) == "NextKey(tag: 87.5% stay with thenBy, 25.0% with hashing)"


def test_a_planner_that_was_not_judged_is_named_with_those_that_were() -> None:
    diagnosis = diagnose(Histogram.from_counts({"a": 6, "b": 2}, buckets=16), 2, planners=["kip"])
    with pytest.raises(ValueError, match="planner 'clb' was not judged here; these were: hash, kip, auto"):
        diagnosis.verdict("clb")


def test_a_hot_null_is_named() -> None:
    hot = diagnose(Histogram.from_counts({None: 90, "a": 5, "b": 5}, buckets=16), 4)
    assert "spark.sql.shuffle.spreadNullJoinKeys.enabled" in hot.advice
    other = diagnose(Histogram.from_counts({"c": 90, "a": 5, "b": 5}, buckets=16), 4)
    assert "null" not in other.advice
