"""What is concluded from a sample of keys, without Spark: totals, buckets, distinct keys, the output of a join."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from unskew.core.hashing import buckets_of, hash_keys
from unskew.core.histogram import Floats, Histogram
from unskew.core.join_load import matched_load
from unskew.core.plan import Plan
from unskew.spark.keys import KeyColumns
from unskew.spark.sampling import KeySample, _stand_for, histogram_of_sample

BUDGET, BUCKETS, PARTITIONS = 2_000, 512, 4
KEYS = 50_000


def sampled(
    keys: np.ndarray, loads: Floats | None = None, *, seed: int = 0, buckets: int = BUCKETS
) -> Histogram:
    """The histogram of a sample of these records, drawn as Spark draws it."""
    random = np.random.default_rng(seed)
    rows = np.arange(len(keys)) // PARTITIONS
    partitions = np.arange(len(keys)) % PARTITIONS
    quota = BUDGET / (partitions + 1)
    drawn = (rows < quota) | (random.random(len(keys)) * (rows + 1) < quota)
    numbers = (partitions[drawn] << 33) + rows[drawn]
    values = pa.array(keys[drawn])
    load = np.ones(len(keys)) if loads is None else loads
    sample = KeySample([hash_keys(values)], [values], load[drawn], _stand_for(numbers, BUDGET))
    columns = KeyColumns(("k",), pa.int64(), (), ("k",), ())
    return histogram_of_sample(sample, 0, columns, buckets, tracked=1024)


def records(of_each: int) -> np.ndarray:
    """So many records of every key, in any order."""
    return np.random.default_rng(1).permutation(np.repeat(np.arange(KEYS), of_each))


def bucket_loads(keys: np.ndarray) -> Floats:
    homes = buckets_of(hash_keys(pa.array(keys)), BUCKETS)
    return np.bincount(homes, minlength=BUCKETS).astype(float)


def test_a_sample_stands_for_all_records() -> None:
    histogram = sampled(records(10))
    assert histogram.total == pytest.approx(10 * KEYS, rel=0.05)
    assert histogram.sampled < 0.1


def test_keys_that_are_equally_frequent_are_not_told_apart_by_chance() -> None:
    keys = records(10)
    histogram, true = sampled(keys), bucket_loads(keys)
    assert not len(histogram.keys)
    error = np.sqrt(np.mean((histogram.rest.weights / true - 1.0) ** 2))
    assert error < 1.5 * true.std() / true.mean()


@pytest.mark.parametrize("busier", [2, 10, 40])
def test_where_buckets_differ_a_plan_balances_what_they_have(busier: int) -> None:
    every = np.arange(KEYS)
    busy = every[buckets_of(hash_keys(pa.array(every)), BUCKETS) < BUCKETS // 2]
    keys = np.random.default_rng(2).permutation(np.concatenate([every, np.repeat(busy, busier - 1)]))
    plan = Plan.make(sampled(keys), 16, "keel")
    slots = np.bincount(plan.table.slot_of(keys), minlength=16)
    assert slots.max() / slots.mean() < 1.12


def test_a_hot_key_is_tracked_and_has_its_load() -> None:
    keys = np.random.default_rng(3).permutation(np.concatenate([records(9), np.full(KEYS, -1)]))
    histogram = sampled(keys)
    assert histogram.keys.to_pylist() == [-1]
    assert histogram.tracked.counts[0] == pytest.approx(KEYS, rel=0.1)


def test_a_key_with_one_heavy_record_is_tracked() -> None:
    keys = records(10)
    loads = np.ones(len(keys))
    loads[5] = 1e6
    histogram = sampled(keys, loads)
    assert histogram.keys.to_pylist() == [int(keys[5])]
    assert histogram.tracked.weights[0] >= 1e6


@pytest.mark.parametrize("of_each", [1, 3, 10])
def test_keys_that_were_not_drawn_are_counted(of_each: int) -> None:
    assert sampled(records(of_each)).distinct == pytest.approx(KEYS, rel=0.1)


@pytest.mark.parametrize("buckets", [64, BUCKETS, 32_768])
def test_the_output_of_a_join_is_that_of_its_keys(buckets: int) -> None:
    """Also where there are more buckets than sampled records."""
    left, right = sampled(records(10), buckets=buckets), sampled(records(1), seed=4, buckets=buckets)
    emitted = matched_load(left, right, "inner").total - left.total - right.total
    assert emitted == pytest.approx(10 * KEYS, rel=0.2)
