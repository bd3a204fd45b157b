from __future__ import annotations

import numpy as np
import pytest

from research.papers.dkg import keyed
from research.papers.dkg.instances import COEFFICIENTS, PARTIAL, TABLE, fit
from research.papers.dkg.trace import readings_by_place, tuples_by_cell
from research.papers.dkg.tuning import LEARNED
from research.papers.running import compute
from tests.core.listings.dkg import build
from unskew.core.planners.parts.universal_hash import draw


def test_table_1_of_the_paper() -> None:
    record = compute(COEFFICIENTS, runs=25)
    coefficients = {name: fit(record, name) for name in TABLE}
    assert coefficients["SIA"] == pytest.approx((100, -100))
    assert coefficients["O-apx"] == pytest.approx((60.8, -100), abs=0.5)
    assert coefficients["DKG"] == pytest.approx(coefficients["O-apx"], abs=0.1)
    assert coefficients["DKG worst"][0] < 63
    assert coefficients["Universal"] == pytest.approx((60.7, -60.7), abs=6)
    assert coefficients["Universal worst"][0] > 70


def test_both_candidates_of_a_heavy_value_halve_the_imbalance() -> None:
    lines = compute(PARTIAL, runs=3).results["lines"]
    assert lines["DKG PKG"]["λ"][-1] < lines["DKG"]["λ"][-1] / 2


def test_every_reading_gives_a_tuple_in_each_grid() -> None:
    readings = np.random.default_rng(0).multinomial(10_000, readings_by_place(focus=0.79))
    tuples = tuples_by_cell(readings)
    assert tuples.total == 40_000
    assert tuples.heaviest_share == pytest.approx(0.2, abs=0.01)


def test_a_larger_training_set_gives_a_lower_deviation() -> None:
    sigma = compute(LEARNED, runs=10, learned=[10, 80_000]).results["lines"]["Zipf-1"]["σ"]
    assert sigma[0] > sigma[1]


def test_keys_are_hashed_themselves_and_scheduled_as_the_listing_says() -> None:
    for seed in range(100):
        rng = np.random.default_rng(seed)
        keys = rng.choice(10**6, 30, replace=False)
        counts = 6.0 * rng.integers(0, 64, 30)
        slots, theta = int(rng.integers(1, 7)), float(rng.choice([0.02, 0.1, 0.3, 1.0]))
        mu, parts = float(rng.choice([1.0, 1.5, 2.0])), int(rng.integers(1, 3))
        cells = int(np.ceil(slots * mu))
        hashed = draw(cells, seed)
        frequencies = {int(k): float(c) for k, c in zip(keys, counts, strict=True) if c}
        rows, cell_slots = build(
            frequencies, lambda key, h=hashed: int(h(np.array([key]))[0]), cells, slots, theta, parts=parts
        )
        named = keyed.dkg(keys, counts, slots, seed, theta=theta, mu=mu, parts=parts)
        groups = hashed(keys).tolist()
        expected = [
            rows.get(key, [cell_slots[group]] * parts)
            for key, group in zip(keys.tolist(), groups, strict=True)
        ]
        assert named.tolist() == expected, seed


def test_universal_hashing_of_keys_never_puts_nearly_all_values_on_one_slot() -> None:
    keys = np.random.default_rng(0).choice(10**6, 10_000, replace=False)
    fullest = max(np.bincount(keyed.universal(keys, 2, seed)).max() for seed in range(2000))
    assert fullest < 5000 + 6 * np.sqrt(5000)
