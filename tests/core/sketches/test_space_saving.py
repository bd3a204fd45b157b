from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.listings import sketches as listings
from tests.core.sketches import sketch_cases as cases
from unskew.core.hashing import hash_keys
from unskew.core.sketches import SpaceSaving, batch

capacities = st.integers(1, 12)


def counted(stream: list[cases.Records], capacity: int) -> SpaceSaving:
    sketch = SpaceSaving(capacity)
    for records in stream:
        sketch.update(records.hashes, records.weights)
    return sketch


def assert_guarantee(sketch: SpaceSaving, stream: list[cases.Records]) -> None:
    true, total = cases.exact(stream)
    assert sketch.total == total
    assert len(sketch) <= sketch.capacity
    tracked = sketch.items()
    for key, lower, error in cases.rows(tracked):
        assert lower <= true[key] <= lower + error <= true[key] + total / sketch.capacity
    absent = [f for key, f in true.items() if key not in set(tracked.hashes.tolist())]
    assert max(absent, default=0.0) <= sketch.absent_bound <= total / sketch.capacity
    assert tracked.upper.sum() <= total


@given(cases.batched_streams, capacities)
def test_bounds_hold_after_every_batch(stream, capacity):
    sketch = SpaceSaving(capacity)
    for n, records in enumerate(stream, start=1):
        sketch.update(records.hashes, records.weights)
        assert_guarantee(sketch, stream[:n])


@given(cases.streams, capacities)
def test_the_papers_algorithm_has_the_same_guarantee(stream, capacity):
    true, slack = Counter(stream), len(stream) / capacity
    counters = listings.space_saving(stream, capacity)
    assert all(n - e <= true[key] <= n <= true[key] + slack for key, (n, e) in counters.items())
    assert {key for key, f in true.items() if f > slack} <= set(counters)


@given(cases.streams, capacities)
def test_one_record_at_a_time_equals_the_papers_algorithm(stream, capacity):
    sketch = SpaceSaving(capacity)
    for key in stream:
        sketch.update(np.array([key]))
    counters = {key: (lower + error, error) for key, lower, error in cases.rows(sketch.items())}
    assert counters == listings.space_saving(stream, capacity)


@given(cases.batched_streams, capacities, st.floats(0, 1))
def test_query_lists_every_heavy_key_and_few_others(stream, capacity, threshold):
    true, total = cases.exact(stream)
    answer = counted(stream, capacity).query(threshold)
    if total and threshold > 1 / capacity:
        assert {key for key, f in true.items() if f / total >= threshold} <= set(answer.hashes.tolist())
    assert all(true[key] >= (threshold - 1 / capacity) * total - 1e-9 for key in answer.hashes.tolist())
    assert np.all(answer.upper >= threshold * total - 1e-9)


def test_query_includes_a_count_of_exactly_the_threshold():
    sketch = SpaceSaving(10)
    sketch.update(np.repeat([1, 2, 3, 4], [3, 3, 21, 3]))
    assert sketch.query(0.1).hashes.tolist() == [3, 1, 2, 4]
    assert sketch.query(0.7).hashes.tolist() == [3]


@given(cases.batches(), st.integers(0, 100), capacities)
def test_the_order_within_a_batch_has_no_effect(records, seed, capacity):
    order = np.random.default_rng(seed).permutation(len(records.hashes))
    weights = None if records.weights is None else records.weights[order]
    shuffled = cases.Records(records.hashes[order], weights)
    assert cases.rows(counted([records], capacity).items()) == cases.rows(
        counted([shuffled], capacity).items()
    )


@given(cases.batched_streams)
def test_counts_are_exact_while_every_key_has_a_counter(stream):
    true, _ = cases.exact(stream)
    sketch = counted(stream, capacity=64)
    present = {key: f for key, f in true.items() if f}
    assert {key: lower for key, lower, error in cases.rows(sketch.items())} == present
    assert not sketch.items().errors.any()


