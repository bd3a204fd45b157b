from __future__ import annotations

import numpy as np

from research.papers.kip.hashing import PARALLELISM, UPDATES
from research.papers.kip.mixed import mixed_loads
from research.papers.running import compute


def test_kip_stays_near_the_bound_where_hash_does_not() -> None:
    record = compute(PARALLELISM, slots=[20, 50], runs=3, records=400_000, keys=20_000)
    over = record.results["over the bound"]
    assert max(over["KIP, λ = 2"]) <= 1.11
    assert max(over["Hash"]) > 1.15
    assert np.all(np.array(over["KIP, λ = 2"]) < np.array(over["Readj"]))


def test_kip_improves_on_hash_over_batches_of_tags() -> None:
    record = compute(UPDATES, rounds=1, batches=4, size=20_000, slots=10)
    ours, hashed = (np.mean(record.results["imbalance"][name][1:]) for name in ("KIP", "Hash"))
    assert ours < 0.8 * hashed
    assert record.results["moved"]["Hash"] == [0.0] * 4
    first, *later = record.results["moved"]["KIP"]
    assert first > max(later), "leaving plain hashing moves most"
    assert record.results == compute(UPDATES, rounds=1, batches=4, size=20_000, slots=10).results


def test_mixed_moves_no_more_keys_than_it_has_rows_and_balances_better_than_hashing() -> None:
    random = np.random.default_rng(3)
    counts = np.sort(random.zipf(1.6, 2_000) % 5_000)[::-1]
    hashed = random.integers(0, 10, len(counts))
    plain = np.bincount(hashed, counts, 10)
    placed = mixed_loads(hashed, counts, slots=10, rows=20)
    assert placed.sum() == counts.sum()
    assert max(counts.max(), counts.sum() / 10) <= placed.max() < plain.max()
    assert mixed_loads(hashed, counts, slots=10, rows=1).max() >= placed.max()


def test_mixed_without_skew_leaves_hashing_alone() -> None:
    hashed = np.repeat(np.arange(4), 25)
    assert mixed_loads(hashed, np.ones(100, np.int64), slots=4, rows=8).tolist() == [25.0] * 4
