"""A table is a dictionary of heavy keys and a list of buckets, looked up fast and checked when built."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.table_cases import NAMES, Drawn, drawn, tables
from unskew.core.hashing import hash_keys
from unskew.core.histogram import DEFAULT_BUCKETS
from unskew.core.routing import RoutingTable, check_slots


def naive_slot(drawn: Drawn, key: str, choice: int = 0) -> int:
    """What the docstring promises, one key at a time."""
    if key not in drawn.rows:
        return drawn.cells[int(hash_keys([key])[0]) % len(drawn.cells)]
    row = drawn.rows[key]
    return row[choice % len(row)]


class TestLookUp:
    @given(drawn(), st.lists(st.sampled_from([*NAMES, "other", ""]), max_size=30))
    def test_equals_a_dictionary_and_a_loop(self, drawn: Drawn, keys: list[str]) -> None:
        slots = drawn.table().slot_of(keys)
        assert slots.tolist() == [naive_slot(drawn, key) for key in keys]
        assert slots.dtype == np.int32

    @given(drawn(), st.lists(st.tuples(st.sampled_from(NAMES), st.integers(-9, 99)), min_size=1))
    def test_a_choice_for_each_record(self, drawn: Drawn, records: list[tuple[str, int]]) -> None:
        keys, choices = [key for key, _ in records], [choice for _, choice in records]
        table = drawn.table()
        assert table.slot_of(keys, choices).tolist() == [naive_slot(drawn, *record) for record in records]
        assert table.slot_of(keys, 3).tolist() == [naive_slot(drawn, key, 3) for key in keys]

    @given(drawn())
    def test_rows(self, drawn: Drawn) -> None:
        table = drawn.table()
        rows = table.rows_of(hash_keys(NAMES))
        assert [(row >= 0) for row in rows] == [name in drawn.rows for name in NAMES]
        heavy = [name for name, row in zip(NAMES, rows, strict=True) if row >= 0]
        assert table.keys.take(pa.array(rows[rows >= 0])).to_pylist() == heavy

    def test_hashes_that_share_their_high_bits_or_their_bucket_are_distinguished(self) -> None:
        hashes = np.array([5, 6, -1, -(2**63), 2**63 - 1, 5 + 8])
        table = RoutingTable.build(
            3, [0] * 8, ["a", "b", "c"], [1, 2, 1], hashes=np.array([5, -(2**63), 2**63 - 1])
        )
        assert table.slot_of_hashes(hashes).tolist() == [1, 0, 0, 2, 1, 0]

    def test_a_look_up_changes_nothing(self) -> None:
        table = RoutingTable.build(2, [0, 0], ["a"], [1])
        first = table.slot_of(["a", "b"])
        first[:] = 9
        assert table.slot_of(["a", "b"]).tolist() == [1, 0]
        assert table.buckets.tolist() == [0, 0]

    def test_no_keys(self) -> None:
        assert RoutingTable.build(2, [0, 1], ["a"], [1]).slot_of([]).tolist() == []

    def test_composite_keys(self) -> None:
        heavy = [("a", 1), ("a", 2), (None, 1)]
        table = RoutingTable.build(4, [0, 0, 0, 0], heavy, [1, 2, 3])
        assert table.slot_of([("a", 2), ("a", 1), ("b", 1), (None, 1)]).tolist() == [2, 1, 0, 3]
        assert table.heavy == {("a", 1): 1, ("a", 2): 2, (None, 1): 3}

    def test_nested_composite_keys_are_shown_as_tuples(self) -> None:
        table = RoutingTable.build(2, [0, 0], [(("a", 1), b"x")], [1])
        assert table.heavy == {(("a", 1), b"x"): 1}

    def test_keys_of_another_type_are_refused(self) -> None:
        table = RoutingTable.build(2, [0, 1], ["a"], [1])
        for keys in ([1], np.array([1.5]), [("a", 1)]):
            with pytest.raises(ValueError, match="string"):
                table.slot_of(keys)
        with pytest.raises(ValueError, match="not one key"):
            table.slot_of("a")


class TestBuilding:
    def test_heavy_slots_in_every_form(self) -> None:
        expected = {"a": 1, "b": 0}
        for slots in (
            [1, 0],
            [[1], [0]],
            (1, 0),
            np.array([1, 0]),
            np.array([[1], [0]]),
            np.array([1, 0], "u1"),
        ):
            assert RoutingTable.build(2, [0, 1], ["a", "b"], slots).heavy == expected
        split = RoutingTable.build(2, [0, 1], ["a", "b", "c"], [[1, 0], 1, (0, 0, 1)])
        assert split.heavy == {"a": (1, 0), "b": 1, "c": (0, 0, 1)}
        assert split.is_split

    def test_a_slot_named_twice_is_not_a_split(self) -> None:
        assert not RoutingTable.build(2, [0, 1], ["a"], [[1, 1]]).is_split
        assert not RoutingTable.build(2, [0, 1], ["a"], [1]).is_split

    @given(drawn())
    def test_rows_are_ordered_by_hash(self, drawn: Drawn) -> None:
        table = drawn.table()
        assert table.hashes.tolist() == sorted(hash_keys(list(drawn.rows), pa.string()).tolist())
        assert table.heavy_slots.tolist() == [drawn.rows[key][0] for key in table.keys.to_pylist()]
        assert table.heavy == {k: tuple(row) if len(row) > 1 else row[0] for k, row in drawn.rows.items()}
        assert table.is_split == any(len(set(row)) > 1 for row in drawn.rows.values())

    @pytest.mark.parametrize("slots", [0, -1, True, 2.0, "2", None, np.float64(2)])
    def test_a_number_of_slots_is_a_positive_whole_number(self, slots: Any) -> None:
        for make in (lambda: RoutingTable.hashed(slots, 8), lambda: RoutingTable.build(slots, [0] * 8)):
            with pytest.raises(ValueError, match=r"at least one slot, not|slots is a whole number, not"):
                make()

    def test_more_slots_than_buckets(self) -> None:
        with pytest.raises(ValueError, match=r"9 slots but only 8 buckets.*measure with buckets=256 or more"):
            check_slots(9, 8)
        check_slots(8, 8)
        check_slots(np.int32(8), 8)

    @pytest.mark.parametrize(
        ("cells", "message"),
        [
            ([0, 2], "a bucket is sent to slot 2, but slots are 0..1"),
            ([0, -1], "a bucket is sent to slot -1"),
            ([0, 2**32], f"a bucket is sent to slot {2**32}"),
            ([0.0, 1.0], "whole numbers"),
            ([0, float("nan")], "whole numbers"),
            ([[0, 1]], "not of 2 dimensions"),
            ([True, False], "whole numbers"),
        ],
    )
    def test_buckets_must_be_slots(self, cells: Any, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            RoutingTable.build(2, cells)

    @pytest.mark.parametrize(
        ("heavy_slots", "message"),
        [
            ([2], "a heavy key is sent to slot 2, but slots are 0..1"),
            ([[0, -1]], "a heavy key is sent to slot -1"),
            (np.array([2**32]), f"a heavy key is sent to slot {2**32}"),
            ([2**40], f"a heavy key is sent to slot {2**40}"),
            ([2**70], "heavy key"),
            ([0.5], "whole numbers"),
            (np.array([0.5]), "whole numbers"),
            (["1"], "whole numbers"),
            ([[]], "at least one slot"),
            ([0, 1], "1 heavy keys but 1 hashes and 2 slots"),
            ([], "1 heavy keys but 1 hashes and 0 slots"),
        ],
    )
    def test_heavy_keys_must_have_slots(self, heavy_slots: Any, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            RoutingTable.build(2, [0, 1], ["a"], heavy_slots)

    def test_hashes_must_match_the_keys(self) -> None:
        with pytest.raises(ValueError, match="1 heavy keys but 2 hashes"):
            RoutingTable.build(2, [0, 1], ["a"], [0], hashes=np.array([1, 2]))

    def test_a_key_has_one_row(self) -> None:
        for heavy in (["a", "a"], [0.0, -0.0], [("a", None), (None, "a")]):
            with pytest.raises(ValueError, match=r"same key hash, that of .*: name each key once"):
                RoutingTable.build(2, [0, 1], heavy, [0, 1])

    def test_the_type_of_no_keys(self) -> None:
        assert RoutingTable.build(2, [0, 1]).key_type == pa.string()
        assert RoutingTable.build(2, [0, 1], key_type=pa.int64()).key_type == pa.int64()
        assert RoutingTable.build(2, [0, 1], pa.array([], pa.int64())).key_type == pa.int64()
        nulls = RoutingTable.build(2, [0, 1], [None], [1])
        assert nulls.key_type == pa.null()
        assert nulls.slot_of(["a", None]).tolist() == [int(hash_keys(["a"])[0] % 2), 1]

    def test_the_caller_s_arrays_are_not_kept(self) -> None:
        cells, slots = np.zeros(4, np.int32), np.array([1], np.int32)
        table = RoutingTable.build(2, cells, ["a"], slots)
        cells[:], slots[:] = 1, 0
        assert table.buckets.tolist() == [0, 0, 0, 0]
        assert table.heavy == {"a": 1}


class TestHashed:
    def test_is_hash_modulo_slots_where_slots_divide_the_buckets(self) -> None:
        keys = [str(i) for i in range(500)]
        table = RoutingTable.hashed(8)
        assert len(table.buckets) == DEFAULT_BUCKETS
        assert table.slot_of(keys).tolist() == (hash_keys(keys) % 8).tolist()
        assert not table.heavy
        assert not table.is_split

    def test_is_even(self) -> None:
        assert np.bincount(RoutingTable.hashed(5, 13).buckets).tolist() == [3, 3, 3, 2, 2]


class TestComparing:
    @given(tables(), st.integers(0, 9))
    def test_versions_do_not_change_routes(self, table: RoutingTable, version: int) -> None:
        renumbered = table.with_version(version)
        assert renumbered.version == version
        assert table.same_routes(renumbered)
        assert (table == renumbered) == (version == table.version)
        assert table != "table"

    @given(tables(), tables())
    def test_same_routes_means_the_same_slots(self, left: RoutingTable, right: RoutingTable) -> None:
        same = (
            left.slots == right.slots and left.heavy == right.heavy and (left.buckets == right.buckets).all()
        )
        assert left.same_routes(right) == same
        if left == right:
            assert hash(left) == hash(right)

    def test_any_difference_counts(self) -> None:
        table = RoutingTable.build(3, [0, 1, 2], ["a"], [[1, 2]])
        variants = [
            RoutingTable.build(3, [0, 1, 1], ["a"], [[1, 2]]),
            RoutingTable.build(3, [0, 1, 2], ["b"], [[1, 2]]),
            RoutingTable.build(3, [0, 1, 2], ["a"], [[2, 1]]),
            RoutingTable.build(3, [0, 1, 2], ["a"], [1]),
            RoutingTable.build(3, [0, 1, 2], [b"a"], [[1, 2]]),
            RoutingTable.build(3, [0, 1, 2]),
        ]
        assert not any(table.same_routes(variant) for variant in variants)
        keys = ["a", "b"]
        left, right = (
            RoutingTable.build(3, [0, 1, 2], keys, rows) for rows in ([[1, 1], [1]], [[1], [1, 1]])
        )
        assert not left.same_routes(right)


class TestSaving:
    @given(table=tables(), version=st.integers(0, 2**40))
    def test_round_trip(self, table: RoutingTable, version: int) -> None:
        loaded = RoutingTable.from_bytes(table.with_version(version).to_bytes())
        assert loaded == table.with_version(version)
        assert loaded.heavy == table.heavy
        assert loaded.slot_of(NAMES).tolist() == table.slot_of(NAMES).tolist()
        for field in ("buckets", "hashes", "offsets", "choices"):
            assert getattr(loaded, field).dtype == getattr(table, field).dtype

    @pytest.mark.parametrize("heavy", [[("a", 1), (None, 2)], [1, 2], [b"\xff", None], [1.5, None]])
    def test_every_kind_of_key(self, heavy: list[Any], tmp_path: Path) -> None:
        table = RoutingTable.build(3, [0, 1, 2], heavy, [[1, 2], 0])
        table.save(tmp_path / "t")
        loaded = RoutingTable.load(str(tmp_path / "t"))
        assert loaded == table
        assert loaded.heavy == table.heavy

    def test_the_same_table_is_the_same_file(self) -> None:
        table = RoutingTable.build(2, [0, 1], ["a", "b"], [0, 1])
        reordered = RoutingTable.build(2, [0, 1], ["b", "a"], [1, 0])
        assert table.to_bytes() == reordered.to_bytes()


def test_one_line_says_what_a_table_has() -> None:
    table = RoutingTable.build(3, [0, 1, 2], ["a", "b"], [[1, 2], 0], version=7)
    assert repr(table) == "RoutingTable(version 7, 3 slots, 3 buckets, 2 heavy keys, 1 of them split)"
    assert repr(RoutingTable.hashed(4, 64)) == "RoutingTable(version 0, 4 slots, 64 buckets, 0 heavy keys)"


class TestShares:
    def test_rows_are_scaled_and_ordered_with_their_slots(self) -> None:
        keys, slots, shares = ["a", "b", "c"], [[0, 1], [2], [1, 0, 2]], [[3, 1], [7], [1, 1, 2]]
        table = RoutingTable.build(3, np.zeros(4, int), keys, slots, heavy_shares=shares)
        rows = np.split(table.choice_shares, table.offsets[1:-1])
        shares_of = dict(zip(table.heavy, [row.tolist() for row in rows], strict=True))
        assert shares_of == {"a": [0.75, 0.25], "b": [1.0], "c": [0.25, 0.25, 0.5]}
        assert table.heavy == dict(zip(keys, [(0, 1), 2, (1, 0, 2)], strict=True)) | table.heavy
        assert table != RoutingTable.build(3, np.zeros(4, int), keys, slots)
        assert RoutingTable.from_bytes(table.to_bytes()) == table

    @pytest.mark.parametrize("wrong", [[[1.0, 0.0]], [[1.0, -1.0]], [[1.0, np.nan]], [[1.0, np.inf]]])
    def test_a_share_that_is_not_positive_is_refused(self, wrong: list[list[float]]) -> None:
        with pytest.raises(ValueError, match="a share of a heavy key is a positive number, not"):
            RoutingTable.build(2, [0, 1], ["a"], [[0, 1]], heavy_shares=wrong)

    def test_a_row_of_another_length_is_refused(self) -> None:
        with pytest.raises(ValueError, match="one share for each slot"):
            RoutingTable.build(2, [0, 1], ["a"], [[0, 1]], heavy_shares=[[1.0]])
