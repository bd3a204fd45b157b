"""Loads, bound and migration equal what plain loops over the keys compute."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Literal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.table_cases import BUCKETS, NAMES, histograms, tables
from unskew.core.hashing import hash_keys
from unskew.core.histogram import Histogram
from unskew.core.loads import imbalance, lower_bound, migration, slot_loads
from unskew.core.routing import RoutingTable

MEASURES: tuple[Literal["counts", "weights", "state"], ...] = ("counts", "weights", "state")
HASHES = dict(zip(NAMES, hash_keys(NAMES).tolist(), strict=True))


def shares(table: RoutingTable, key: str) -> dict[int, Fraction]:
    """Slot → share of the key's records."""
    row = table.heavy.get(key, int(table.buckets[HASHES[key] % BUCKETS]))
    slots = row if isinstance(row, tuple) else (row,)
    return {slot: Fraction(times, len(slots)) for slot, times in Counter(slots).items()}


def moved_share(old: RoutingTable, new: RoutingTable, key: str) -> Fraction:
    before, after = shares(old, key), shares(new, key)
    return sum((max(share - before.get(slot, 0), Fraction(0)) for slot, share in after.items()), Fraction(0))


class TestSlotLoads:
    @given(tables(), histograms(), st.sampled_from(MEASURES))
    def test_equal_a_loop_over_keys_and_buckets(
        self, table: RoutingTable, histogram: Histogram, measure: Literal["counts", "weights", "state"]
    ) -> None:
        expected = [Fraction(0)] * table.slots
        for key, figure in zip(histogram.keys.to_pylist(), getattr(histogram.tracked, measure), strict=True):
            for slot, share in shares(table, key).items():
                expected[slot] += share * int(figure)
        for slot, figure in zip(table.buckets, getattr(histogram.rest, measure), strict=True):
            expected[slot] += int(figure)
        loads = slot_loads(table, histogram, measure)
        np.testing.assert_allclose(loads, [float(x) for x in expected], atol=1e-9)
        assert loads.dtype == np.float64

    @given(tables(), histograms())
    def test_nothing_is_lost(self, table: RoutingTable, histogram: Histogram) -> None:
        assert slot_loads(table, histogram).sum() == pytest.approx(histogram.total)
        assert slot_loads(table, histogram, "state").sum() == pytest.approx(histogram.total_state)

    @given(tables(split=False), histograms(capacity=12))
    def test_are_what_a_replay_of_the_records_gives(self, table: RoutingTable, histogram: Histogram) -> None:
        records = np.repeat(histogram.keys.to_pylist(), histogram.tracked.counts.astype(int)).tolist()
        replayed = np.bincount(table.slot_of(records), minlength=table.slots)
        assert slot_loads(table, histogram, "counts").tolist() == replayed.tolist()

    def test_the_table_must_fit_the_histogram(self) -> None:
        histogram = Histogram.from_keys(["a"], buckets=8)
        with pytest.raises(ValueError, match="the table has 4 buckets and the histogram 8: measure with"):
            slot_loads(RoutingTable.hashed(2, 4), histogram)
        with pytest.raises(ValueError, match="the table is for int64 keys and the histogram for string keys"):
            slot_loads(RoutingTable.build(2, [0] * 8, [1], [0]), histogram)
        assert slot_loads(RoutingTable.hashed(2, 8, pa.int64()), histogram).sum() == 1


class TestBound:
    @given(tables(split=False), histograms())
    def test_is_never_beaten_by_a_table_that_keeps_keys_whole(
        self, table: RoutingTable, histogram: Histogram
    ) -> None:
        assert imbalance(slot_loads(table, histogram)) >= lower_bound(histogram, table.slots) * (1 - 1e-12)

    @pytest.mark.parametrize(("slots", "bound"), [(1, 1.0), (2, 1.2), (4, 2.4)])
    def test_is_the_heaviest_key_or_the_mean(self, slots: int, bound: float) -> None:
        histogram = Histogram.from_counts({"a": 6, "b": 3, "c": 1})
        assert lower_bound(histogram, slots) == pytest.approx(bound)

    def test_can_be_reached(self) -> None:
        histogram = Histogram.from_counts({"a": 6, "b": 3, "c": 1}, buckets=4)
        table = RoutingTable.build(2, [1] * 4, ["a"], [0])
        assert imbalance(slot_loads(table, histogram)) == lower_bound(histogram, 2) == pytest.approx(1.2)

    def test_split_rows_may_beat_it(self) -> None:
        histogram = Histogram.from_counts({"a": 6}, buckets=4)
        table = RoutingTable.build(2, [1] * 4, ["a"], [[0, 1]])
        assert imbalance(slot_loads(table, histogram)) == 1 < lower_bound(histogram, 2)

    def test_of_nothing_is_even(self) -> None:
        assert imbalance(np.zeros(3)) == 1
        assert lower_bound(Histogram.empty(), 3) == 1

    def test_imbalance_is_max_over_mean(self) -> None:
        assert imbalance(np.array([1.0, 2.0, 6.0])) == 2


