from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from tests.core.listings.kip import kip_update
from unskew.core.hashing import hash_keys
from unskew.core.histogram import Histogram
from unskew.core.loads import imbalance, migration, slot_loads
from unskew.core.plan import make_table
from unskew.core.routing import RoutingTable


def zipf(keys: int, exponent: float, *, seed: int = 0, buckets: int = 4096, draws: int = 10**6) -> Histogram:
    rng = np.random.default_rng(seed)
    p = np.arange(1, keys + 1.0) ** -exponent
    counts = rng.multinomial(draws, p / p.sum())
    return Histogram.from_arrays(np.arange(keys), counts, buckets=buckets)


def random_case(rng: np.random.Generator) -> tuple[Histogram, int, RoutingTable | None]:
    """A skewed histogram, a number of slots, and a random table for fewer or more of them."""
    buckets, slots, before = (int(rng.choice(sizes)) for sizes in ([8, 16, 30], range(1, 9), range(1, 9)))
    keys = int(rng.integers(1, 40))
    counts = np.ceil(60 * rng.random(keys) ** rng.choice([1, 4, 10]))
    histogram = Histogram.from_arrays(np.arange(keys), counts, buckets=buckets).trimmed(
        int(rng.integers(0, 40))
    )
    if rng.random() < 0.2:
        return histogram, slots, None
    heavy = rng.permutation(45)[: rng.integers(0, 20)]
    places = rng.integers(0, max(1, before // int(rng.choice([1, 3]))), buckets + len(heavy))
    previous = RoutingTable.build(
        before, places[:buckets], heavy=heavy, heavy_slots=places[buckets:], key_type=pa.int64()
    )
    return histogram, slots, previous


def test_equals_the_listing_for_growing_and_shrinking_n() -> None:
    for seed in range(500):
        rng = np.random.default_rng(seed)
        histogram, slots, previous = random_case(rng)
        lam, epsilon = rng.choice([0.5, 1.0, 2.0, 4.0]), rng.choice([0.0, 0.001, 0.05])
        table = make_table("kip", histogram, slots, previous, lam=lam, epsilon=epsilon)
        before = previous or RoutingTable.hashed(slots, histogram.buckets)
        hashes, weights = histogram.hashes[: int(np.ceil(lam * slots))], histogram.tracked.weights
        keys, hosts = kip_update(
            before.slot_of_hashes(hashes).tolist(),
            before.buckets.tolist(),
            (hashes % histogram.buckets).tolist(),
            [float(w / histogram.total) for w in weights[: len(hashes)]],
            float((histogram.total - weights[: len(hashes)].sum()) / histogram.total),
            slots,
            float(epsilon),
        )
        assert table.buckets.tolist() == hosts, seed
        assert table.hashes.tolist() == sorted(hashes.tolist()), seed
        assert table.slot_of_hashes(hashes).tolist() == keys, seed


def test_a_heavy_key_that_does_not_fit_goes_where_it_would_be_when_light_again() -> None:
    # Both keys are on slot 0, which the first fills; slot 1 is as empty as slot 2, the second key's own.
    histogram = Histogram.from_counts({0: 50, 1: 40, 2: 10}, buckets=16).trimmed(2)
    buckets = np.zeros(16, dtype=int)
    buckets[hash_keys([1]) % 16] = 2
    previous = RoutingTable.build(3, buckets, heavy=np.array([0, 1]), heavy_slots=[0, 0])
    assert make_table("kip", histogram, 3, previous).heavy == {0: 0, 1: 2}


def test_a_slot_may_be_loaded_to_the_level_exactly() -> None:
    # Eight equal hosts on slot 0; MAXLOAD is 1/2 + 1/8, five hosts.
    histogram = Histogram.from_arrays(np.arange(100), np.ones(100), buckets=8).trimmed(0)
    previous = RoutingTable.build(2, np.zeros(8, dtype=int), key_type=pa.int64())
    table = make_table("kip", histogram, 2, previous, epsilon=0.125)
    assert table.buckets.tolist() == [1, 1, 1, 0, 0, 0, 0, 0]


def level(histogram: Histogram, slots: int, epsilon: float) -> float:
    return max(histogram.heaviest_share, 1 / slots) + epsilon


@pytest.mark.parametrize("slots", [2, 5, 20, 60])
@pytest.mark.parametrize("exponent", [0.8, 1.0, 1.5])
def test_no_slot_exceeds_the_level_in_the_loads_that_kip_assumes(slots: int, exponent: float) -> None:
    histogram = zipf(20_000, exponent)
    table = make_table("kip", histogram, slots)
    heavy = histogram.tracked.weights[: 2 * slots] / histogram.total
    host_load = (1 - heavy.sum()) / histogram.buckets
    loads = np.bincount(table.buckets, minlength=slots) * host_load
    loads += np.bincount(table.slot_of_hashes(histogram.hashes[: 2 * slots]), heavy, slots)
    assert loads.max() <= level(histogram, slots, 0.001) + 1e-12


def test_the_first_table_without_skew_is_plain_hashing() -> None:
    histogram = Histogram.from_arrays(np.arange(8), np.ones(8), buckets=64).trimmed(0)
    assert make_table("kip", histogram, 4).same_routes(RoutingTable.hashed(4, 64, histogram.key_type))


def test_real_loads_are_far_better_balanced_than_by_hash() -> None:
    histogram = zipf(100_000, 1.0)
    by_kip = imbalance(slot_loads(make_table("kip", histogram, 10), histogram))
    by_hash = imbalance(slot_loads(make_table("hash", histogram, 10), histogram))
    assert by_kip < 1.15 < 1.3 < by_hash


def test_the_same_load_again_moves_nothing() -> None:
    histogram = zipf(20_000, 1.2)
    first = make_table("kip", histogram, 20)
    assert len(migration(first, make_table("kip", histogram, 20, first), histogram)) == 0


def test_growing_by_one_slot_moves_about_one_slot_of_state() -> None:
    histogram = zipf(100_000, 0.8)
    first = make_table("kip", histogram, 9)
    grown = make_table("kip", histogram, 10, first)
    assert 0.08 < migration(first, grown, histogram).state_share < 0.15
    assert imbalance(slot_loads(grown, histogram)) < 1.1


def test_shrinking_by_one_slot_moves_little_more_than_that_slot() -> None:
    histogram = zipf(100_000, 0.8)
    first = make_table("kip", histogram, 10)
    shrunk = make_table("kip", histogram, 9, first)
    assert 0.09 < migration(first, shrunk, histogram).state_share < 0.15


def test_a_key_heavier_than_the_mean_keeps_hosts_out_of_its_slot() -> None:
    histogram = zipf(20_000, 2.0)  # f₁ ≈ 0.6: MAXLOAD is f₁ + ε, so only ε of hosts may stay with it
    table = make_table("kip", histogram, 10)
    loads = slot_loads(table, histogram) / histogram.total
    assert loads.max() < histogram.heaviest_share + 0.002


@pytest.mark.parametrize("options", [{"lam": 0}, {"lam": -1.0}, {"lam": float("nan")}, {"epsilon": -0.1}])
def test_bad_options_are_refused_by_name(options: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        make_table("kip", zipf(10, 1.0, buckets=64), 2, **options)
