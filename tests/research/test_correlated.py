from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from research.correlated import drifting_pairs, synthetic_pairs


@pytest.mark.parametrize("locality", [0.0, 0.6, 1.0])
def test_the_papers_integers_are_uniform_and_equal_as_often_as_requested(locality: float) -> None:
    first, second = synthetic_pairs(6, locality, 60_000, seed=3)
    assert (first == second).mean() == pytest.approx(locality, abs=1e-4)
    for column in (first, second):
        counts = np.bincount(column)
        assert counts[0] == 0
        assert counts[1:] == pytest.approx(10_000, rel=0.05)


def test_the_same_seed_gives_the_same_records_and_another_seed_others() -> None:
    for make in (
        lambda seed: synthetic_pairs(9, 0.5, 500, seed=seed),
        lambda seed: next(drifting_pairs(seed=seed)),
    ):
        first, same, different = make(1), make(1), make(2)
        assert np.array_equal(first, same)
        assert not np.array_equal(first, different)


def test_most_hashtags_stay_in_their_region_and_some_are_new_every_week() -> None:
    drift = {"lasting": 0.0, "moving": 0.2, "fresh": 0.1}
    weeks = list(drifting_pairs(weeks=3, regions=50, hashtags=500, records=100_000, **drift))
    homes = []
    for regions, tags in weeks:
        common = np.flatnonzero(np.bincount(tags, minlength=tags.max() + 1) >= 50)
        homes.append({int(t): int(np.bincount(regions[tags == t]).argmax()) for t in common})
    assert all((regions == 0).mean() < 0.2 for regions, _ in weeks)
    both = homes[0].keys() & homes[1].keys()
    stayed = np.mean([homes[0][t] == homes[1][t] for t in both])
    assert 0.65 < stayed < 0.95
    assert 0.02 < len(homes[1].keys() - set(weeks[0][1].tolist())) / len(homes[1]) < 0.25


def test_lasting_hashtags_stay_and_only_the_others_are_replaced() -> None:
    def share_of_old(lasting: float) -> float:
        first, *_, last = drifting_pairs(
            weeks=8, regions=50, hashtags=500, records=100_000, lasting=lasting, fresh=1.0
        )
        return float(np.isin(last[1], first[1]).mean())

    assert share_of_old(1.0) == 1.0
    assert share_of_old(0.0) == 0.0
    assert 0.3 < share_of_old(0.6) < 0.9


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: synthetic_pairs(4, 1.5, 10), "locality is a share"),
        (lambda: synthetic_pairs(1, 0.5, 10), "always equal"),
        (lambda: synthetic_pairs(0, 1.0, 10), "keys must be at least 1"),
        (lambda: next(drifting_pairs(moving=-0.1)), "moving is a share"),
        (lambda: next(drifting_pairs(lasting=1.1)), "lasting is a share"),
    ],
)
def test_impossible_arguments_are_refused(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
