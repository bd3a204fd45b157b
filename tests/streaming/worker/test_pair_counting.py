"""Pairs of keys, counted in the record batches that pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

from unskew.streaming.worker import pair_counting
from unskew.streaming.worker.pair_counting import PairCounter


def batches(a: np.ndarray, b: np.ndarray, size: int) -> Iterator[pa.RecordBatch]:
    """Record batches as the packer gets them: the next key's hash, a column of its own, the key before's hash."""
    for start in range(0, len(a), size):
        part = slice(start, start + size)
        body = pa.array(["x"] * len(a[part]))
        yield pa.record_batch([pa.array(b[part]), body, pa.array(a[part])], ["next", "body", "before"])


def test_every_pair_is_counted_and_the_last_column_dropped() -> None:
    random = np.random.default_rng(0)
    a, b = random.integers(0, 9, 5000), random.integers(100, 109, 5000)
    counter = PairCounter()
    passed = list(counter.watched(batches(a, b, 300)))
    assert [batch.schema.names for batch in passed] == [["next", "body"]] * len(passed)
    assert sum(batch.num_rows for batch in passed) == 5000
    found = counter.found()
    expected = Counter(zip(a.tolist(), b.tolist(), strict=True))
    rows = zip(found.hashes_a.tolist(), found.hashes_b.tolist(), found.counts.tolist(), strict=True)
    assert {(one, two): n for one, two, n in rows} == expected
    assert found.total == 5000


def test_of_many_records_a_random_part_stands_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pair_counting, "LOOKED", 2000)
    a = np.zeros(40_000, np.int64)
    b = np.arange(40_000) % 2  # every second record would be of one kind only
    counter = PairCounter()
    for _ in counter.watched(batches(a, b, 7)):
        pass
    found = counter.found()
    assert found.total == pytest.approx(40_000, rel=0.2)
    assert found.counts.tolist() == pytest.approx([20_000, 20_000], rel=0.25)


def test_nothing_passed() -> None:
    counter = PairCounter()
    assert list(counter.watched(iter([]))) == []
    assert len(counter.found()) == 0
