"""Generated streams match their docstrings."""

from __future__ import annotations

import numpy as np
import pytest

from research.workloads import drifting_windows, zipf
from unskew.core.histogram import Histogram


def counts(h: Histogram, keys: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    by_key = np.zeros(keys)
    by_key[h.keys.to_numpy()] = h.tracked.counts
    return by_key


@pytest.mark.parametrize("exponent", [0.0, 0.8, 1.0, 2.0])
def test_zipf_shares_fall_by_rank_to_the_exponent(exponent: float) -> None:
    f = zipf(1000, exponent)
    assert f.sum() == pytest.approx(1)
    assert f[0] / f[9] == pytest.approx(10**exponent)
    assert (np.diff(f) <= 0).all()


SMALL = {"keys": 200, "draws": 20_000, "shuffled": 23, "group": 5, "buckets": 32}


def test_the_state_of_a_window_is_that_of_the_last_windows() -> None:
    windows = list(drifting_windows(steps=5, state_windows=3, **SMALL))
    assert len(windows) == 5
    drawn = [counts(h, 200) for h in windows]
    for step, h in enumerate(windows):
        assert h.total == drawn[step].sum() == 20_000
        assert h.buckets == 32
        expected = sum(drawn[max(0, step - 2) : step + 1])
        state = np.zeros(200)
        state[h.keys.to_numpy()] = h.tracked.state
        assert state.tolist() == expected.tolist()


def test_the_same_seed_is_the_same_stream() -> None:
    first, same, different = (
        [h.tracked.counts.tolist() for h in drifting_windows(steps=2, seed=seed, **SMALL)]
        for seed in (1, 1, 2)
    )
    assert first == same != different


def test_only_the_hot_keys_drift_and_only_within_their_group() -> None:
    # so many draws that the counts show the frequencies
    options = {**SMALL, "keys": 40, "draws": 10**9}
    first, second = (counts(h, 40) for h in drifting_windows(steps=2, **options))
    np.testing.assert_allclose(second[23:], first[23:], rtol=0.01)
    for low in range(0, 23, 5):
        high = min(low + 5, 23)
        np.testing.assert_allclose(np.sort(second[low:high]), np.sort(first[low:high]), rtol=0.01)
    assert np.abs(second[:23] / first[:23] - 1).max() > 0.1


def test_more_keys_may_be_shuffled_than_there_are() -> None:
    assert len(list(drifting_windows(steps=3, keys=7, draws=100, buckets=8))) == 3
