import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.listings import sketches as listings
from tests.core.sketches import sketch_cases as cases
from unskew.core.hashing import hash_keys
from unskew.core.sketches import LossyCounter, SlidingLossyCounter

ROUNDING = 1 + 1e-12
windows = st.sampled_from([(6, 2), (12, 3), (24, 3), (24, 5), (60, 4)])


@given(st.lists(cases.keys, max_size=250), windows)
def test_one_record_at_a_time_equals_the_papers_staggered_counters(stream, window):
    W, x = window
    sliding = SlidingLossyCounter(0.1, W, x)
    for length, key in enumerate(stream, start=1):
        sliding.update(np.array([key]))
        covered = stream[listings.sliding_start(length, W, x) : length]
        assert sliding.total == len(covered)
        entries = {key: (lower, error) for key, lower, error in cases.rows(sliding.items())}
        assert entries == listings.lossy_counting(covered, sliding.current.window)


@given(st.lists(st.integers(0, 90), max_size=8), windows)
def test_batches_cover_the_same_records_as_single_records(sizes, window):
    W, x = window
    stream = np.arange(sum(sizes))
    # nothing is forgotten at this epsilon, so the answer is what is covered
    sliding = SlidingLossyCounter(1e-4, W, x)
    length = 0
    for size in sizes:
        sliding.update(stream[length : length + size])
        length += size
        covered = stream[listings.sliding_start(length, W, x) : length]
        assert sorted(sliding.items().hashes.tolist()) == covered.tolist()


@given(
    cases.batched_streams, st.sampled_from([5.0, 20.0, 33.0]), st.integers(2, 6), st.sampled_from([0.3, 0.05])
)
def test_weighted_batches_keep_the_window_and_the_bounds(stream, W, x, epsilon):
    sliding = SlidingLossyCounter(epsilon, W, x)
    so_far: list[cases.Records] = []
    for records in stream:
        sliding.update(records.hashes, records.weights)
        so_far.append(records)
        hashes = np.concatenate([r.hashes for r in so_far])
        weights = np.concatenate([np.ones(len(r.hashes)) if r.weights is None else r.weights for r in so_far])
        assert min(W, weights.sum()) <= sliding.total < W + W / (x - 1) + weights.max(initial=1.0)
        # What is covered are the newest records that weigh this much.
        newest = np.cumsum(weights[::-1])[::-1] <= sliding.total
        true, total = cases.exact([cases.Records(hashes[newest], weights[newest])])
        assert total == sliding.total
        for key, lower, error in cases.rows(sliding.items()):
            assert true[key] - epsilon * total * ROUNDING <= lower <= true[key] <= (lower + error) * ROUNDING
        tracked = set(sliding.items().hashes.tolist())
        assert {key for key, f in true.items() if f > epsilon * total * ROUNDING} <= tracked


@given(cases.batched_streams, st.sampled_from([5.0, 20.0, 33.0]), st.integers(2, 6))
def test_there_are_no_more_counters_than_requested(stream, W, x):
    sliding = SlidingLossyCounter(0.1, W, x)
    for records in stream:
        sliding.update(records.hashes, records.weights)
        assert len(sliding._live) <= x


def test_rounding_does_not_add_counters():
    sliding = SlidingLossyCounter(0.1, window=1.0, counters=11)
    for _ in range(200):
        sliding.update(np.array([1]), [0.1])  # ten of them add up to a little less than 1
        assert len(sliding._live) <= 11
    assert sliding.total == pytest.approx(1.0)


def test_heavy_records_do_not_stretch_the_window():
    sliding = SlidingLossyCounter(0.1, window=20, counters=5)
    totals = []
    for _ in range(50):
        sliding.update(np.array([1]), [7.0])
        totals.append(sliding.total)
    assert totals[2:] == [21.0] * 48  # the fewest records that weigh 20


def test_one_record_heavier_than_the_window_is_not_lost():
    sliding = SlidingLossyCounter(0.1, window=10)
    sliding.update(np.array([1, 2]), [3.0, 1000.0])
    sliding.update(np.array([3]))
    assert sliding.query(0.5).hashes.tolist() == [2]


def test_a_change_shows_after_one_window():
    sliding, everything = SlidingLossyCounter(0.01, window=1000), LossyCounter(0.01)
    for keys in (["old"] * 5000, ["new"] * 1500):
        sliding.update_keys(keys)
        everything.update_keys(keys)
    assert sliding.query(0.1).keys.to_pylist() == ["new"]
    assert everything.query(0.5).keys.to_pylist() == ["old"]


def test_partitions_are_covered_by_merging_their_current_counters():
    parts = [SlidingLossyCounter(0.01, window=100) for _ in range(2)]
    for part, key in zip(parts, "ab", strict=True):
        part.update_keys(["z"] * 300 + [key] * 120)
    both = parts[0].current.merge(parts[1].current)
    assert both.total == parts[0].total + parts[1].total
    assert sorted(both.query(0.3).keys.to_pylist()) == ["a", "b"]


def test_tracked_keys_keep_their_value():
    sliding = SlidingLossyCounter(0.1, window=10)
    for word in ("one", "two", "two", "three") * 9:
        sliding.update_keys([word, "two", None])
    items = sliding.items()
    assert len(items)
    assert hash_keys(items.keys).tolist() == items.hashes.tolist()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"window": 0}, "window"),
        ({"window": float("inf")}, "window"),
        ({"window": float("nan")}, "window"),
        ({"window": 10, "counters": 1}, "at least 2 counters"),
    ],
)
def test_bad_arguments_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        SlidingLossyCounter(0.1, **options)


def test_nothing_counted_is_an_empty_answer():
    sliding = SlidingLossyCounter(0.1, window=10)
    sliding.update(np.zeros(0, np.int64))
    assert (sliding.total, len(sliding.items())) == (0.0, 0)
