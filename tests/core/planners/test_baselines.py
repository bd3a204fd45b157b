"""Planners that do not look at the load: modulo, universal, uhlb, single; and the hash they draw."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from unskew.core.histogram import Histogram
from unskew.core.loads import imbalance, migration, slot_loads
from unskew.core.plan import make_table
from unskew.core.planners.dkg import bucket_groups
from unskew.core.planners.parts.universal_hash import bucket_numbers, draw
from unskew.core.routing import RoutingTable


@pytest.fixture
def histogram() -> Histogram:
    return Histogram.from_arrays(np.arange(-500, 500), np.ones(1000), buckets=512)


def test_modulo_sends_integer_keys_to_their_remainder(histogram: Histogram) -> None:
    table = make_table("modulo", histogram, 7)
    assert table.slot_of([-8, -1, 0, 6, 7, 100]).tolist() == [6, 6, 0, 6, 0, 2]


def test_modulo_leaves_untracked_and_null_keys_to_their_bucket() -> None:
    histogram = Histogram.from_counts({None: 5, 3: 4, 9: 1}, buckets=64).trimmed(2)
    table = make_table("modulo", histogram, 5)
    plain = RoutingTable.hashed(5, 64, histogram.key_type)
    assert table.heavy == {3: 3}
    assert table.slot_of([None, 9]).tolist() == plain.slot_of([None, 9]).tolist()


def test_modulo_of_other_key_types_is_plain_hashing() -> None:
    histogram = Histogram.from_counts({"a": 5, "b": 1}, buckets=64)
    assert make_table("modulo", histogram, 5).same_routes(make_table("hash", histogram, 5))


def test_two_numbers_collide_as_rarely_as_a_universal_family_promises() -> None:
    pairs = np.array([[3, 4], [0, 4095], [17, 17 + 512]])
    size, draws = 8, 4000
    collisions = [
        [first == second for first, second in draw(size, seed)(pairs).tolist()] for seed in range(draws)
    ]
    # 1/8 of the draws, give or take four standard deviations
    assert np.mean(collisions, axis=0).max() < 1 / size + 4 * np.sqrt(1 / size / draws)


def test_the_values_of_a_drawn_function_are_even_and_in_range() -> None:
    values = draw(10, seed=3)(np.arange(-50_000, 50_000))
    assert np.bincount(values, minlength=10).tolist() == pytest.approx([10_000] * 10, rel=0.02)


def test_streams_of_one_seed_are_different_functions_and_sizes_share_one() -> None:
    first, second, wide = draw(8, 5, 0), draw(8, 5, 1), draw(16, 5, 0)
    assert (first.a, first.c) != (second.a, second.c)
    assert (first.a, first.c) == (wide.a, wide.c)


def test_universal_keeps_its_function_when_it_plans_again(histogram: Histogram) -> None:
    first = make_table("universal", histogram, 8, seed=4)
    assert make_table("universal", histogram, 8, first, seed=4).same_routes(first)
    assert not make_table("universal", histogram, 8, seed=5).same_routes(first)


def test_uhlb_draws_a_fresh_function_each_time_and_moves_nearly_everything(histogram: Histogram) -> None:
    tables = [make_table("uhlb", histogram, 8, seed=4)]
    for _ in range(5):
        tables.append(make_table("uhlb", histogram, 8, tables[-1], seed=4))
    moved = [migration(old, new, histogram).state_share for old, new in pairwise(tables)]
    assert np.mean(moved) == pytest.approx(7 / 8, abs=0.1)


def test_uhlb_repeats_itself_for_the_same_seed_and_version(histogram: Histogram) -> None:
    first = make_table("uhlb", histogram, 8, seed=4)
    again, twice = (make_table("uhlb", histogram, 8, first, seed=4) for _ in range(2))
    assert again == twice


def test_single_uses_one_slot_only(histogram: Histogram) -> None:
    assert imbalance(slot_loads(make_table("single", histogram, 9), histogram)) == 9.0


@pytest.mark.parametrize("name", ["universal", "uhlb", "dkg", "pkg"])
def test_a_negative_seed_is_refused(name: str, histogram: Histogram) -> None:
    with pytest.raises(ValueError, match="seed"):
        make_table(name, histogram, 2, seed=-1)


def test_no_draw_puts_the_buckets_on_a_few_slots(histogram: Histogram) -> None:
    # consecutive numbers do: ((a·x + c) mod p) mod 2 is the same for all of them under some a
    for name in ("universal", "uhlb", "dkg-wosim"):
        for slots in (2, 3, 10):
            fullest = max(
                np.bincount(make_table(name, histogram, slots, seed=seed).buckets, minlength=slots).max()
                for seed in range(300)
            )
            # six standard deviations of 512 buckets thrown at random
            assert fullest < 512 / slots + 6 * np.sqrt(512 / slots), (name, slots)


def test_the_groups_of_dkg_have_about_as_many_buckets_each() -> None:
    fullest = max(np.bincount(bucket_groups(4096, 2, 1.0, seed)).max() for seed in range(1000))
    assert fullest < 2048 + 6 * np.sqrt(2048)


def test_the_number_of_a_bucket_never_changes() -> None:
    # a stream that plans again must get the function it had
    assert bucket_numbers(3).tolist() == bucket_numbers(4096)[:3].tolist()
    assert len(np.unique(bucket_numbers(1 << 18))) == 1 << 18
