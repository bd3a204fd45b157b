from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.listings.kip import kip_update
from unskew.core.histogram import Histogram
from unskew.core.loads import imbalance, migration, slot_loads
from unskew.core.planning import make_table
from unskew.core.routing import RoutingTable


def zipf(keys: int, exponent: float, *, seed: int = 0, buckets: int = 4096, draws: int = 10**6) -> Histogram:
    rng = np.random.default_rng(seed)
    p = np.arange(1, keys + 1.0) ** -exponent
    counts = rng.multinomial(draws, p / p.sum())
    return Histogram.from_arrays(np.arange(keys), counts, buckets=buckets)


@st.composite
def cases(draw: st.DrawFn) -> tuple[Histogram, int, RoutingTable | None]:
    buckets = draw(st.sampled_from([8, 16, 30]))
    counts = draw(st.lists(st.integers(0, 60), min_size=1, max_size=40).filter(any))
    tracked = draw(st.integers(0, 40))
    histogram = Histogram.from_arrays(np.arange(len(counts)), counts, buckets=buckets).trimmed(tracked)
    slots = st.integers(1, 8)
    if draw(st.booleans()):
        return histogram, draw(slots), None
    before = draw(slots)
    places = st.integers(0, before - 1)
    table = draw(st.lists(places, min_size=buckets, max_size=buckets))
    heavy = draw(st.dictionaries(st.integers(0, 45), places, max_size=12))
    keys = np.array(list(heavy), dtype=np.int64)
    previous = RoutingTable.build(before, table, heavy=keys, heavy_slots=list(heavy.values()))
    return histogram, draw(slots), previous if len(heavy) else RoutingTable.build(before, table)


@given(cases(), st.sampled_from([0.5, 1.0, 2.0, 4.0]), st.sampled_from([0.0, 0.001, 0.05]))
def test_equals_the_listing_for_growing_and_shrinking_n(
    case: tuple[Histogram, int, RoutingTable | None], lam: float, epsilon: float
) -> None:
    histogram, slots, previous = case
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
        epsilon,
    )
    assert table.buckets.tolist() == hosts
    assert table.hashes.tolist() == sorted(hashes.tolist())
    assert table.slot_of_hashes(hashes).tolist() == keys


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
def test_nonsense_options_are_refused_by_name(options: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        make_table("kip", zipf(10, 1.0, buckets=64), 2, **options)
