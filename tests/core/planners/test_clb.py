from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.listings.guo import clb
from unskew.core.histogram import Histogram
from unskew.core.history import merge_all
from unskew.core.loads import migration
from unskew.core.plan import make_table
from unskew.core.planners.clb import split, variances
from unskew.core.routing import RoutingTable


def seasons(windows: int = 16, keys: int = 400, seed: int = 0) -> list[Histogram]:
    """Keys that swing together in four seasons, with some noise."""
    rng = np.random.default_rng(seed)
    season = rng.integers(0, 4, keys)
    size = rng.uniform(50, 150, keys)
    phases = np.arange(windows)[:, None] / windows + season[None, :] / 4
    loads = rng.poisson(size * (1 + 0.8 * np.sin(2 * np.pi * phases)))
    return [Histogram.from_arrays(np.arange(keys), row, buckets=256) for row in loads]


@given(
    st.data(), st.integers(1, 12), st.sampled_from([2, 4]), st.sampled_from([0.0, 1.0, 4.5]), st.booleans()
)
def test_equals_the_listing(data: st.DataObject, p: int, m: int, theta: float, listing: bool) -> None:
    # Whole numbers over 2 or 4 windows: every covariance is exact, so ties are ties in both.
    row = st.lists(st.integers(0, 9).map(float), min_size=m, max_size=m)
    series = data.draw(st.lists(row, min_size=p, max_size=p))
    sets = data.draw(st.integers(1, p))
    x = np.array(series).T
    swings = x - x.mean(axis=0)
    chosen = split(swings.T @ swings / m, x.mean(axis=0), sets, theta, listing)
    assert chosen.tolist() == clb(series, sets, theta, listing)
    assert len(set(chosen.tolist())) == sets


def test_the_chosen_substream_is_apart_from_all_that_rise_with_it() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        swings = rng.normal(size=(6, 20))
        covariance = swings.T @ swings / 6
        related = (covariance >= 0.1) & ~np.eye(20, dtype=bool)
        chosen = int(np.argmax(np.where(related, covariance, 0).sum(axis=1)))
        member = split(covariance, np.ones(20), 2, 0.1)
        assert np.array_equal(np.flatnonzero(member == 1), np.flatnonzero(related[chosen]))


def test_after_a_split_the_definition_and_the_listing_of_the_weight_choose_differently() -> None:
    differ = 0
    for seed in range(60):
        swings = np.random.default_rng(seed).normal(size=(6, 20))
        covariance = swings.T @ swings / 6
        first, second = (split(covariance, np.ones(20), 4, 0.1, listing) for listing in (False, True))
        assert np.array_equal(
            split(covariance, np.ones(20), 2, 0.1), split(covariance, np.ones(20), 2, 0.1, True)
        )
        differ += not np.array_equal(first, second)
    assert differ > 20


def test_every_split_is_by_the_substream_with_the_most_in_common_with_its_set() -> None:
    for seed in range(50):
        swings = np.random.default_rng(seed).normal(size=(6, 20))
        covariance = swings.T @ swings / 6
        related = (covariance >= 0.1) & ~np.eye(20, dtype=bool)
        before, after = (split(covariance, np.ones(20), sets, 0.1) for sets in (3, 4))
        together = before[:, None] == before[None, :]
        weight = np.where(related & together, covariance, 0).sum(axis=1)
        chosen = int(np.argmax(weight))
        assert np.array_equal(np.flatnonzero(after == 3), np.flatnonzero(related[chosen] & together[chosen]))


def test_four_that_rise_in_pairs_swing_far_less_than_with_each_pair_together() -> None:
    rise = np.array([4.0, 4.0, -4.0, -4.0])
    covariance = np.outer(rise, rise)
    sets = split(covariance, np.ones(4), 2, 0.0)

    def temporal(member: np.ndarray) -> float:
        return sum(float(rise[member == group].sum()) ** 2 for group in range(2))

    assert sets[0] != sets[1]
    assert temporal(sets) == temporal(np.array([0, 0, 1, 1])) / 4


