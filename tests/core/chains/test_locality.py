"""Correlated keys share a server, loads stay even, and little moves: what the paper promises, and what it omits."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from research.correlated import synthetic_pairs
from tests.core.chains.cases import BUCKETS, hashed, measured, weeks
from unskew.core.chains.locality import locality_over_pairs, plan_chain_tables
from unskew.core.chains.pairs import PairHistogram
from unskew.core.chains.tables import ChainTables, hashed_chain, local_shares
from unskew.core.hashing import buckets_of, hash_keys
from unskew.core.histogram import Histogram
from unskew.core.loads import imbalance, lower_bound, slot_loads
from unskew.core.plan import make_table
from unskew.core.routing import RoutingTable


class TestThePaper:
    @pytest.mark.parametrize("servers", [2, 4, 6])
    def test_with_hashing_one_record_in_n_stays(self, servers: int) -> None:
        _, pairs = measured(*synthetic_pairs(3000, 0.8, 50_000))
        tables = hashed_chain([pa.int64()] * 2, servers, BUCKETS)
        assert local_shares(tables, pairs)[0] == pytest.approx(1 / servers, abs=0.05)
        assert tables[0].same_routes(RoutingTable.hashed(servers, BUCKETS, pa.int64()))

    @pytest.mark.parametrize("servers", [2, 3, 6])
    @pytest.mark.parametrize("locality", [0.6, 0.8, 1.0])
    def test_its_synthetic_workload_is_as_local_as_it_can_be(self, servers: int, locality: float) -> None:
        histograms, pairs = measured(*synthetic_pairs(servers, locality, 20_000))
        chain = plan_chain_tables(histograms, pairs, servers)
        assert chain.locality == pytest.approx(locality, abs=1e-9)
        for operator, histogram in enumerate(histograms):
            heaviest = histogram.heaviest_share * servers
            assert chain.server_imbalance[operator] == pytest.approx(heaviest)

    def test_many_correlated_keys_are_local_and_balanced(self) -> None:
        histograms, pairs = measured(*synthetic_pairs(600, 1.0, 60_000))
        chain = plan_chain_tables(histograms, pairs, 6, 2)
        assert chain.locality == 1.0
        assert max(chain.server_imbalance) <= 1.03
        assert max(chain.imbalance) <= 1.05

    def test_online_beats_offline_beats_hashing_on_a_drifting_stream(self) -> None:
        offline = online = None
        localities: dict[str, list[float]] = {"hash": [], "offline": [], "online": []}
        for week in weeks():
            histograms, pairs = measured(*week)
            if offline is not None and online is not None:
                for name, tables in (("hash", hashed(6)), ("offline", offline), ("online", online)):
                    localities[name] += local_shares(tables, pairs)
            chain = plan_chain_tables(histograms, pairs, 6, previous=online)
            assert max(chain.server_imbalance) <= 1.04
            online = chain.tables
            offline = offline or online
        last = {name: figures[-1] for name, figures in localities.items()}
        assert np.mean(localities["hash"]) == pytest.approx(1 / 6, abs=0.05)
        assert last["online"] > last["offline"] + 0.08
        assert last["offline"] > last["hash"] + 0.1
        assert min(localities["online"]) > 0.5
        assert localities["offline"][0] == localities["online"][0]

    def test_on_keys_of_the_last_window_online_has_nine_tenths_of_an_oracle_s_locality(self) -> None:
        tables, last, ratios = None, np.zeros(0), []
        for week in weeks():
            histograms, pairs = measured(*week)
            if tables is not None:
                old = np.isin(week[1], last)
                _, old_pairs = measured(week[0][old], week[1][old])
                oracle = plan_chain_tables(histograms, pairs, 6)
                ratios.append(local_shares(tables, old_pairs)[0] / local_shares(oracle.tables, old_pairs)[0])
            tables, last = plan_chain_tables(histograms, pairs, 6, previous=tables).tables, week[1]
        assert np.mean(ratios) >= 0.9

    def test_a_hundredth_of_the_pairs_doubles_the_locality(self) -> None:
        histograms, pairs = measured(*weeks(1)[0])
        every = len(pairs[0])
        pair_counts = [every // 100, every // 10, every]
        localities = locality_over_pairs(histograms, pairs, 6, pair_counts)
        assert list(localities) == pair_counts
        few, more, all_of_them = localities.values()
        assert 2 / 6 < few < more < all_of_them
        assert all_of_them == pytest.approx(plan_chain_tables(histograms, pairs, 6).locality)

    def test_every_hop_of_a_longer_chain_keeps_its_most_frequent_pairs(self) -> None:
        country = np.arange(6000) % 12
        city, street = country * 3 + np.arange(6000) % 3, country * 7 + np.arange(6000) % 7
        reached = locality_over_pairs(*measured(country, city, street), 4, [1, 10**6])
        assert reached[1] < 0.5
        assert reached[10**6] > 0.9


class TestTables:
    def test_keys_that_were_not_measured_go_with_their_bucket_by_hash(self) -> None:
        histograms, pairs = measured(*weeks(1)[0])
        chain = plan_chain_tables(histograms, pairs, 3, 2)
        strangers = np.arange(10**6, 10**6 + 1000)
        for table in chain.tables:
            homes = table.buckets[buckets_of(hash_keys(strangers), BUCKETS)]
            assert np.array_equal(table.slot_of(strangers), homes)
            assert np.bincount(homes, minlength=6).min() > 50

    def test_the_figures_are_those_of_the_tables(self) -> None:
        histograms, pairs = measured(*weeks(1)[0])
        chain = plan_chain_tables(histograms, pairs, 4, 3)
        assert [servers.tolist() for servers in chain.server_of_slot] == [
            [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]
        ] * 2
        assert chain.hops == pytest.approx(local_shares(chain.tables, pairs, 3))
        for o, (table, histogram) in enumerate(zip(chain.tables, histograms, strict=True)):
            loads = slot_loads(table, histogram)
            assert (table.slots, table.version) == (12, 1)
            assert chain.imbalance[o] == pytest.approx(imbalance(loads))
            assert chain.server_imbalance[o] == pytest.approx(imbalance(loads.reshape(4, 3).sum(axis=1)))
        assert chain.joint_imbalance <= max(chain.server_imbalance)

    def test_the_slots_of_a_server_are_even(self) -> None:
        histograms, pairs = measured(*synthetic_pairs(2000, 0.9, 50_000))
        chain = plan_chain_tables(histograms, pairs, 3, 4)
        for table, histogram in zip(chain.tables, histograms, strict=True):
            for own in slot_loads(table, histogram).reshape(3, 4):
                assert imbalance(own) <= 1.011

    def test_a_chain_of_three(self) -> None:
        random = np.random.default_rng(5)
        country = random.integers(30, size=30_000)
        city = country * 20 + random.integers(20, size=30_000)
        street = city * 5 + random.integers(5, size=30_000)
        histograms, pairs = measured(country, city + 10_000, street + 100_000)
        chain = plan_chain_tables(histograms, pairs, 5)
        assert len(chain.tables) == 3
        assert chain.hops == (1.0, 1.0)
        assert max(chain.server_imbalance) <= 1.03 + 0.01
        assert local_shares(hashed(5, 3), pairs) == pytest.approx((0.2, 0.2), abs=0.06)

    def test_keys_that_their_histogram_does_not_track_are_placed_too(self) -> None:
        columns = synthetic_pairs(600, 1.0, 60_000)
        histograms, pairs = measured(*columns, capacity=20)
        chain = plan_chain_tables(histograms, pairs, 6)
        assert local_shares(chain.tables, pairs) == (1.0,)
        whole, _ = measured(*columns)
        for table, histogram in zip(chain.tables, whole, strict=True):
            assert imbalance(slot_loads(table, histogram)) <= 1.05

    def test_the_seed_decides(self) -> None:
        histograms, pairs = measured(*weeks(1)[0])
        first, same, different = (plan_chain_tables(histograms, pairs, 6, seed=seed) for seed in (1, 1, 2))
        assert all(a == b for a, b in zip(first.tables, same.tables, strict=True))
        assert not first.tables[1].same_routes(different.tables[1])

    @settings(deadline=None, max_examples=60)
    @given(
        st.lists(st.tuples(st.integers(0, 12), st.integers(0, 30)), min_size=1, max_size=120),
        st.integers(1, 5),
        st.integers(1, 3),
        st.booleans(),
    )
    def test_no_server_is_fuller_than_asked_or_than_its_entries_allow(
        self, rows: list[tuple[int, int]], servers: int, each: int, again: bool
    ) -> None:
        columns = np.array(rows).T
        histograms, pairs = measured(*columns)
        previous = hashed(servers * each) if again else None
        chain = plan_chain_tables(histograms, pairs, servers, each, previous, imbalance=1.03)
        for o, histogram in enumerate(histograms):
            heaviest = histogram.heaviest_share * servers
            assert chain.server_imbalance[o] <= max(1.03 * max(1.0, heaviest), 1.0 + heaviest) + 1e-6
        assert 0.0 <= chain.locality <= 1.0
        assert 0.0 <= chain.moved <= 1.0 + 1e-9


class TestMovement:
    def test_the_same_measurement_again_changes_nothing(self) -> None:
        histograms, pairs = measured(*weeks(1)[0])
        first = plan_chain_tables(histograms, pairs, 6, 2)
        again = plan_chain_tables(histograms, pairs, 6, 2, first.tables, seed=7)
        assert (again.chosen, again.moved) == ("kept", 0.0)
        assert all(a is b for a, b in zip(again.tables, first.tables, strict=True))

    def test_new_numbers_for_the_same_parts_move_nothing(self) -> None:
        columns = synthetic_pairs(60, 1.0, 30_000)
        histograms, pairs = measured(*columns)
        first = plan_chain_tables(histograms, pairs, 4)
        turned = [
            RoutingTable.build(
                4, (t.buckets + 1) % 4, t.keys, (t.heavy_slots + 1) % 4, hashes=t.hashes, version=1
            )
            for t in first.tables
        ]
        again = plan_chain_tables(histograms, pairs, 4, previous=turned, worth=0.0)
        assert (again.locality, again.moved) == (1.0, 0.0)

    def test_what_moves_is_worth_it(self) -> None:
        (histograms, pairs), (later, pairs_later) = (measured(*week) for week in weeks(2, seed=4))
        first = plan_chain_tables(histograms, pairs, 6, 2)
        free, usual, dear = (
            plan_chain_tables(later, pairs_later, 6, 2, first.tables, worth=worth)
            for worth in (0.0, 0.1, 10.0)
        )
        assert free.moved > usual.moved >= dear.moved
        assert free.locality >= usual.locality >= dear.locality
        assert usual.locality - 0.1 * usual.moved > free.locality - 0.1 * free.moved
        assert usual.locality > 0.95 * free.locality
        assert usual.moved < 0.25
        assert usual.migration is not None
        assert [table.version for table in usual.tables] == [2, 2]

    def test_balance_comes_before_staying(self) -> None:
        histograms, pairs = measured(*synthetic_pairs(600, 1.0, 60_000))
        crowded = [RoutingTable.build(4, [0] * BUCKETS, key_type=pa.int64())] * 2
        chain = plan_chain_tables(histograms, pairs, 4, previous=crowded, worth=100.0)
        assert chain.chosen != "kept"
        assert max(chain.server_imbalance) <= 1.05
        assert chain.moved <= 0.76

    @pytest.mark.parametrize(("servers", "stays"), [(6, 0.4), (3, 0.4)])
    def test_servers_come_and_go(self, servers: int, stays: float) -> None:
        histograms, pairs = measured(*synthetic_pairs(600, 0.9, 60_000))
        first = plan_chain_tables(histograms, pairs, 4, 2)
        chain = plan_chain_tables(histograms, pairs, servers, 2, first.tables)
        assert [table.slots for table in chain.tables] == [servers * 2] * 2
        assert chain.locality > 0.8
        assert max(chain.server_imbalance) <= 1.04
        assert 1 - chain.moved > stays
        for table in chain.tables:
            # keys that do not exist yet will be spread as evenly as those that do
            assert imbalance(np.bincount(table.buckets // 2, minlength=servers) * 1.0) < servers / 2

    def test_keys_without_pairs_that_have_a_row_stay_where_their_state_is(self) -> None:
        histograms, pairs = measured(*synthetic_pairs(600, 0.9, 60_000))
        first = plan_chain_tables(histograms, pairs, 4)
        chain = plan_chain_tables(histograms, [pairs[0].trimmed(20)], 3, previous=first.tables)
        assert chain.moved < 0.4

    def test_hashing_is_left_for_locality(self) -> None:
        histograms, pairs = measured(*weeks(1)[0])
        chain = plan_chain_tables(histograms, pairs, 6, previous=hashed(6))
        assert chain.locality > 0.6
        assert chain.moved > 0.3


class TestEdges:
    def test_one_server_and_one_slot(self) -> None:
        histograms, pairs = measured([1, 1, 2], [5, 6, 5])
        chain = plan_chain_tables(histograms, pairs, 1)
        assert (chain.locality, chain.imbalance) == (1.0, (1.0, 1.0))

    def test_without_pairs_every_operator_is_balanced_and_metis_is_not_needed(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "pymetis", None)
        histograms, pairs = measured(*synthetic_pairs(600, 1.0, 60_000))
        chain = plan_chain_tables(histograms, [pairs[0].reset()], 4, 2)
        assert max(chain.imbalance) <= 1.04
        skewed, skewed_pairs = measured(*(np.random.default_rng(seed).zipf(1.5, 20_000) for seed in (1, 2)))
        chain = plan_chain_tables(skewed, [skewed_pairs[0].reset()], 3)
        for reached, histogram in zip(chain.imbalance, skewed, strict=True):
            assert reached <= 1.03 * lower_bound(histogram, 3)
        with pytest.raises(ImportError, match="extra `locality`"):
            plan_chain_tables(histograms, pairs, 4, 2)

    def test_an_empty_measurement_changes_nothing(self) -> None:
        empty = [Histogram.empty(pa.int64(), buckets=BUCKETS)] * 2
        none = [PairHistogram.empty(pa.int64(), pa.int64())]
        first = plan_chain_tables(empty, none, 2, 2)
        assert all(t.same_routes(h) for t, h in zip(first.tables, hashed(4), strict=True))
        assert plan_chain_tables(empty, none, 2, 2, first.tables).tables == first.tables

    def test_null_and_composite_keys(self) -> None:
        a, b = [("x", 1), ("y", 2), ("x", 1), None] * 50, [None, "q", None, "r"] * 50
        histograms, pairs = measured(a, b)
        chain = plan_chain_tables(histograms, pairs, 2)
        assert chain.locality == 1.0
        assert len(set(chain.tables[0].slot_of(a).tolist())) == 2

    def test_a_key_heavier_than_a_server(self) -> None:
        a, b = [0] * 90 + list(range(1, 11)), [0] * 90 + list(range(1, 11))
        chain = plan_chain_tables(*measured(a, b), servers=4)
        assert max(chain.server_imbalance) == pytest.approx(3.6)
        assert chain.locality == 1.0

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"servers": 0}, "servers is a whole number of at least 1, not 0"),
            ({"servers": True}, "not True"),
            ({"slots_per_server": 1.5}, "slots_per_server is a whole number of at least 1, not 1.5"),
            ({"servers": 600}, "600 slots but only 512 buckets"),
            ({"imbalance": 1.0}, "imbalance is the highest load"),
            ({"worth": -1}, "worth is the locality"),
            ({"target": -0.1}, "target is the tolerated"),
            ({"pairs": []}, "2 histograms and 0 of pairs"),
            ({"previous": hashed(2)[:1]}, "1 previous tables for 2 operators"),
            ({"previous": [RoutingTable.hashed(2, 8)] * 2}, "8 buckets and the histogram 512"),
            ({"pairs": [PairHistogram.from_pairs(["a"], [1])]}, "string keys for operator 0"),
            (
                {"histograms": [Histogram.from_keys([1]), Histogram.empty(pa.int64())]},
                "keys of operator 1, but its histogram is empty",
            ),
        ],
    )
    def test_nonsense_is_refused(self, change: dict[str, Any], message: str) -> None:
        histograms, pairs = measured([1, 2], [3, 4])
        good: dict[str, Any] = {"histograms": histograms, "pairs": pairs, "servers": 2}
        assert isinstance(plan_chain_tables(**good), ChainTables)
        with pytest.raises(ValueError, match=message):
            plan_chain_tables(**(good | change))


def test_one_operator_alone_is_planned_as_keel_does() -> None:
    histogram = Histogram.from_keys(np.random.default_rng(0).zipf(1.3, 10_000) % 500, buckets=BUCKETS)
    first = make_table("locality", histogram, 7)
    assert first.same_routes(make_table("keel", histogram, 7))
    later = make_table("locality", histogram, 5, first, target=0.02, budget=0.5)
    assert later.same_routes(make_table("keel", histogram, 5, first, target=0.02, budget=0.5))


def test_slots_of_one_server_are_levelled_too() -> None:
    tables = [RoutingTable.hashed(2, 64, pa.int64()) for _ in range(2)]
    on_zero = [k for k in range(1000) if tables[0].slot_of([k])[0] == 0][:40]
    sides = [Histogram.from_keys(on_zero * 5 + list(range(100)), buckets=64) for _ in range(2)]
    pairs = PairHistogram.from_pairs(on_zero, on_zero)
    chain = plan_chain_tables(sides, [pairs], servers=1, slots_per_server=2, previous=tables)
    assert max(imbalance(slot_loads(t, h)) for t, h in zip(tables, sides, strict=True)) > 1.5
    assert max(chain.imbalance) < 1.1
