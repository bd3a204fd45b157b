"""Input is checked before a planner runs, and a saved plan is read back as it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from unskew.core.chains.pairs import PairHistogram
from unskew.core.chains.plan import ChainPlan
from unskew.core.files import UnreadableFileError
from unskew.core.histogram import Histogram
from unskew.core.loads import imbalance, migration, slot_loads
from unskew.core.plan import Plan, make_table
from unskew.core.planners import PLANNERS, auto, planner_named
from unskew.core.routing import RoutingTable
from unskew.core.saved_plan import load

HISTOGRAM = Histogram.from_counts({"a": 50, "b": 30, "c": 15, "d": 5}, buckets=16)


class TestChecks:
    def test_an_unknown_planner_gets_a_suggestion(self) -> None:
        with pytest.raises(ValueError, match=r"no planner 'kel': did you mean 'keel'\? choose one of hash, "):
            make_table("kel", HISTOGRAM, 2)
        with pytest.raises(ValueError, match="no planner 'zzz': choose one of"):
            make_table("zzz", HISTOGRAM, 2)
        with pytest.raises(ValueError, match="no planner 'zzz'"):
            planner_named("zzz")
        with pytest.raises(ValueError, match="no planner"):
            make_table(None, HISTOGRAM, 2)  # type: ignore[arg-type]

    def test_an_unknown_option_gets_a_suggestion(self) -> None:
        with pytest.raises(
            ValueError, match=r"'keel' has no option 'targt': did you mean 'target'\? it takes target, "
        ):
            make_table("keel", HISTOGRAM, 2, targt=0.1)
        with pytest.raises(ValueError, match="planner 'hash' has no option 'target': it takes none"):
            make_table("hash", HISTOGRAM, 2, target=0.1)

    @pytest.mark.parametrize("name", PLANNERS)
    @pytest.mark.parametrize(
        ("slots", "message"),
        [
            (0, "at least one slot, not 0"),
            (-3, "at least one slot, not -3"),
            (True, "whole number, not True"),
            (2.0, "whole number, not 2.0"),
            (17, "17 slots but only 16 buckets"),
        ],
    )
    def test_a_nonsense_number_of_slots(self, name: str, slots: Any, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            make_table(name, HISTOGRAM, slots)

    def test_a_previous_table_of_other_buckets_or_keys(self) -> None:
        with pytest.raises(ValueError, match="the table has 8 buckets and the histogram 16"):
            make_table("hash", HISTOGRAM, 2, RoutingTable.hashed(2, 8))
        with pytest.raises(ValueError, match="int64 keys and the histogram for string keys"):
            make_table("hash", HISTOGRAM, 2, RoutingTable.build(2, [0] * 16, [1], [0]))

    def test_options_have_their_defaults(self) -> None:
        assert planner_named("hash").options == {}
        assert planner_named("keel").options["target"] == 0.01
        assert "seed" not in planner_named("keel").options


class TestTables:
    @pytest.mark.parametrize("name", ["hash", "keel"])
    def test_nothing_measured_is_plain_hashing(self, name: str) -> None:
        empty = Histogram.empty(pa.int64(), buckets=16)
        table = make_table(name, empty, 3)
        assert table.same_routes(RoutingTable.hashed(3, 16, pa.int64()))
        assert table.version == 1

    @pytest.mark.parametrize("name", ["hash", "keel"])
    def test_nothing_measured_keeps_the_previous_table(self, name: str) -> None:
        previous = RoutingTable.build(3, [2] * 16, ["a"], [1], version=6)
        silent = Histogram.from_counts({"a": 0}, buckets=16)
        for histogram in (Histogram.empty(buckets=16), silent):
            table = make_table(name, histogram, 3, previous)
            assert table.same_routes(previous)
            assert table.version == 7
            assert make_table(name, histogram, 4, previous).same_routes(RoutingTable.hashed(4, 16))

    def test_a_split_table_is_not_handed_to_a_planner_that_keeps_keys_whole(self) -> None:
        split = RoutingTable.build(3, [2] * 16, ["a"], [[0, 1]])
        empty = Histogram.empty(buckets=16)
        assert make_table("pkg", empty, 3, split).same_routes(split)
        assert make_table("keel", empty, 3, split).same_routes(RoutingTable.hashed(3, 16))

    def test_versions_count_up(self) -> None:
        first = make_table("keel", HISTOGRAM, 2)
        assert first.version == 1
        assert make_table("keel", HISTOGRAM, 2, first).version == 2
        assert make_table("hash", HISTOGRAM, 2, first.with_version(41)).version == 42

    def test_numpy_slots(self) -> None:
        table = make_table("hash", HISTOGRAM, np.int64(4))  # type: ignore[arg-type]
        assert type(table.slots) is int


class TestPlan:
    def test_reports_what_the_table_does(self) -> None:
        plan = Plan.make(HISTOGRAM, 2, "keel")
        assert plan.slots == 2
        assert plan.loads.tolist() == slot_loads(plan.table, HISTOGRAM).tolist()
        assert plan.imbalance == imbalance(plan.loads) == 1.0
        assert plan.bound == 1.0
        assert plan.heavy == plan.table.heavy
        assert "a" in plan.heavy
        assert plan.migration is None
        heavy = len(plan.heavy)
        assert repr(plan) == f"Plan(keel, 2 slots, {heavy} heavy keys, imbalance 1.000, bound 1.000)"

    def test_starts_from_a_plan_or_a_table(self) -> None:
        first = Plan.make(HISTOGRAM, 2, "hash")
        for previous in (first, first.table):
            plan = Plan.make(HISTOGRAM, 2, "keel", previous)
            assert plan.previous is first.table
            assert plan.migration is not None
            assert plan.migration.state == migration(first.table, plan.table, HISTOGRAM).state > 0
            assert plan.table.version == 2

    def test_gives_the_reason_for_the_choice_of_auto(self) -> None:
        assert "least possible" in Plan.make(Histogram.from_keys(np.arange(5000), buckets=64), 2).reason
        assert Plan.make(HISTOGRAM, 2, "keel").reason == ""
        assert Plan.make(Histogram.empty(buckets=16), 2).reason == "nothing was measured"

    def test_auto_chooses_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        choices = []

        def counted(*args: Any, **options: Any) -> auto.Choice:
            choices.append(auto_choose(*args, **options))
            return choices[-1]

        auto_choose = auto.choose
        monkeypatch.setattr(auto, "choose", counted)
        plan = Plan.make(HISTOGRAM, 2)
        assert [choice.reason for choice in choices] == [plan.reason]

    def test_what_is_no_previous_table_is_refused(self) -> None:
        with pytest.raises(ValueError, match="previous is a plan or a routing table, not a str"):
            Plan.make(HISTOGRAM, 2, previous="user.plan")  # type: ignore[arg-type]

    def test_the_table_and_the_migration_print_in_one_line(self) -> None:
        first = Plan.make(HISTOGRAM, 2, "hash")
        assert repr(first.table) == "RoutingTable(version 1, 2 slots, 16 buckets, 0 heavy keys)"
        split = RoutingTable.build(3, [2] * 16, ["a", "b"], [[0, 1], [1]], version=6)
        expected = "RoutingTable(version 6, 3 slots, 16 buckets, 2 heavy keys, 1 of them split)"
        assert str(split) == expected
        moved = migration(RoutingTable.build(2, [0] * 16), RoutingTable.build(2, [1] * 16), HISTOGRAM)
        expected = "Migration(4 keys, 16 buckets, 100.0% of the load, 100.0% of the state)"
        assert repr(moved) == expected

    @pytest.mark.parametrize("previous", [None, RoutingTable.hashed(3, 16).with_version(4)])
    def test_survives_saving(self, previous: RoutingTable | None, tmp_path: Path) -> None:
        plan = Plan.make(HISTOGRAM, 2, "keel", previous, target=0.05)
        plan.save(tmp_path / "plan")
        loaded = Plan.load(str(tmp_path / "plan"))
        assert loaded.table == plan.table
        assert loaded.previous == plan.previous
        assert loaded.options == {"target": 0.05}
        assert (loaded.planner, loaded.reason) == ("keel", "")
        assert loaded.imbalance == plan.imbalance
        assert loaded.bound == plan.bound
        assert repr(loaded) == repr(plan)
        assert (loaded.migration is None) == (previous is None)
        if loaded.migration is not None and plan.migration is not None:
            assert loaded.migration.state == plan.migration.state

    def test_options_that_are_not_plain_data_are_saved_as_text(self, tmp_path: Path) -> None:
        options = {
            "target": np.float64(0.5),
            "n": np.int64(3),
            "betas": [len, 1],
            "pair": (1, 2),
            "h": HISTOGRAM,
        }
        Plan(RoutingTable.hashed(2, 16), HISTOGRAM, "scan", None, options).save(tmp_path / "plan")
        loaded = Plan.load(tmp_path / "plan").options
        assert loaded == {
            "target": 0.5,
            "n": 3,
            "betas": "[<built-in function len>, 1]",
            "pair": [1, 2],
            "h": repr(HISTOGRAM),
        }

    def test_a_damaged_part_is_refused_by_name(self, tmp_path: Path) -> None:
        path = tmp_path / "plan"
        Plan.make(HISTOGRAM, 2, "hash", RoutingTable.hashed(2, 16)).save(path)
        data = path.read_bytes()
        for at in range(0, len(data), 97):
            path.write_bytes(data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :])
            with pytest.raises(UnreadableFileError, match="plan: "):
                Plan.load(path)


class TestLoad:
    """`load` reads either kind of plan, by what the file says it is."""

    def test_the_plan_of_one_operator(self, tmp_path: Path) -> None:
        plan = Plan.make(HISTOGRAM, 2)
        plan.save(tmp_path / "plan")
        loaded = load(tmp_path / "plan")
        assert isinstance(loaded, Plan)
        assert loaded.table == plan.table

    def test_the_plan_of_chained_operators(self, tmp_path: Path) -> None:
        pytest.importorskip("pymetis")
        regions, tags = ["Asia", "Asia", "Oceania", "Oceania"], ["#java", "#ruby", "#python", "#perl"]
        histograms = [Histogram.from_keys(keys, buckets=8) for keys in (regions, tags)]
        plan = ChainPlan.make(histograms, [PairHistogram.from_pairs(regions, tags)], servers=2)
        plan.save(tmp_path / "plan")
        loaded = load(str(tmp_path / "plan"))
        assert isinstance(loaded, ChainPlan)
        assert loaded.tables == plan.tables

    def test_another_file_is_refused_by_name(self, tmp_path: Path) -> None:
        path = tmp_path / "file"
        path.write_bytes(HISTOGRAM.to_bytes())
        with pytest.raises(UnreadableFileError, match="file: a histogram of unskew where a plan is expected"):
            load(path)
        path.write_bytes(b"hello")
        with pytest.raises(UnreadableFileError, match="file: not a file of unskew"):
            load(path)
