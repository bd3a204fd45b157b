"""No value has more rows on a slot than a file may have, and every file that need not be split is one file."""

from __future__ import annotations

from math import ceil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unskew.core.histogram import Histogram
from unskew.core.loads import imbalance, slot_loads
from unskew.core.splitting.files import expected_rows, files_table


@given(
    st.lists(st.integers(0, 5000), min_size=1, max_size=60),
    st.integers(1, 12),
    st.none() | st.integers(40, 6000),
)
def test_only_values_above_the_limit_are_split_and_their_shares_are_below_it(
    counts: list[int], slots: int, rows_per_file: int | None
) -> None:
    histogram = Histogram.from_counts(dict(enumerate(counts)), buckets=64)
    table = files_table(histogram, slots, rows_per_file)
    limit = sum(counts) / slots if rows_per_file is None else rows_per_file
    share = limit if rows_per_file is None else expected_rows(rows_per_file)
    assert table.slots >= slots
    files = 0
    for value, count in enumerate(counts):
        pieces = len(np.atleast_1d(table.heavy.get(value, 0)))
        assert len(set(np.atleast_1d(table.heavy.get(value, 0)).tolist())) == pieces
        assert pieces == (ceil(count / share) if count > limit else 1)
        files = max(files, pieces)
    assert table.slots == max(slots, files)


def test_small_values_are_together_and_slots_are_even() -> None:
    counts = {"hot": 5000, **{f"v{i}": 10 for i in range(500)}}
    histogram = Histogram.from_counts(counts)
    table = files_table(histogram, 8)
    assert len(table.heavy) == 1
    assert imbalance(slot_loads(table, histogram)) < 1.1


def test_more_slots_than_buckets() -> None:
    histogram = Histogram.from_counts({"hot": 100_000, **{f"v{i}": 10 for i in range(50)}}, buckets=64)
    table = files_table(histogram, 4, rows_per_file=1000)
    assert table.slots == ceil(100_000 / expected_rows(1000)) > 64
    assert (table.buckets.reshape(-1, 64) == table.buckets[:64]).all()


@pytest.mark.parametrize("most", [1, 10, 100, 1000, 100_000])
def test_what_is_expected_of_a_file_leaves_room_for_chance(most: int) -> None:
    draws = np.random.default_rng(most).poisson(expected_rows(most), 1_000_000)
    assert draws.max() <= most


def test_a_limit_that_takes_too_many_tasks_is_refused() -> None:
    histogram = Histogram.from_counts({"hot": 1_000_000}, buckets=64)
    with pytest.raises(ValueError, match=r"at rows_per_file=20 takes .* tasks: raise rows_per_file"):
        files_table(histogram, 4, 20)


def test_nothing_was_counted() -> None:
    assert files_table(Histogram.from_counts({}, buckets=64), 4, 10).slots == 4
