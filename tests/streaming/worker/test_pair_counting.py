"""Pairs of keys, counted in the record batches that pass through."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

from unskew.streaming.worker import pair_counting
from unskew.streaming.worker.pair_counting import PairCounter


def batches(a: np.ndarray, b: np.ndarray, size: int) -> Iterator[pa.RecordBatch]:
    """Record batches as the packer gets them: the next key's hash, another column, the previous key's hash."""
    for start in range(0, len(a), size):
        part = slice(start, start + size)
        body = pa.array(["x"] * len(a[part]))
        yield pa.record_batch([pa.array(b[part]), body, pa.array(a[part])], ["next", "body", "before"])


def test_every_pair_is_counted_and_the_last_column_dropped() -> None:
    random = np.random.default_rng(0)
    a, b = random.integers(0, 9, 5000), random.integers(100, 109, 5000)
    counter = PairCounter()
    passed = list(counter.count(batches(a, b, 300)))
    assert [batch.schema.names for batch in passed] == [["next", "body"]] * len(passed)
    assert sum(batch.num_rows for batch in passed) == 5000
    pairs = counter.histogram()
    expected = Counter(zip(a.tolist(), b.tolist(), strict=True))
    rows = zip(pairs.hashes_a.tolist(), pairs.hashes_b.tolist(), pairs.counts.tolist(), strict=True)
    assert {(hash_a, hash_b): n for hash_a, hash_b, n in rows} == expected
    assert pairs.total == 5000


def test_many_records_are_sampled_at_random(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pair_counting, "SAMPLED", 2000)
    a = np.zeros(40_000, np.int64)
    b = np.arange(40_000) % 2  # every second record would all have the same key
    counter = PairCounter()
    for _ in counter.count(batches(a, b, 7)):
        pass
    pairs = counter.histogram()
    assert pairs.total == pytest.approx(40_000, rel=0.2)
    assert pairs.counts.tolist() == pytest.approx([20_000, 20_000], rel=0.25)


def test_nothing_passed() -> None:
    counter = PairCounter()
    assert list(counter.count(iter([]))) == []
    assert len(counter.histogram()) == 0
