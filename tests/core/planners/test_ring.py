import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unskew.core.histogram import Histogram
from unskew.core.plan import make_table
from unskew.core.planners.ring import ring

H = Histogram.from_counts({"a": 1}, buckets=4096)


@given(st.integers(1, 20), st.integers(1, 20), st.integers(0, 5))
def test_a_change_of_n_moves_only_to_new_slots_or_from_removed_ones(few: int, more: int, seed: int) -> None:
    few, more = min(few, more), max(few, more)
    small, large = ring(few, 4096, 100, seed), ring(more, 4096, 100, seed)
    changed = small != large
    assert np.all(large[changed] >= few)
    assert np.array_equal(small[large < few], large[large < few])


def test_shares_are_even_and_a_new_slot_takes_about_its_share() -> None:
    before, after = ring(9, 2**16), ring(10, 2**16)
    shares = np.bincount(after, minlength=10) / 2**16
    assert np.all(np.abs(shares * 10 - 1) < 0.12)  # four times the deviation of 1000 arcs
    assert np.mean(before != after) == pytest.approx(0.1, rel=0.12)


def test_more_replicas_make_shares_more_even() -> None:
    def unevenness(replicas: int) -> float:
        return float(np.bincount(ring(10, 2**16, replicas), minlength=10).std())

    assert unevenness(10) > 2 * unevenness(1000)


def test_the_table_depends_only_on_n_and_seed() -> None:
    grown = make_table("ring", H, 5, make_table("ring", H, 3))
    assert grown.same_routes(make_table("ring", H, 5))
    assert not grown.same_routes(make_table("ring", H, 5, seed=1))
    assert not grown.same_routes(make_table("ring", H, 5, replicas=7))
    assert len(grown.hashes) == 0


def test_the_shared_array_cannot_be_changed_by_a_caller() -> None:
    with pytest.raises(ValueError, match="read-only"):
        ring(4, 64)[0] = 1


def test_one_bucket_and_one_slot() -> None:
    assert ring(1, 1).tolist() == [0]


@pytest.mark.parametrize("replicas", [0, -1, 2.5, True])
def test_bad_replicas_are_refused(replicas: object) -> None:
    with pytest.raises(ValueError, match="replicas"):
        make_table("ring", H, 2, replicas=replicas)
