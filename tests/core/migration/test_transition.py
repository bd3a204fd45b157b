"""A table between two tables sends each key where one of the two does, and moves no more than it may."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.table_cases import BUCKETS, NAMES, entries_moved, histograms, tables
from unskew.core.hashing import buckets_of, hash_keys
from unskew.core.histogram import Histogram
from unskew.core.loads import migration, slot_loads
from unskew.core.migration.transition import step_toward, table_after
from unskew.core.routing import RoutingTable

ALL = hash_keys(NAMES)
HOMES = buckets_of(ALL, BUCKETS)

whole = tables(split=False)


@given(whole, whole, st.sets(st.integers(0, BUCKETS)))
def test_only_keys_of_exporters_follow_the_target(
    table: RoutingTable, target: RoutingTable, exporters: set[int]
) -> None:
    result = table_after(table, target, exporters)
    old, new = table.slot_of_hashes(ALL).tolist(), target.slot_of_hashes(ALL).tolist()
    assert result.slot_of_hashes(ALL).tolist() == [
        n if o in exporters else o for o, n in zip(old, new, strict=True)
    ]
    assert result.buckets.tolist() == [
        n if o in exporters else o for o, n in zip(table.buckets, target.buckets, strict=True)
    ]
    assert max(result.buckets.max(), result.choices.max(initial=0)) < result.slots
    assert result.version == table.version + (result is not table)
    assert result is table or not result.same_routes(table)
    if result is not table:
        # a row where the target has one, and where a key is not with its bucket
        apart = result.slot_of_hashes(ALL) != result.buckets[HOMES]
        assert set(result.hashes) == set(target.hashes) | set(ALL[apart])
        assert result.keys.to_pylist() == [NAMES[ALL.tolist().index(h)] for h in result.hashes]


@given(whole, whole)
def test_all_exporters_lead_to_the_target_and_none_to_the_table(
    table: RoutingTable, target: RoutingTable
) -> None:
    assert table_after(table, target, range(BUCKETS)).same_routes(target)
    assert table_after(table, target, []) is table


def test_slots_shrink_once_nothing_is_left_outside() -> None:
    table, target = RoutingTable.build(4, [0, 1, 2, 3]), RoutingTable.build(2, [0, 1, 0, 1])
    assert table_after(table, target, {0, 1, 2}).slots == 4
    assert table_after(table, target, {2, 3}).slots == 2
    assert table_after(target, table, {0}).slots == 4


def test_a_key_merged_back_while_its_bucket_waits_keeps_a_row() -> None:
    home = int(buckets_of(hash_keys(["a"]), 4)[0])
    table = RoutingTable.build(3, [0] * 4, ["a"], [1])
    target = RoutingTable.build(3, [2] * 4)
    result = table_after(table, target, {1})
    assert result.heavy == {"a": 2}
    assert result.buckets[home] == 0


@given(whole, whole, histograms(), st.floats(0.01, 1))
def test_a_step_moves_no_more_than_its_share_unless_it_is_one_entry(
    table: RoutingTable, goal: RoutingTable, histogram: Histogram, share: float
) -> None:
    step = step_toward(table, goal, histogram, share=share)
    within = migration(table, step, histogram).state <= share * histogram.total_state * (1 + 1e-6)
    assert within or not histogram.total_state or entries_moved(table, step) == 1
    if histogram.total_state and migration(table, goal, histogram).state <= share * histogram.total_state:
        assert step is goal


def test_what_relieves_most_goes_first() -> None:
    h = Histogram.from_counts({"a": 50, "b": 30, "c": 5, "d": 1}, buckets=4)
    table = RoutingTable.build(3, [0] * 4, list("abcd"), [0, 0, 0, 1])
    goal = RoutingTable.build(3, [0] * 4, list("abcd"), [0, 1, 2, 2])
    assert step_toward(table, goal, h, entries=1).heavy == {"a": 0, "b": 1, "c": 0, "d": 1}
    # b is too large for this share, c and d are not, and c relieves more
    assert step_toward(table, goal, h, share=0.06).heavy == {"a": 0, "b": 0, "c": 2, "d": 1}
    # nothing fits, but one entry moves anyway
    assert slot_loads(step_toward(table, goal, h, share=0.001), h).tolist() == [55, 31, 0]


def test_tables_of_other_key_types_or_with_split_rows_are_refused() -> None:
    names = RoutingTable.build(2, [0, 1], ["a"], [0])
    numbers = RoutingTable.build(2, [0, 1], [1], [0])
    with pytest.raises(ValueError, match="string keys and the target for int64 keys"):
        table_after(names, numbers, {0})
    with pytest.raises(ValueError, match="'a' names several slots"):
        step_toward(names, RoutingTable.build(2, [0, 1], ["a"], [[0, 1]]))
    # a table without rows has no type to speak of
    assert table_after(RoutingTable.hashed(2, 2), numbers, {0}).key_type == pa.int64()
