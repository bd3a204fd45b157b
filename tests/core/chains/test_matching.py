from __future__ import annotations

from itertools import permutations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from unskew.core.chains.matching import best_matching

sizes = st.integers(1, 5)


@given(
    sizes.flatmap(
        lambda n: st.lists(st.lists(st.integers(0, 20), min_size=n, max_size=n), min_size=n, max_size=n)
    )
)
def test_no_other_matching_gains_more(cells: list[list[int]]) -> None:
    gain = np.array(cells, dtype=np.float64)
    matching = best_matching(gain)
    rows = np.arange(len(gain))
    assert sorted(matching.tolist()) == rows.tolist()
    assert gain[rows, matching].sum() == max(gain[rows, list(p)].sum() for p in permutations(rows))


def test_nothing_to_gain_and_many_servers() -> None:
    assert best_matching(np.zeros((3, 3))).tolist() == [0, 1, 2]
    shuffle = np.random.default_rng(0).permutation(100)
    assert best_matching(np.eye(100)[shuffle]).tolist() == shuffle.tolist()