def test_mean_loads_are_not_balanced_and_variances_shows_it() -> None:
    windows = seasons()
    table = make_table("clb", merge_all(windows), 4, windows=windows)
    plain = RoutingTable.hashed(4, 256, windows[0].key_type)
    assert len(np.unique(table.buckets)) == 4
    assert variances(table, windows).across > 10 * variances(plain, windows).across


def test_both_variances_add_up_to_the_imbalance_over_windows() -> None:
    windows = seasons(windows=5)
    table = make_table("universal", windows[0], 6, seed=2)
    loads = np.array([np.bincount(table.slot_of_hashes(w.hashes), w.tracked.weights, 6) for w in windows])
    across, temporal = variances(table, windows)
    assert loads.var(axis=1).mean() == pytest.approx(across + temporal - loads.mean(axis=1).var())


@pytest.mark.parametrize("slots", [3, 4, 6])
def test_the_same_windows_again_move_nothing_even_under_other_slot_numbers(slots: int) -> None:
    windows = seasons()
    everything = merge_all(windows)
    table = make_table("clb", everything, slots, windows=windows)
    renamed = RoutingTable.build(
        slots, (table.buckets + 1) % slots, key_type=table.key_type, version=table.version
    )
    again = make_table("clb", everything, slots, renamed, windows=windows)
    assert len(migration(renamed, again, everything)) == 0


def test_matching_counts_state_not_buckets_and_where_heavy_keys_really_were() -> None:
    # Keys 0 and 1 rise together and part; key 1 carries the state of its set and has been on slot 1.
    counts = [{0: 9, 1: 9}, {0: 1, 1: 1}]
    state = {0: 1, 1: 1000}
    windows = [Histogram.from_counts(c, state=state, buckets=64) for c in counts]
    everything = merge_all(windows)
    for slot in (0, 1):
        previous = RoutingTable.build(2, np.full(64, 1 - slot), heavy=np.array([1]), heavy_slots=[slot])
        table = make_table("clb", everything, 2, previous, windows=windows)
        assert table.slot_of([1]).tolist() == [slot]


def test_shrinking_and_growing_keep_what_can_stay() -> None:
    windows = seasons()
    everything = merge_all(windows)
    four = make_table("clb", everything, 4, windows=windows)
    three = make_table("clb", everything, 3, four, windows=windows)
    back = make_table("clb", everything, 4, three, windows=windows)
    assert three.slots == 3
    # splits happen one after another: three sets become four by splitting one of them
    assert migration(three, back, everything).state_share < 0.5
    assert len(np.unique(back.buckets)) == 4


def test_buckets_of_one_substream_stay_together() -> None:
    windows = seasons()
    table = make_table("clb", merge_all(windows), 4, windows=windows, substreams=16)
    assert np.array_equal(table.buckets, np.tile(table.buckets[:16], 16))


def test_every_slot_gets_a_set_when_nothing_is_correlated() -> None:
    # Two substreams that mirror each other have none to be separated from.
    covariance = np.array([[1.0, -1.0], [-1.0, 1.0]])
    assert split(covariance, np.array([1.0, 3.0]), 2, 0.0).tolist() == [0, 1]


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"windows": ()}, "windows"),
        ({"windows": seasons(2)[:1]}, "windows"),
        ({"windows": [*seasons(2), Histogram.from_counts({0: 1}, buckets=8)]}, "window"),
        ({"windows": seasons(2), "theta": -0.1}, "theta"),
        ({"windows": seasons(2), "substreams": 3}, "substreams"),
        ({"windows": seasons(2), "substreams": 8.0}, "substreams"),
    ],
)
def test_bad_options_are_refused_by_name(options: dict[str, object], name: str) -> None:
    with pytest.raises(ValueError, match=name):
        make_table("clb", seasons(2)[0], 4, **options)
