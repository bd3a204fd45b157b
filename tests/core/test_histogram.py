"""What was measured is never lost, doubled or kept without bound."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unskew.core.hashing import buckets_of, hash_keys
from unskew.core.histogram import Histogram, Measures, sum_by
from unskew.core.history import History, merge_all
from unskew.core.plan import Plan

BUCKETS = 7
KEYS = st.sampled_from("abcdefghijklmnopqrst")
RECORDS = st.lists(KEYS, max_size=60)
COUNTS = st.dictionaries(KEYS, st.integers(0, 1000), max_size=20)


def figures(h: Histogram) -> dict[str, tuple[float, ...]]:
    """Key → counts, weights, state of the tracked keys."""
    return dict(zip(h.keys.to_pylist(), zip(*h.tracked.columns(), strict=True), strict=True))


def bucket_totals(h: Histogram) -> np.ndarray[Any, Any]:
    """Counts, weights and state of every bucket with its tracked keys."""
    tracked = h.tracked.summed_by(h.key_buckets, h.buckets)
    return np.array((h.rest + tracked).columns())


def assert_same(one: Histogram, other: Histogram) -> None:
    assert one.key_type == other.key_type
    assert one.keys.to_pylist() == other.keys.to_pylist()
    assert one.hashes.tolist() == other.hashes.tolist()
    for a, b in zip(
        (*one.tracked.columns(), *one.rest.columns(), one.rest_distinct),
        (*other.tracked.columns(), *other.rest.columns(), other.rest_distinct),
        strict=True,
    ):
        np.testing.assert_allclose(a, b, rtol=1e-12)
        assert a.dtype == b.dtype == np.float64


class TestMaking:
    @given(RECORDS)
    def test_from_keys_counts_and_arrays_agree(self, records: list[str]) -> None:
        counts = Counter(records)
        by_counts = Histogram.from_counts(counts, buckets=BUCKETS, key_type=pa.string())
        assert_same(Histogram.from_keys(records, buckets=BUCKETS, key_type=pa.string()), by_counts)
        names = pa.array(list(counts) * 2, pa.string())
        halves = [n / 2 for n in counts.values()] * 2
        assert_same(Histogram.from_arrays(names, halves, buckets=BUCKETS), by_counts)
        assert_same(Histogram.from_keys(pd.Series(records, dtype="string"), buckets=BUCKETS), by_counts)
        assert figures(by_counts) == {k: (n, n, n) for k, n in counts.items()}

    @given(COUNTS)
    def test_keys_are_listed_heaviest_first_then_by_hash(self, counts: dict[str, int]) -> None:
        h = Histogram.from_counts(counts, buckets=BUCKETS)
        rows = list(zip((-h.tracked.weights).tolist(), h.hashes.tolist(), strict=True))
        assert rows == sorted(rows)
        assert h.hashes.tolist() == hash_keys(h.keys).tolist()

    def test_weights_and_state_beside_counts(self) -> None:
        h = Histogram.from_counts(
            {"a": 1, "b": 2}, weights={"a": 30}, state={"b": 7, "a": 5}, buckets=BUCKETS
        )
        assert figures(h) == {"a": (1, 30, 5), "b": (2, 0, 7)}
        assert (h.total, h.total_state, h.heaviest_share) == (30, 12, 1.0)
        assert h.top(1) == [("a", 30.0)]

    def test_weights_and_state_of_records_are_summed(self) -> None:
        h = Histogram.from_keys(
            np.array([1, 2, 1]), weights=pa.array([1.0, 2.0, 4.0]), state=[1, 1, 0], buckets=BUCKETS
        )
        assert figures(h) == {1: (2, 5, 1), 2: (1, 2, 1)}

    def test_a_figure_of_a_key_without_a_count_is_refused(self) -> None:
        for name in ("weights", "state"):
            with pytest.raises(ValueError, match=f"{name} has the key 'b', which is missing from counts"):
                Histogram.from_counts({"a": 1}, **{name: {"b": 1}})

    @pytest.mark.parametrize("bad", [-1.0, float("nan"), float("inf"), -float("inf"), None])
    @pytest.mark.parametrize("which", ["counts", "weights", "state"])
    def test_nonsense_figures_are_refused(self, which: str, bad: Any) -> None:
        columns = {"counts": [1.0, 1.0], "weights": [1.0, 1.0], "state": [1.0, 1.0]}
        columns[which] = [1.0, bad]
        with pytest.raises(ValueError, match=f"{which} must be finite and not negative, but figure 1 is"):
            Histogram.from_arrays(["a", "b"], **columns)

    def test_lengths_must_match(self) -> None:
        with pytest.raises(ValueError, match="2 keys but 1 counts"):
            Histogram.from_arrays(["a", "b"], [1])
        with pytest.raises(ValueError, match="weights has 1 figures where there are 2 keys"):
            Histogram.from_keys(["a", "b"], weights=[1])

    @pytest.mark.parametrize(
        ("size", "message"),
        [({"buckets": 0}, "at least one bucket, not 0"), ({"capacity": -1}, "0 or more, not -1")],
    )
    def test_sizes_are_checked(self, size: dict[str, int], message: str) -> None:
        for make in (lambda: Histogram.empty(**size), lambda: Histogram.from_keys(["a"], **size)):
            with pytest.raises(ValueError, match=message):
                make()
        if "capacity" in size:
            with pytest.raises(ValueError, match=message):
                Histogram.from_keys(["a"]).trimmed(size["capacity"])

    def test_empty(self) -> None:
        h = Histogram.empty(pa.int64(), buckets=BUCKETS)
        assert (h.total, h.total_state, h.heaviest_share, h.distinct, h.buckets) == (0, 0, 0, 0, BUCKETS)
        assert h.key_type == pa.int64()
        assert h.top() == []
        assert_same(Histogram.from_arrays(pa.array([], pa.int64()), [], buckets=BUCKETS), h)
        assert_same(h.merge(h), h)
        assert_same(h.trimmed(3), h)

    def test_the_caller_s_array_is_not_kept(self) -> None:
        counts = np.array([1.0, 2.0])
        h = Histogram.from_arrays(["a", "b"], counts)
        counts[:] = 99
        assert h.total == 3


class TestMerge:
    @given(COUNTS, COUNTS, COUNTS)
    def test_associative_commutative_and_exact_under_capacity(
        self, a: dict[str, int], b: dict[str, int], c: dict[str, int]
    ) -> None:
        x, y, z = (Histogram.from_counts(n, buckets=BUCKETS, key_type=pa.string()) for n in (a, b, c))
        together = Histogram.from_counts(
            {k: a.get(k, 0) + b.get(k, 0) + c.get(k, 0) for k in {**a, **b, **c}},
            buckets=BUCKETS,
            key_type=pa.string(),
        )
        assert_same(x.merge(y).merge(z), together)
        assert_same(x.merge(y.merge(z)), together)
        assert_same(z.merge(y).merge(x), together)
        assert_same(merge_all([y, z, x]), together)

    @given(st.lists(COUNTS, min_size=1, max_size=5), st.integers(0, 6), st.randoms())
    def test_bucket_totals_are_exact_beyond_capacity(
        self, parts: list[dict[str, int]], capacity: int, random: Any
    ) -> None:
        def make(n: dict[str, int]) -> Histogram:
            return Histogram.from_counts(n, buckets=BUCKETS, capacity=capacity, key_type=pa.string())

        total: Counter[str] = Counter()
        for n in parts:
            total.update(n)
        histograms = [make(n) for n in parts]
        random.shuffle(histograms)
        merged = merge_all(histograms)
        expected = Histogram.from_counts(total, buckets=BUCKETS, key_type=pa.string())
        np.testing.assert_allclose(bucket_totals(merged), bucket_totals(expected))
        assert len(merged.hashes) <= capacity
        # never more than there are: the estimate is a lower bound, however often keys come and go
        assert max(len(set(n)) for n in parts) <= merged.distinct <= len(total)

    @given(COUNTS, COUNTS, st.integers(0, 6))
    def test_commutative_beyond_capacity(self, a: dict[str, int], b: dict[str, int], capacity: int) -> None:
        x, y = (
            Histogram.from_counts(n, buckets=BUCKETS, capacity=capacity, key_type=pa.string()) for n in (a, b)
        )
        assert_same(x.merge(y), y.merge(x))

    def test_distinct_does_not_grow_by_merging_the_same_keys(self) -> None:
        keys = [str(k) for k in range(100)]
        windows = [
            Histogram.from_arrays(keys, np.roll(np.arange(100), step), buckets=8, capacity=10)
            for step in range(0, 100, 7)
        ]
        assert merge_all(windows).distinct == 100
        assert merge_all(windows * 3).distinct == 100

    def test_the_larger_capacity_wins(self) -> None:
        small, large = (Histogram.from_keys(["a"], buckets=2, capacity=c) for c in (3, 9))
        assert small.merge(large).capacity == large.merge(small).capacity == 9

    def test_other_keys_or_buckets_are_refused(self) -> None:
        h = Histogram.from_keys(["a"], buckets=4)
        with pytest.raises(ValueError, match="int64 keys into one of string keys"):
            h.merge(Histogram.from_keys([1], buckets=4))
        with pytest.raises(ValueError, match="of 4 and 8 buckets"):
            h.merge(Histogram.from_keys(["a"], buckets=8))

    def test_a_part_without_typed_keys_merges_with_any_type(self) -> None:
        h = Histogram.from_keys(["a", None], buckets=4)
        for part in (Histogram.from_keys([], buckets=4), Histogram.from_keys([None], buckets=4)):
            assert part.key_type == pa.null()
            for merged in (h.merge(part), part.merge(h)):
                assert merged.key_type == pa.string()
                assert merged.total == h.total + part.total
                assert len(merged.hashes) == 2
        assert part.merge(part).tracked.counts.tolist() == [2.0]

    def test_nothing_to_merge(self) -> None:
        with pytest.raises(ValueError, match="no histogram to merge"):
            merge_all([])


class TestTrimming:
    @given(COUNTS, st.integers(0, 25))
    def test_keeps_the_heaviest_and_all_totals(self, counts: dict[str, int], capacity: int) -> None:
        whole = Histogram.from_counts(counts, buckets=BUCKETS)
        trimmed = whole.trimmed(capacity)
        assert trimmed.keys.to_pylist() == whole.keys.to_pylist()[:capacity]
        np.testing.assert_allclose(bucket_totals(trimmed), bucket_totals(whole))
        assert trimmed.distinct == whole.distinct == len(counts)
        assert trimmed.total == whole.total
        folded = [k for k in counts if k not in trimmed.keys.to_pylist()]
        homes = buckets_of(hash_keys(folded, pa.string()), BUCKETS)
        assert trimmed.rest_distinct.tolist() == np.bincount(homes, minlength=BUCKETS).tolist()

    def test_memory_is_bounded(self) -> None:
        h = Histogram.from_arrays(np.arange(10_000), np.ones(10_000), buckets=16, capacity=50)
        assert (len(h.hashes), len(h.keys), h.capacity) == (50, 50, 50)
        assert h.keys.nbytes <= 50 * 8 + 7  # Arrow 10 adds a bit per key: which are null
        assert (h.total, h.distinct) == (10_000, 10_000)


class TestDecay:
    @given(COUNTS, st.floats(0, 1), st.integers(0, 9))
    def test_scales_every_figure(self, counts: dict[str, int], factor: float, capacity: int) -> None:
        h = Histogram.from_counts(counts, buckets=BUCKETS, capacity=capacity)
        np.testing.assert_allclose(bucket_totals(h.decayed(factor)), bucket_totals(h) * factor)
        assert h.decayed(factor).keys.equals(h.keys)

    @pytest.mark.parametrize("factor", [-0.1, 1.1, float("nan")])
    def test_a_factor_is_a_share(self, factor: float) -> None:
        with pytest.raises(ValueError, match="between 0 and 1"):
            Histogram.from_keys(["a"]).decayed(factor)

    def test_scaled_measures_add_up(self) -> None:
        m = Measures.of([1, 2], [3, 4], [5, 6])
        both = m + m.scaled(0.5)
        assert [c.tolist() for c in both.columns()] == [[1.5, 3], [4.5, 6], [7.5, 9]]
        assert len(m) == 2
        assert m[[1]].state.tolist() == [6]


class TestHistory:
    @given(
        st.lists(COUNTS, min_size=1, max_size=6),
        st.none() | st.integers(1, 4),
        st.none() | st.floats(0.1, 1),
    )
    def test_is_the_weighted_mean_of_the_windows(
        self, windows: list[dict[str, int]], window: int | None, decay: float | None
    ) -> None:
        history = History(window=window, decay=decay)
        for counts in windows:
            history.add(Histogram.from_counts(counts, buckets=BUCKETS, key_type=pa.string()))
        recent = windows[-window:] if window else windows
        factors = [(decay or 1.0) ** age for age in range(len(recent))][::-1]
        names = {k for counts in recent for k in counts}
        expected = {
            k: sum(f * counts.get(k, 0) for f, counts in zip(factors, recent, strict=True)) / sum(factors)
            for k in names
        }
        mean = figures(history.histogram)
        assert set(mean) == names
        for k, n in expected.items():
            assert mean[k] == pytest.approx((n, n, n))

    def test_one_odd_window_counts_for_its_share(self) -> None:
        history = History(window=4)
        for n in (10, 10, 10, 50):
            history.add(Histogram.from_counts({"a": n}, buckets=2))
        assert history.histogram.top() == [("a", 20.0)]
        assert len(history.windows) == 4

    def test_old_windows_are_forgotten(self) -> None:
        history = History(window=2)
        for key in "abc":
            history.add(Histogram.from_keys([key], buckets=2))
        assert sorted(history.histogram.keys.to_pylist()) == ["b", "c"]

    def test_decay_keeps_one_window_only(self) -> None:
        history = History(decay=0.5)
        for _ in range(50):
            history.add(Histogram.from_counts({"a": 1, "b": 2, "c": 3}, buckets=2, capacity=2))
        assert len(history.windows) == 1
        assert len(history.histogram.hashes) == 2
        assert history.histogram.total == pytest.approx(6)
        assert history.histogram.distinct == 3

    def test_nonsense_is_refused(self) -> None:
        with pytest.raises(ValueError, match="at least one window, not 0"):
            History(window=0)
        for decay in (0.0, 1.5, float("nan")):
            with pytest.raises(ValueError, match="above 0 and at most 1"):
                History(decay=decay)
        with pytest.raises(ValueError, match="the history is empty"):
            _ = History().histogram


KEY_TYPES: list[tuple[list[Any], pa.DataType | None]] = [
    (["a", "b", None, "käse <script>"], None),
    ([b"a", b"\xff", None], None),
    ([1, -1, None], pa.int8()),
    ([1, -1, None], pa.int16()),
    ([1, -1, None], pa.int32()),
    ([1, -(2**63), None], None),
    ([True, False, None], None),
    ([1.5, float("inf"), 0.0, None], pa.float32()),
    ([1.5, float("inf"), 0.0, None], None),
    ([Decimal("1.50"), Decimal("-2.25"), None], pa.decimal128(9, 2)),
    ([Decimal("1.50"), Decimal("-2.25"), None], pa.decimal128(38, 2)),
    ([dt.date(2024, 1, 1), None], None),
    ([dt.datetime(2024, 1, 1, 1), None], None),
    ([dt.datetime(2024, 1, 1, 1, tzinfo=dt.timezone.utc), None], None),
    ([None], None),
    ([("a", 1), ("a", 2), (None, 1), ("b", None)], None),
    ([(("a", 1.5), True), (("b", None), False)], None),
]


@pytest.mark.parametrize(
    ("keys", "key_type"), KEY_TYPES, ids=lambda p: None if isinstance(p, list) else str(p)
)
def test_every_key_type_survives_saving(
    keys: list[Any], key_type: pa.DataType | None, tmp_path: Path
) -> None:
    n = np.arange(1, len(keys) + 1)
    h = Histogram.from_arrays(
        keys, n, weights=n * 2, state=n * 3, buckets=5, capacity=max(1, len(keys) - 1), key_type=key_type
    )
    h.save(tmp_path / "h")
    loaded = Histogram.load(str(tmp_path / "h"))
    assert_same(loaded, h)
    assert (loaded.capacity, loaded.distinct) == (h.capacity, len(keys))
    assert [key for key, _ in loaded.top(1)] == keys[-1:]
    assert_same(loaded.merge(loaded), h.merge(h))


class TestSampling:
    def test_the_error_falls_with_the_records_measured(self) -> None:
        whole = Histogram.from_counts({"a": 1000}, buckets=2)
        assert whole.sampling_error(10) == 0
        sample = replace(whole, sampled=0.1)
        assert sample.records == 1000
        assert sample.sampling_error(4) == pytest.approx((4 / 100) ** 0.5)
        assert replace(Histogram.empty(), sampled=0.1).sampling_error(4) == 0

    def test_a_merge_is_as_precise_as_both_samples_together(self) -> None:
        part = replace(Histogram.from_counts({"a": 30}, buckets=2), sampled=0.1, key_names=("user",))
        whole = Histogram.from_counts({"a": 10}, buckets=2)
        for merged in (part.merge(whole), whole.merge(part)):
            assert merged.sampled == pytest.approx(40 / (30 / 0.1 + 10))
            assert merged.key_names == ("user",)
        none = replace(Histogram.empty(buckets=2), sampled=0.5)
        assert none.merge(Histogram.empty(buckets=2)).sampled == 0.5
        assert none.merge(whole).sampled == 1

    def test_is_kept(self, tmp_path: Path) -> None:
        h = replace(Histogram.from_counts({"a": 3, "b": 1}), sampled=0.25, key_names=("user", "<i>"))
        h.save(tmp_path / "h")
        for same in (h.trimmed(1), h.decayed(0.5), Histogram.load(tmp_path / "h")):
            assert (same.sampled, same.key_names) == (0.25, ("user", "<i>"))


def test_an_empty_histogram_survives_saving(tmp_path: Path) -> None:
    h = Histogram.empty(pa.int64(), buckets=3, capacity=0)
    h.save(tmp_path / "h")
    assert_same(Histogram.load(tmp_path / "h"), h)


def test_sums_of_nothing_are_floats() -> None:
    sums = sum_by(np.zeros(0, np.int64), np.zeros(0), 3)
    assert sums.dtype == np.float64
    assert sums.tolist() == [0, 0, 0]


class TestPrinting:
    def test_one_line_says_what_was_measured(self) -> None:
        h = Histogram.from_counts({"a": 2_000_000, "b": 500_000}, weights={"a": 0.5, "b": 1.5}, buckets=64)
        assert repr(replace(h, sampled=0.25, key_names=("user", "day"))) == (
            "Histogram(2,500,000 records, load 2, 2 distinct keys, 64 buckets, key 'user', 'day', "
            "heaviest key 'b' with 75.0% of the load, sampled 25.00%)"
        )
        assert repr(Histogram.empty(buckets=8)) == (
            "Histogram(0 records, load 0, 0 distinct keys, 8 buckets)"
        )
        assert repr(h.tracked) == "Measures(2 entries, 2,500,000 records, load 2, state 2,500,000)"

    @pytest.mark.parametrize(
        "key", ["x\n\x1b[31m\u202ey", "x" * 10**6, b"\x00" * 10**6, ("\r", "y" * 10**6), ("a",) * 50]
    )
    def test_a_hostile_key_is_escaped_and_cut(self, key: Any) -> None:
        h = replace(Histogram.from_keys([key]), key_names=("k\n" * 1000,))
        for value in (h, Plan.make(h, 2), Plan.make(h, 2).table):
            assert repr(value).isprintable()
            assert len(repr(value)) < 400

    def test_a_history_says_what_it_keeps(self) -> None:
        history = History(window=3)
        for _ in range(5):
            history.add(Histogram.from_keys(["a"], buckets=4))
        assert repr(history) == "History(newest 3 windows, decay 1, 5 windows added)"
