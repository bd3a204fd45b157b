import math
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.listings import sketches as listings
from tests.core.sketches import sketch_cases as cases
from unskew.core.hashing import hash_keys
from unskew.core.sketches import LossyCounter, batch

ROUNDING = 1 + 1e-12
epsilons = st.sampled_from([0.5, 0.3, 0.1, 0.04])


def counted(stream: list[cases.Records], epsilon: float) -> LossyCounter:
    counter = LossyCounter(epsilon)
    for records in stream:
        counter.update(records.hashes, records.weights)
    return counter


def assert_guarantee(counter: LossyCounter, stream: list[cases.Records]) -> None:
    true, total = cases.exact(stream)
    assert counter.total == total
    slack = counter.epsilon * total * ROUNDING
    tracked = counter.items()
    for key, lower, error in cases.rows(tracked):
        assert true[key] - slack <= lower <= true[key] <= (lower + error) * ROUNDING
        assert error <= slack
    absent = [f for key, f in true.items() if key not in set(tracked.hashes.tolist())]
    assert max(absent, default=0.0) <= counter.absent_bound * ROUNDING
    assert counter.absent_bound <= slack


@given(cases.batched_streams, epsilons)
def test_bounds_hold_after_every_batch(stream, epsilon):
    counter = LossyCounter(epsilon)
    for n, records in enumerate(stream, start=1):
        counter.update(records.hashes, records.weights)
        assert_guarantee(counter, stream[:n])


@given(cases.streams, epsilons)
def test_the_papers_listing_has_the_same_guarantee(stream, epsilon):
    true, slack = Counter(stream), epsilon * len(stream)
    entries = listings.lossy_counting(stream, math.ceil(1 / epsilon))
    assert all(true[key] - slack <= c_a <= true[key] <= c_a + c_e for key, (c_a, c_e) in entries.items())
    assert {key for key, f in true.items() if f > slack} <= set(entries)


@given(cases.streams, epsilons)
def test_one_record_at_a_time_equals_the_papers_listing(stream, epsilon):
    counter = LossyCounter(epsilon)
    for key in stream:
        counter.update(np.array([key]))
    entries = {key: (lower, error) for key, lower, error in cases.rows(counter.items())}
    assert entries == listings.lossy_counting(stream, counter.window)


@given(cases.streams, st.sampled_from([0.3, 0.1, 0.04]), st.floats(0, 1))
def test_query_lists_every_frequent_key_and_no_more_than_the_paper(stream, epsilon, threshold):
    counter = LossyCounter(epsilon)
    for key in stream:
        counter.update(np.array([key]))
    answer = set(counter.query(threshold).hashes.tolist())
    if threshold > epsilon:
        assert {k for k, f in Counter(stream).items() if f / len(stream) >= threshold} <= answer
    entries = listings.lossy_counting(stream, counter.window)
    # c_a >= (δ - ε) m, a hair below so that rounding of the product does not count
    assert answer <= listings.lossy_answer(entries, threshold, epsilon + 1e-12, len(stream))


def test_query_is_heaviest_first_with_equal_ones_by_hash():
    counter = LossyCounter(0.01)
    counter.update(np.array([5, 9, 9, 3, 7, 7, 7]))
    assert counter.query(0.0).hashes.tolist() == [7, 9, 3, 5]
    assert counter.query(2 / 7).hashes.tolist() == [7, 9]
    assert counter.query(1.0).hashes.tolist() == []


@given(st.lists(cases.few_keys, max_size=60), st.data())
def test_a_weight_counts_for_that_many_records(keys, data):
    weights = np.array([data.draw(st.integers(0, 5)) for _ in keys], dtype=np.int64)
    weighted, repeated = LossyCounter(0.1), LossyCounter(0.1)
    hashes = np.array(keys, np.int64)
    weighted.update(hashes, weights)
    repeated.update(np.repeat(hashes, weights))
    assert cases.rows(weighted.items()) == cases.rows(repeated.items())