def test_a_large_batch_is_counted_in_chunks(monkeypatch):
    hashes = cases.zipf(1.0, 5000, 2000)
    monkeypatch.setattr(batch, "CHUNK", 700)
    whole = counted([cases.Records(hashes, None)], 100)
    in_parts = counted([cases.Records(hashes[i : i + 700], None) for i in range(0, 5000, 700)], 100)
    assert cases.rows(whole.items()) == cases.rows(in_parts.items())
    assert_guarantee(whole, [cases.Records(hashes, None)])


def test_a_long_zipf_stream():
    hashes = cases.zipf(1.1, 10**6, 10**5)
    sketch = SpaceSaving(1000)
    for part in np.array_split(hashes, 7):
        sketch.update(part)
    keys, true = np.unique(hashes, return_counts=True)
    items = sketch.items()
    f = true[np.searchsorted(keys, items.hashes)]
    assert np.all(items.lower <= f)
    assert np.all(f <= items.upper)
    assert np.all(items.upper <= f + 1000)
    assert set(keys[true > 1000]) <= set(items.hashes)
    heaviest = keys[np.argsort(-true)[:20]]
    assert items.hashes[:20].tolist() == heaviest.tolist()


@given(cases.batched_streams, cases.batched_streams, cases.batched_streams, capacities)
def test_merging_keeps_the_guarantee_in_any_order(left, middle, right, capacity):
    a, b, c = (counted(stream, capacity) for stream in (left, middle, right))
    before = cases.rows(a.items())
    assert_guarantee(a.merge(b), left + middle)
    assert cases.rows(a.merge(b).items()) == cases.rows(b.merge(a).items())
    assert_guarantee(a.merge(b).merge(c), left + middle + right)
    assert_guarantee(a.merge(b.merge(c)), left + middle + right)
    assert cases.rows(a.items()) == before


@given(cases.batched_streams, cases.batched_streams, cases.batches(), capacities)
def test_a_merged_sketch_counts_on(left, right, more, capacity):
    merged = counted(left, capacity).merge(counted(right, capacity))
    merged.update(more.hashes, more.weights)
    assert_guarantee(merged, [*left, *right, more])


def test_a_key_only_one_side_tracks_is_raised_by_the_smallest_counter_of_the_other():
    a, b = SpaceSaving(2), SpaceSaving(2)
    a.update(np.repeat([1, 2], [9, 5]))
    b.update(np.repeat([1, 3], [4, 7]))
    assert cases.rows(a.merge(b).items()) == [(1, 13.0, 0.0), (3, 7.0, 5.0)]


@pytest.mark.parametrize(
    "values",
    [
        pa.array(["a", "b", None, "b", "dé", "b", ""]),
        pa.array([{"x": 1, "y": "a"}, {"x": 1, "y": "b"}, {"x": None, "y": "a"}, {"x": 1, "y": "a"}]),
    ],
)
def test_tracked_keys_keep_their_value(values):
    sketch, other = SpaceSaving(2), SpaceSaving(2)
    for n in range(1, 20):
        sketch.update_keys(values)
        other.update_keys(values[-n:], np.arange(len(values))[-n:])
    for each in (
        sketch,
        other,
        sketch.merge(other),
        SpaceSaving(2).merge(other),
        other.merge(SpaceSaving(2)),
    ):
        items = each.items()
        assert len(items) == 2
        assert hash_keys(items.keys).tolist() == items.hashes.tolist()


def test_a_sketch_needs_at_least_one_counter():
    with pytest.raises(ValueError, match="capacity"):
        SpaceSaving(0)


def test_sketches_of_different_capacity_do_not_merge():
    with pytest.raises(ValueError, match="capacity 2 and 3"):
        SpaceSaving(2).merge(SpaceSaving(3))


def test_nothing_counted_is_an_empty_answer():
    sketch = SpaceSaving(2)
    sketch.update(np.array([4, 5]), [0.0, 0.0])
    assert (len(sketch), sketch.total, len(sketch.query(0.0)), sketch.key_type) == (0, 0.0, 0, None)
