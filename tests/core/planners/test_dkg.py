from __future__ import annotations

import numpy as np
import pytest

from tests.core.listings.dkg import build
from unskew.core.histogram import Histogram
from unskew.core.loads import imbalance, lower_bound, slot_loads
from unskew.core.plan import make_table
from unskew.core.planners.parts.universal_hash import bucket_numbers, draw

BUCKETS = 32


def histogram_of(figures: list[int]) -> tuple[Histogram, dict[int, float]]:
    """The histogram, and its keys' frequencies by hash, heaviest first as the histogram lists them."""
    histogram = Histogram.from_arrays(np.arange(len(figures)), figures, buckets=BUCKETS)
    return histogram, dict(zip(histogram.hashes.tolist(), histogram.tracked.weights.tolist(), strict=True))


def zipf(exponent: float, keys: int = 10_000, draws: int = 100_000, seed: int = 0) -> Histogram:
    p = np.arange(1, keys + 1.0) ** -exponent
    drawn = np.random.default_rng(seed).multinomial(draws, p / p.sum())
    return Histogram.from_arrays(np.arange(keys), drawn)


def test_equals_the_listing() -> None:
    for seed in range(200):
        rng = np.random.default_rng(seed)
        histogram, frequencies = histogram_of(rng.integers(1, 64, rng.integers(1, 30)).tolist())
        slots, theta = int(rng.integers(1, 7)), float(rng.choice([0.02, 0.1, 0.3, 1.0]))
        mu = float(rng.choice([0.0, 1.0, 1.5, 2.0, 5.0])) or None
        cells = BUCKETS if mu is None else int(np.ceil(slots * mu))
        group = np.arange(BUCKETS) if mu is None else draw(cells, seed)(bucket_numbers(BUCKETS))
        cost = str(rng.choice(["linear", "quadratic"]))
        rows, cell_slots = build(
            frequencies, lambda h, g=group: int(g[h % BUCKETS]), cells, slots, theta, cost == "quadratic"
        )
        table = make_table("dkg", histogram, slots, theta=theta, mu=mu, seed=seed, cost=cost)
        assert table.choices.tolist() == [rows[h][0] for h in table.hashes.tolist()], seed
        assert len(table.hashes) == len(rows), seed
        assert table.buckets.tolist() == [cell_slots[g] for g in group], seed


@pytest.mark.parametrize("choices", [2, 3])
def test_with_pkg_equals_the_listing_with_heavy_hitters_in_parts(choices: int) -> None:
    for seed in range(100):
        rng = np.random.default_rng(seed)
        figures = 6 * rng.integers(1, 64, rng.integers(1, 30))  # parts of whole numbers are exact
        histogram, frequencies = histogram_of(figures.tolist())
        slots, theta = int(rng.integers(1, 7)), float(rng.choice([0.05, 0.3]))
        group = draw(2 * slots, seed)(bucket_numbers(BUCKETS))
        rows, cell_slots = build(
            frequencies, lambda h, g=group: int(g[h % BUCKETS]), 2 * slots, slots, theta, parts=choices
        )
        table = make_table("dkg-pkg", histogram, slots, theta=theta, choices=choices, seed=seed)
        assert table.choices.reshape(-1, choices).tolist() == [rows[h] for h in table.hashes.tolist()], seed
        assert len(table.hashes) == len(rows), seed
        assert table.buckets.tolist() == [cell_slots[g] for g in group], seed


def test_wosim_schedules_heavy_keys_alone_and_hashes_the_buckets() -> None:
    histogram = Histogram.from_counts({0: 30, 1: 25, 2: 20, 3: 15, 4: 10}, buckets=64)
    table = make_table("dkg-wosim", histogram, 2, theta=0.15, seed=3)
    assert table.heavy == {0: 0, 1: 1, 2: 1, 3: 0}
    assert table.buckets.tolist() == draw(2, 3)(bucket_numbers(64)).tolist()


