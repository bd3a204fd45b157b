"""METIS separates keys that have nothing in common, and its parts are numbered so that state stays."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.chains.graph_cases import SERVERS, graphs, random_servers, state_moved
from unskew.core.chains.graph import KeyGraph
from unskew.core.chains.metis import partition, renumber_parts
from unskew.core.chains.servers import NOWHERE


@given(graphs(), st.permutations(range(SERVERS)), st.integers(0, 99))
@settings(deadline=None)
def test_parts_get_the_numbers_they_had(graph: KeyGraph, numbers: list[int], seed: int) -> None:
    old = random_servers(graph, seed)
    same = KeyGraph(graph.bounds, graph.load, graph.state, old, graph.left, graph.right, graph.weight)
    parts = np.array(numbers, np.int32)[old]
    assert state_moved(same, renumber_parts(same, parts, SERVERS)) == 0.0


def test_metis_separates_what_has_nothing_in_common_and_a_seed_decides() -> None:
    groups, each = 4, 25
    a, b = np.meshgrid(np.arange(each), np.arange(each))
    left = np.concatenate([g * each + a.ravel() for g in range(groups)])
    right = np.concatenate([groups * each + g * each + b.ravel() for g in range(groups)])
    n = groups * each
    graph = KeyGraph(
        np.array([0, n, 2 * n]),
        np.full(2 * n, 1 / n),
        np.full(2 * n, 0.5 / n),
        np.full(2 * n, NOWHERE, np.int32),
        left,
        right,
        np.full(len(left), 1 / len(left)),
    )
    parts = partition(graph, groups, 1.03, seed=0)
    assert graph.locality(parts) == pytest.approx(1.0)
    assert np.allclose(graph.loads(parts, groups), 1 / groups)
    assert np.array_equal(parts, partition(graph, groups, 1.03, seed=0))
