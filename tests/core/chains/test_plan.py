"""A plan for a chain says what its tables will do, and says the same after it was saved and loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.core.chains.cases import hashed, measured, weeks
from unskew.core.chains import plan as chain_plan
from unskew.core.chains.locality import plan_chain_tables
from unskew.core.chains.plan import ChainPlan
from unskew.core.chains.tables import local_shares
from unskew.core.files import UnreadableFileError
from unskew.core.plan import Plan

WEEK, NEXT = (measured(*week) for week in weeks(2, seed=4))
LAYOUT = [[2, 0, 1, 0], [1, 2, 0]]


def three_operators() -> ChainPlan:
    city = np.random.default_rng(5).integers(600, size=6000)
    return ChainPlan.make(*measured(city // 20, city, city % 7), 2, 2)


class TestFigures:
    def test_are_those_of_the_chain(self) -> None:
        chain = plan_chain_tables(*WEEK, 3, server_of_slot=LAYOUT, seed=3)
        plan = ChainPlan.make(*WEEK, 3, server_of_slot=LAYOUT, seed=3)
        assert plan.tables == chain.tables
        assert [servers.tolist() for servers in plan.server_of_slot] == LAYOUT
        assert (plan.locality, plan.hops) == (chain.locality, chain.hops)
        assert (plan.imbalance, plan.server_imbalance) == (chain.imbalance, chain.server_imbalance)
        assert (plan.servers, plan.moved, plan.previous) == (3, 0.0, None)

    def test_hashing_keeps_one_record_in_n(self) -> None:
        plan = ChainPlan.make(*WEEK, 3, 2)
        assert plan.hash_locality == pytest.approx(1 / 3, abs=0.05)
        assert plan.locality > plan.hash_locality + 0.3
        assert three_operators().hash_locality == pytest.approx(1 / 2, abs=0.1)

    def test_without_pairs_nothing_leaves(self) -> None:
        histograms, pairs = WEEK
        plan = ChainPlan.make(histograms, [pairs[0].reset()], 3)
        assert (plan.locality, plan.hash_locality) == (1.0, 1.0)

    def test_no_operator_is_more_even_than_its_bound(self) -> None:
        plan = ChainPlan.make(*WEEK, 3, 4)
        assert plan.bound == pytest.approx([max(1.0, h.heaviest_share * 12) for h in WEEK[0]])
        for reached, bound in zip(plan.imbalance, plan.bound, strict=True):
            assert bound <= reached < 1.05 * bound

    def test_one_line_says_it_all(self) -> None:
        first = ChainPlan.make(*measured([1, 2] * 9, [3, 4] * 9), 2)
        line = "ChainPlan(2 operators, 2 servers, locality 1.000, imbalance 1.000 1.000, bound 1.000 1.000"
        assert repr(first) == line + ")"
        again = ChainPlan.make(first.histograms, first.pairs, 2, previous=first)
        assert repr(again) == line + ", moved 0.000)"


class TestPlans:
    def test_each_operator_has_one(self) -> None:
        first = ChainPlan.make(*WEEK, 3, server_of_slot=LAYOUT)
        later = ChainPlan.make(*NEXT, 3, previous=first, server_of_slot=LAYOUT, worth=0.05)
        assert [plan.previous for plan in first.plans] == [None, None]
        for o, plan in enumerate(later.plans):
            assert type(plan) is Plan
            assert plan.table is later.tables[o]
            assert (plan.planner, plan.options) == ("locality", {"worth": 0.05})
            assert plan.previous is first.tables[o]
            assert (plan.imbalance, plan.bound) == (later.imbalance[o], later.bound[o])

    def test_they_have_the_load_of_keys_that_only_the_pairs_name(self) -> None:
        histograms, pairs = measured(*weeks(1)[0], capacity=20)
        plan = ChainPlan.make(histograms, pairs, 3)
        assert [p.imbalance for p in plan.plans] == list(plan.imbalance)
        assert len(plan.histograms[1].hashes) > 1000


@pytest.mark.parametrize("tables", [True, False])
def test_starts_from_a_plan_or_from_tables(tables: bool) -> None:
    first = ChainPlan.make(*WEEK, 3, 2)
    later = ChainPlan.make(*NEXT, 3, 2, list(first.tables) if tables else first)
    assert later.previous == first.tables
    assert 0.0 < later.moved < 0.5
    assert [table.version for table in later.tables] == [2, 2]
    assert later.locality > local_shares(first.tables, NEXT[1], 2)[0]


class TestSaving:
    @pytest.mark.parametrize("options", [{}, {"previous": hashed(4)}, {"seed": np.int64(2), "worth": 0.2}])
    def test_it_reads_back(self, options: dict[str, Any], tmp_path: Path) -> None:
        plan = ChainPlan.make(*WEEK, 3, server_of_slot=LAYOUT, **options)
        plan.save(tmp_path / "plan")
        self.assert_same(ChainPlan.load(str(tmp_path / "plan")), plan)

    def test_a_longer_chain_and_keys_that_only_the_pairs_name(self, tmp_path: Path) -> None:
        few = ChainPlan.make(*measured(*weeks(1)[0], capacity=20), 3)
        for plan in (three_operators(), few):
            plan.save(tmp_path / "plan")
            self.assert_same(ChainPlan.load(tmp_path / "plan"), plan)

    def assert_same(self, loaded: ChainPlan, plan: ChainPlan) -> None:
        assert loaded.tables == plan.tables
        assert loaded.previous == plan.previous
        assert loaded.options == plan.options
        assert loaded.hops == pytest.approx(plan.hops)
        assert loaded.locality == pytest.approx(plan.locality)
        assert loaded.hash_locality == plan.hash_locality
        for figure in ("servers", "imbalance", "server_imbalance", "bound", "moved"):
            assert getattr(loaded, figure) == getattr(plan, figure)
        assert loaded.chain.chosen == plan.chain.chosen
        assert list(map(np.ndarray.tolist, loaded.server_of_slot)) == [
            s.tolist() for s in plan.server_of_slot
        ]
        assert repr(loaded) == repr(plan)
        assert list(map(repr, loaded.plans)) == list(map(repr, plan.plans))

    def test_what_was_read_back_is_what_the_next_plan_starts_from(self, tmp_path: Path) -> None:
        first = ChainPlan.make(*WEEK, 3, server_of_slot=LAYOUT)
        first.save(tmp_path / "plan")
        previous = (first, ChainPlan.load(tmp_path / "plan"))
        saved, loaded = (ChainPlan.make(*NEXT, 3, previous=plan, server_of_slot=LAYOUT) for plan in previous)
        assert saved.tables == loaded.tables

    def test_damage_is_noticed(self, tmp_path: Path) -> None:
        path = tmp_path / "plan"
        ChainPlan.make(*measured([1, 2], [3, 4]), 2, previous=hashed(2)).save(path)
        data = path.read_bytes()
        for at in range(0, len(data), 997):
            path.write_bytes(data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :])
            with pytest.raises(UnreadableFileError, match="plan: "):
                ChainPlan.load(path)
        path.write_bytes(data[:-1])
        with pytest.raises(UnreadableFileError, match="plan: damaged"):
            ChainPlan.load(path)

    def test_other_kinds_and_newer_formats_are_refused(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "plan"
        plan = three_operators()
        plan.plans[0].save(path)
        with pytest.raises(UnreadableFileError, match="a plan of unskew where a chain plan is expected"):
            ChainPlan.load(path)
        plan.save(path)
        with pytest.raises(UnreadableFileError, match="a chain plan of unskew where a plan is expected"):
            Plan.load(path)
        monkeypatch.setattr(chain_plan, "_FORMAT", 0)
        with pytest.raises(UnreadableFileError, match="chain plan format 1 is newer"):
            ChainPlan.load(path)