class TestMigration:
    @given(tables(), tables(), histograms())
    def test_equals_a_loop_over_keys_and_buckets(
        self, old: RoutingTable, new: RoutingTable, histogram: Histogram
    ) -> None:
        moves = migration(old, new, histogram)
        tracked = dict(
            zip(
                histogram.keys.to_pylist(),
                zip(histogram.tracked.weights, histogram.tracked.state, strict=True),
                strict=True,
            )
        )
        moved = {key: moved_share(old, new, key) for key in {*tracked, *old.heavy, *new.heavy}}
        buckets = [b for b in range(BUCKETS) if old.buckets[b] != new.buckets[b]]
        load = sum(float(moved[k]) * w for k, (w, _) in tracked.items()) + sum(
            histogram.rest.weights[buckets]
        )
        state = sum(float(moved[k]) * s for k, (_, s) in tracked.items()) + sum(histogram.rest.state[buckets])

        assert moves.hashes.tolist() == sorted(HASHES[key] for key, share in moved.items() if share)
        assert moves.buckets.tolist() == buckets
        assert moves.load == pytest.approx(load)
        assert moves.state == pytest.approx(state)
        assert moves.load_share == pytest.approx(load / histogram.total if histogram.total else 0)
        assert moves.state_share == pytest.approx(
            state / histogram.total_state if histogram.total_state else 0
        )
        assert len(moves) == len(moves.hashes) + len(buckets)
        assert moves.key_from.tolist() == old.slot_of_hashes(moves.hashes).tolist()
        assert moves.key_to.tolist() == new.slot_of_hashes(moves.hashes).tolist()
        assert moves.bucket_from.tolist() == old.buckets[buckets].tolist()
        assert moves.bucket_to.tolist() == new.buckets[buckets].tolist()

    @given(tables(), histograms())
    def test_of_a_table_to_itself_is_nothing(self, table: RoutingTable, histogram: Histogram) -> None:
        moves = migration(table, table.with_version(9), histogram)
        assert (len(moves), moves.load, moves.state, moves.load_share, moves.state_share) == (0, 0, 0, 0, 0)

    @pytest.mark.parametrize("times", [2, 3, 5, 7, 10])
    def test_shares_that_do_not_add_up_in_floats_do_not_move(self, times: int) -> None:
        histogram = Histogram.from_counts({"a": 1.0}, buckets=2)
        once = RoutingTable.build(2, [0, 1], ["a"], [[0] * 6 + [1]])
        often = RoutingTable.build(2, [0, 1], ["a"], [([0] * 6 + [1]) * times])
        assert len(migration(once, often, histogram)) == 0
        assert migration(often, once, histogram).state == 0

    @given(tables(), tables(), histograms())
    def test_the_way_back_moves_as_much(
        self, old: RoutingTable, new: RoutingTable, histogram: Histogram
    ) -> None:
        there, back = migration(old, new, histogram), migration(new, old, histogram)
        assert there.state == pytest.approx(back.state)
        assert there.load == pytest.approx(back.load)
        assert there.hashes.tolist() == back.hashes.tolist()

    @given(tables(), tables(), tables(), histograms())
    def test_a_detour_never_moves_less(
        self, a: RoutingTable, b: RoutingTable, c: RoutingTable, histogram: Histogram
    ) -> None:
        direct = migration(a, c, histogram).state
        assert direct <= migration(a, b, histogram).state + migration(b, c, histogram).state + 1e-9

    def test_a_row_gained_or_lost_within_a_slot_does_not_move(self) -> None:
        histogram = Histogram.from_counts({"a": 1}, buckets=2)
        plain = RoutingTable.build(2, [1, 1])
        heavy = RoutingTable.build(2, [1, 1], ["a"], [1])
        assert len(migration(plain, heavy, histogram)) == len(migration(heavy, plain, histogram)) == 0

    def test_half_of_a_key_that_is_split_moves(self) -> None:
        histogram = Histogram.from_counts({"a": 8}, state={"a": 100}, buckets=2)
        whole = RoutingTable.build(2, [0, 0])
        split = RoutingTable.build(2, [0, 0], ["a"], [[0, 1]])
        moves = migration(whole, split, histogram)
        assert (moves.load, moves.state, moves.state_share) == (4, 50, 0.5)

    def test_tables_must_fit(self) -> None:
        histogram = Histogram.from_keys(["a"], buckets=4)
        fits = RoutingTable.hashed(2, 4)
        with pytest.raises(ValueError, match="tables of 8 and 4 buckets"):
            migration(RoutingTable.hashed(2, 8), fits, histogram)
        with pytest.raises(ValueError, match="the table has 8 buckets"):
            migration(fits, RoutingTable.hashed(2, 8), histogram)
        numbers = RoutingTable.build(2, [0] * 4, [1], [0])
        for old, new in ((numbers, fits), (fits, numbers)):
            with pytest.raises(ValueError, match="int64 keys"):
                migration(old, new, histogram)