@pytest.mark.parametrize("size", [1, 37])
def test_memory_is_logarithmic_on_the_hardest_stream(size):
    # Keys that come just often enough to survive: in the j-th window from the end w/j of them, j times.
    counter = LossyCounter(0.01)
    w, windows, fresh = counter.window, 60, iter(range(10**9))
    stream = []
    for age in range(windows, 0, -1):
        newcomers = [next(fresh) for _ in range(w // (age + 1))]
        stream += (newcomers * (age + 1))[:w] + [next(fresh) for _ in range(w - len(newcomers) * (age + 1))]
    largest = 0
    for first in range(0, len(stream), size):
        counter.update(np.array(stream[first : first + size]))
        largest = max(largest, len(counter))
    assert 3 * w < largest <= w * (2 + math.log(len(stream) / w))


def test_memory_stays_bounded_when_weights_are_tiny():
    counter = LossyCounter(0.01)
    for first in range(0, 20_000, 10):
        counter.update(np.arange(first, first + 10), np.full(10, 2.0**-20))
        assert len(counter) < 2 * counter.window
    assert counter.total < 1


def test_a_large_batch_is_counted_in_chunks(monkeypatch):
    hashes = cases.zipf(1.0, 5000, 2000)
    monkeypatch.setattr(batch, "CHUNK", 700)
    whole = counted([cases.Records(hashes, None)], 0.01)
    in_parts = counted([cases.Records(hashes[i : i + 700], None) for i in range(0, 5000, 700)], 0.01)
    assert cases.rows(whole.items()) == cases.rows(in_parts.items())
    assert_guarantee(whole, [cases.Records(hashes, None)])


def test_a_long_zipf_stream():
    hashes = cases.zipf(1.1, 10**6, 10**5)
    counter = LossyCounter(1e-3)
    for part in np.array_split(hashes, 7):
        counter.update(part)
    keys, true = np.unique(hashes, return_counts=True)
    items = counter.items()
    f = true[np.searchsorted(keys, items.hashes)]
    assert np.all(f - 1e-3 * 10**6 <= items.lower)
    assert np.all(items.lower <= f)
    assert np.all(f <= items.upper * ROUNDING)
    assert set(keys[true > 1e-3 * 10**6]) <= set(items.hashes)
    assert len(counter) < 1000 * (2 + math.log(1000))


@given(cases.batched_streams, cases.batched_streams, cases.batched_streams, epsilons)
def test_merging_keeps_the_guarantee_in_any_order(left, middle, right, epsilon):
    a, b, c = (counted(stream, epsilon) for stream in (left, middle, right))
    before = cases.rows(a.items())
    assert_guarantee(a.merge(b), left + middle)
    assert cases.rows(a.merge(b).items()) == cases.rows(b.merge(a).items())
    assert_guarantee(a.merge(b).merge(c), left + middle + right)
    assert_guarantee(a.merge(b.merge(c)), left + middle + right)
    assert cases.rows(a.items()) == before


@given(cases.batched_streams, cases.batched_streams, cases.batches())
def test_a_merged_counter_counts_on(left, right, more):
    merged = counted(left, 0.1).merge(counted(right, 0.1))
    merged.update(more.hashes, more.weights)
    assert_guarantee(merged, [*left, *right, more])


@given(cases.batched_streams, cases.batched_streams)
def test_coarsening_bounds_a_merged_counter(left, right):
    coarse = counted(left, 0.04).merge(counted(right, 0.04)).coarsened(0.08)
    assert_guarantee(coarse, left + right)
    w, coarse_w = 25, 13
    assert len(coarse) < w * coarse_w / (w - coarse_w)


def test_coarsening_bounds_what_many_partitions_tracked():
    # In each partition 50 keys of their own come twice in the second window of 100, and survive it.
    parts = [np.r_[np.zeros(100, np.int64), np.repeat(np.arange(50) + 50 * p + 1, 2)] for p in range(30)]
    merged = LossyCounter(0.01)
    for part in parts:
        counter = LossyCounter(0.01)
        for half in np.split(part, 2):
            counter.update(half)
        merged = merged.merge(counter)
    assert len(merged) == 1 + 30 * 50
    assert merged.coarsened(0.02).items().hashes.tolist() == [0]


@pytest.mark.parametrize(
    "values",
    [
        pa.array(["a", "b", None, "b", "dé", "b", ""]),
        pa.array([3, 3, -1, None, 2**62, 3, 0]),
        pa.array([{"x": 1, "y": "a"}, {"x": 1, "y": "b"}, {"x": None, "y": "a"}, {"x": 1, "y": "a"}]),
    ],
)
def test_tracked_keys_keep_their_value(values):
    counter, other = LossyCounter(0.1), LossyCounter(0.1)
    for n in range(1, 20):
        counter.update_keys(values)
        other.update_keys(values[-n:])
    for sketch in (counter, other, counter.merge(other), other.merge(LossyCounter(0.1)).coarsened(0.2)):
        items = sketch.items()
        assert len(items)
        assert items.keys.type == values.type
        assert hash_keys(items.keys).tolist() == items.hashes.tolist()


def test_key_values_follow_when_all_were_forgotten():
    counter = LossyCounter(0.5)
    counter.update_keys(["a", "b"])
    assert len(counter) == 0
    counter.update_keys(["c", "c", "c"])
    assert counter.items().keys.to_pylist() == ["c"]


def test_later_keys_are_converted_to_the_type_of_the_first():
    counter = LossyCounter(0.01)
    counter.update_keys(pa.array([1, 2], pa.int64()))
    counter.update_keys(pa.array([1, None], pa.int32()))
    assert counter.query(0.5).keys.to_pylist() == [1]
    assert counter.items().keys.type == pa.int64()


def test_keys_are_passed_in_every_call_or_in_none():
    counter, bare = LossyCounter(0.01), LossyCounter(0.01)
    counter.update_keys(["a"])
    bare.update(np.array([1]))
    with pytest.raises(ValueError, match="in every call or in none"):
        counter.update(np.array([1]))
    with pytest.raises(ValueError, match="in every call or in none"):
        bare.update_keys(["a"])
    with pytest.raises(ValueError, match="in every call or in none"):
        bare.merge(counter)
    with pytest.raises(ValueError, match="the keys have type int64, but the sketch tracks string"):
        counter.update(np.array([1]), keys=pa.array([1]))
    with pytest.raises(ValueError, match="1 hashes but 2 keys"):
        counter.update(np.array([1]), keys=pa.array(["a", "b"]))
    assert (counter.total, bare.total) == (1.0, 1.0)


@pytest.mark.parametrize("weights", [[1.0, -1.0], [np.nan, 1.0], [1.0, np.inf], [1.0], [[1.0, 1.0]]])
def test_bad_weights_are_refused_and_change_nothing(weights):
    counter = LossyCounter(0.1)
    with pytest.raises(ValueError, match="weights"):
        counter.update(np.array([1, 2]), weights)
    assert (counter.total, len(counter)) == (0.0, 0)


@pytest.mark.parametrize(
    "hashes", [np.array([1.0]), np.array(["a"]), np.array([[1]]), np.array([1], np.int32)]
)
def test_only_64_bit_hashes_are_accepted(hashes):
    with pytest.raises(ValueError, match="int64"):
        LossyCounter(0.1).update(hashes)


@pytest.mark.parametrize("epsilon", [0.0, 1.0, -0.1, math.nan])
def test_epsilon_is_a_share(epsilon):
    with pytest.raises(ValueError, match="epsilon"):
        LossyCounter(epsilon)


@pytest.mark.parametrize("threshold", [-0.1, 1.1, math.nan])
def test_threshold_is_a_share(threshold):
    with pytest.raises(ValueError, match="threshold"):
        LossyCounter(0.1).query(threshold)


def test_counters_of_different_epsilon_do_not_merge():
    with pytest.raises(ValueError, match="coarsen"):
        LossyCounter(0.1).merge(LossyCounter(0.2))
    with pytest.raises(ValueError, match="as fine as"):
        LossyCounter(0.1).coarsened(0.05)


def test_nothing_counted_is_an_empty_answer():
    counter = LossyCounter(0.1)
    counter.update(np.zeros(0, np.int64))
    counter.update(np.array([4, 5]), [0.0, 0.0])
    assert (len(counter), counter.total, counter.absent_bound) == (0, 0.0, 0.0)
    assert len(counter.query(0.0)) == 0
    assert len(counter.merge(counter)) == 0
