"""Frequent pairs in bounded memory: the guarantee of Space Saving, for any two kinds of keys."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from research.workloads import zipf
from unskew.core.chains.pairs import PairHistogram
from unskew.core.files import UnreadableFileError
from unskew.core.hashing import hash_keys

records = st.lists(st.tuples(st.integers(0, 4), st.sampled_from("vwxyz")), max_size=60)
capacities = st.integers(1, 12)


def counted(rows: list[tuple[int, str]], capacity: int = 1000) -> PairHistogram:
    return PairHistogram.from_pairs(
        [a for a, _ in rows],
        [b for _, b in rows],
        capacity=capacity,
        key_type_a=pa.int64(),
        key_type_b=pa.string(),
    )


def figures(pairs: PairHistogram) -> dict[tuple[Any, Any], float]:
    return {(a, b): n for a, b, n in pairs.top(len(pairs))}


def assert_guarantee(pairs: PairHistogram, rows: list[tuple[int, str]]) -> None:
    true, slack = Counter(rows), len(rows) / pairs.capacity
    assert pairs.total == len(rows)
    assert len(pairs) <= pairs.capacity
    for (a, b, lower), upper in zip(pairs.top(len(pairs)), pairs.upper.tolist(), strict=True):
        assert lower <= true[a, b] <= upper <= true[a, b] + slack
    absent = [f for pair, f in true.items() if pair not in figures(pairs)]
    assert max(absent, default=0) <= pairs.absent_bound <= slack


@given(records)
def test_with_enough_counters_counts_are_exact(rows: list[tuple[int, str]]) -> None:
    pairs = counted(rows)
    assert figures(pairs) == Counter(rows)
    assert not pairs.errors.any()
    assert pairs.covered == 1.0


@given(st.lists(records, max_size=6), capacities)
def test_merged_batches_keep_the_guarantee(batches: list[list[tuple[int, str]]], capacity: int) -> None:
    pairs, records = counted([], capacity), []
    for rows in batches:
        pairs = pairs.merge(counted(rows, capacity))
        records += rows
        assert_guarantee(pairs, records)


@given(records, records, capacities, capacities)
def test_merging_takes_the_smaller_capacity_and_either_order(
    left_rows: list[tuple[int, str]], right_rows: list[tuple[int, str]], few: int, more: int
) -> None:
    left, right = counted(left_rows, few), counted(right_rows, more)
    merged = left.merge(right)
    assert merged.capacity == min(few, more)
    assert_guarantee(merged, left_rows + right_rows)
    assert figures(merged) == figures(right.merge(left))


@given(records, capacities)
def test_trimming_keeps_the_heaviest_and_never_forgets_that_others_were_dropped(
    rows: list[tuple[int, str]], capacity: int
) -> None:
    trimmed = counted(rows).trimmed(capacity)
    assert sorted(trimmed.counts, reverse=True) == sorted(Counter(rows).values(), reverse=True)[:capacity]
    assert_guarantee(trimmed, rows)
    assert trimmed.trimmed(capacity + 5) is trimmed


def test_a_hundredth_of_the_memory_is_enough_for_the_heavy_pairs_of_a_skewed_stream() -> None:
    random = np.random.default_rng(1)
    a, b = random.choice(200, 100_000, p=zipf(200, 1.0)), random.choice(5000, 100_000, p=zipf(5000, 1.2))
    exact, small = PairHistogram.from_pairs(a, b), PairHistogram.empty(pa.int64(), pa.int64(), capacity=300)
    for rows in np.array_split(np.arange(len(a)), 20):
        small = small.merge(PairHistogram.from_pairs(a[rows], b[rows], capacity=300))
    assert len(exact) > 25_000
    assert [(x, y) for x, y, _ in small.top(20)] == [(x, y) for x, y, _ in exact.top(20)]
    assert figures(small)[0, 0] == figures(exact)[0, 0]


def test_pairs_have_a_direction_and_any_types_of_keys() -> None:
    swapped = PairHistogram.from_pairs(["x", "y", "y"], ["y", "x", "x"])
    assert swapped.top() == [("y", "x", 2.0), ("x", "y", 1.0)]
    mixed = PairHistogram.from_pairs([("a", 1), ("a", 2), ("a", 1)], [None, 2.5, None])
    assert figures(mixed) == {(("a", 1), None): 2.0, (("a", 2), 2.5): 1.0}


def test_keys_that_are_all_null_merge_with_any_type() -> None:
    nulls, names = PairHistogram.from_pairs([1], [None]), PairHistogram.from_pairs([1, 1], ["x", "x"])
    for merged in (nulls.merge(names), names.merge(nulls)):
        assert figures(merged) == {(1, "x"): 2.0, (1, None): 1.0}
        assert merged.key_types == (pa.int64(), pa.string())


def test_repeated_pairs_are_summed_and_hashes_of_spark_are_taken() -> None:
    a, b = ["u", "v", "u", "w"], [1, 2, 1, 3]
    pairs = PairHistogram.from_arrays(a, b, [2, 5, 1.5, 0])
    assert pairs.top() == [("v", 2, 5.0), ("u", 1, 3.5)]
    hashed_by_spark = PairHistogram.from_arrays(a, b, [2, 5, 1.5, 0], hashes=(hash_keys(a), hash_keys(b)))
    assert hashed_by_spark.top() == pairs.top()
    assert np.array_equal(hashed_by_spark.hashes_a, hash_keys(["v", "u"]))


def test_the_past_fades_or_is_forgotten() -> None:
    pairs = counted([(1, "x")] * 4 + [(2, "y")] * 2, capacity=2)
    half = pairs.decayed(0.5)
    assert (half.total, half.counts.tolist(), half.absent_bound) == (3.0, [2.0, 1.0], 1.0)
    for nothing in (pairs.reset(), pairs.decayed(0.0)):
        assert (len(nothing), nothing.total, nothing.capacity) == (0, 0.0, 2)
        assert nothing.key_types == pairs.key_types
        assert nothing.absent_bound == 0.0


def test_one_line_says_what_was_counted() -> None:
    pairs = counted([(1, "x")] * 3 + [(2, "y")], capacity=1)
    assert repr(pairs) == "PairHistogram(4 records, 1 pairs counted in 75.0% of them, capacity 1)"


def test_a_file_reads_back_and_damage_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "pairs"
    pairs = counted([(1, "x")] * 4 + [(2, "y")], capacity=1).merge(counted([(3, "z")], capacity=1))
    pairs.save(path)
    again = PairHistogram.load(path)
    assert again.top() == pairs.top()
    assert (again.total, again.capacity, again.key_types) == (6.0, 1, pairs.key_types)
    assert again.errors.tolist() == pairs.errors.tolist()
    assert again.merge(pairs).top() == pairs.merge(pairs).top()
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(UnreadableFileError, match="pairs: damaged"):
        PairHistogram.load(path)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PairHistogram.from_pairs([1, 2], [1]), "2 keys of the first operator, 1 of the second"),
        (lambda: PairHistogram.from_arrays([1], [1], [1, 2]), "and 2 counts"),
        (lambda: PairHistogram.from_arrays([1], [1], [-1]), "count 0 is -1"),
        (lambda: PairHistogram.from_arrays([1], [1], [np.nan]), "finite"),
        (lambda: PairHistogram.from_pairs([1], [1], capacity=0), "from 1, not 0"),
        (lambda: PairHistogram.from_pairs([1], [1]).trimmed(True), "not True"),
        (lambda: PairHistogram.from_pairs([1], [1]).decayed(1.5), "between 0 and 1, not 1.5"),
        (
            lambda: PairHistogram.from_pairs([1], [1]).merge(PairHistogram.from_pairs([1], ["x"])),
            "second keys",
        ),
        (lambda: PairHistogram.from_pairs("ab", [1]), "not one key"),
    ],
)
def test_nonsense_is_refused(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