@pytest.mark.parametrize("slots", [2, 3, 5, 10])
def test_a_key_above_the_mean_is_alone_and_the_imbalance_the_least_possible(slots: int) -> None:
    histogram = zipf(2.0)
    table = make_table("dkg", histogram, slots)
    loads = slot_loads(table, histogram)
    alone = int(table.slot_of([0])[0])
    assert loads[alone] == histogram.tracked.weights[0]
    assert imbalance(loads) == pytest.approx(lower_bound(histogram, slots))


def test_scheduling_the_buckets_is_what_balances_them() -> None:
    histogram = zipf(1.0)
    worst = {
        name: max(
            imbalance(slot_loads(make_table(name, histogram, 10, seed=s), histogram)) for s in range(20)
        )
        for name in ("dkg", "dkg-wosim")
    }
    assert worst["dkg"] < worst["dkg-wosim"]


def test_finer_groups_balance_better_and_all_buckets_nearly_perfectly() -> None:
    histogram = zipf(1.0)

    def mean_imbalance(mu: float | None) -> float:
        tables = [make_table("dkg", histogram, 5, mu=mu, theta=0.05, seed=s) for s in range(20)]
        return float(np.mean([imbalance(slot_loads(table, histogram)) for table in tables]))

    assert mean_imbalance(None) < 1.005 < mean_imbalance(8.0) < mean_imbalance(1.0)


def test_quadratic_cost_balances_squared_loads() -> None:
    # Linear, the last 3 joins the 5 (5 < 3 + 3). Squared, it joins the two others (9 + 9 < 25).
    histogram = Histogram.from_counts({0: 5, 1: 3, 2: 3, 3: 3}, buckets=4)
    linear = make_table("dkg", histogram, 2, theta=0.01, mu=None)
    squared = make_table("dkg", histogram, 2, theta=0.01, mu=None, cost="quadratic")
    assert sorted(slot_loads(linear, histogram).tolist()) == [6.0, 8.0]
    assert sorted(slot_loads(squared, histogram).tolist()) == [5.0, 9.0]


def test_oracle_places_every_tracked_key_and_bucket_longest_first() -> None:
    histogram, frequencies = histogram_of([7, 5, 4, 4, 3, 2, 2, 1])
    rows, cells = build(frequencies, lambda h: h % BUCKETS, BUCKETS, 3, theta=1e-9)
    table = make_table("oracle", histogram, 3)
    assert {h: [s] for h, s in zip(table.hashes.tolist(), table.heavy_slots.tolist(), strict=True)} == rows
    assert table.buckets.tolist() == cells


def test_dkg_with_pkg_halves_what_a_hot_key_costs() -> None:
    histogram = zipf(2.0)
    whole = imbalance(slot_loads(make_table("dkg", histogram, 10), histogram))
    halved = imbalance(slot_loads(make_table("dkg-pkg", histogram, 10), histogram))
    assert halved == pytest.approx(whole / 2, rel=0.01)


def test_both_halves_of_a_heavy_key_may_share_a_slot() -> None:
    histogram = Histogram.from_counts({0: 10}, buckets=4)
    assert make_table("dkg-pkg", histogram, 1, mu=1.0).heavy == {0: (0, 0)}


def test_dkg_ignores_the_previous_table() -> None:
    histogram = zipf(1.0, keys=500)
    previous = make_table("hash", histogram, 4)
    assert make_table("dkg", histogram, 4, previous).same_routes(make_table("dkg", histogram, 4))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("dkg", {"theta": 0}),
        ("dkg", {"theta": 1.5}),
        ("dkg", {"mu": 0.5}),
        ("dkg", {"mu": float("nan")}),
        ("dkg", {"mu": 17.0}),
        ("dkg", {"cost": "cubic"}),
        ("dkg-wosim", {"theta": -1}),
        ("dkg-pkg", {"choices": 1}),
        ("dkg-pkg", {"choices": 2.0}),
    ],
)
def test_bad_options_are_refused_by_name(name: str, options: dict[str, object]) -> None:
    histogram = Histogram.from_counts({0: 1}, buckets=32)
    with pytest.raises(ValueError, match=next(iter(options))):
        make_table(name, histogram, 2, **options)
