from __future__ import annotations

import numpy as np
import pytest

from tests.core.listings.dkg import partial_key_grouping
from unskew.core.histogram import Histogram
from unskew.core.loads import imbalance, migration, slot_loads
from unskew.core.plan import make_table
from unskew.core.planners import pkg


def zipf(exponent: float, keys: int = 20_000, draws: int = 10**6) -> Histogram:
    p = np.arange(1, keys + 1.0) ** -exponent
    counts = np.random.default_rng(0).multinomial(draws, p / p.sum())
    return Histogram.from_arrays(np.arange(keys), counts)


@pytest.mark.parametrize("choices", [2, 3, 5])
@pytest.mark.parametrize("slots", [1, 2, 7, 40])
def test_a_stream_is_routed_as_the_paper_says(slots: int, choices: int) -> None:
    hashes = np.random.default_rng(slots).zipf(1.3, 2000) * np.int64(0x9E3779B97F4A7C15 >> 1)
    sent = pkg.route(hashes, slots, choices, seed=1)
    named = pkg.candidates(hashes, slots, choices, seed=1).tolist()
    assert sent.tolist() == partial_key_grouping(named, slots)


def test_a_key_is_split_over_at_most_its_two_candidates() -> None:
    hashes = np.repeat(np.arange(50), 100)
    np.random.default_rng(0).shuffle(hashes)
    sent = pkg.route(hashes, 16)
    assert max(len(set(sent[hashes == key])) for key in range(50)) == 2


def test_rows_name_the_candidates_that_the_stream_would_use() -> None:
    histogram = zipf(1.0, keys=100)
    table = make_table("pkg", histogram, 8, seed=5)
    assert table.choices.reshape(-1, 2).tolist() == pkg.candidates(table.hashes, 8, 2, seed=5).tolist()


def test_more_choices_name_more_slots() -> None:
    table = make_table("pkg", zipf(1.0, keys=100), 8, choices=4)
    assert set(table.lengths.tolist()) == {4}


def test_two_choices_balance_far_better_than_one() -> None:
    # No key holds more than 2/N of the load, so PKG can be nearly even.
    histogram = zipf(0.9).trimmed(2000)
    split = imbalance(slot_loads(make_table("pkg", histogram, 10), histogram))
    hashed = imbalance(slot_loads(make_table("hash", histogram, 10), histogram))
    assert split - 1 < (hashed - 1) / 2


def test_buckets_go_to_the_less_loaded_of_two_which_evens_them_out() -> None:
    histogram = zipf(0.6).trimmed(0)
    chosen = make_table("pkg", histogram, 10)
    single_choice = make_table("universal", histogram, 10)
    assert imbalance(slot_loads(chosen, histogram)) < 1.01 < imbalance(slot_loads(single_choice, histogram))


def test_tracked_keys_keep_their_candidates_while_the_load_drifts() -> None:
    before, after = zipf(0.9, keys=3000), zipf(1.1, keys=3000)
    first = make_table("pkg", before, 10)
    second = make_table("pkg", after, 10, first)
    moved = migration(first, second, before)
    assert not np.isin(after.hashes, moved.hashes).any()


@pytest.mark.parametrize("choices", [0, 1, 2.0, True, "2"])
def test_bad_choices_are_refused(choices: object) -> None:
    with pytest.raises(ValueError, match="choices"):
        make_table("pkg", zipf(1.0, keys=10), 2, choices=choices)
    with pytest.raises(ValueError, match="choices"):
        pkg.route(np.arange(3), 2, choices)  # type: ignore[arg-type]
