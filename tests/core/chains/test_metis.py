"""The division of a graph of keys: every step improves what it is for and keeps what it must."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unskew.core.chains.metis import NOWHERE, KeyGraph, climbed, metis, relabelled, relieved

SERVERS = 3


@st.composite
def graphs(draw: Any, operators: int = 3) -> KeyGraph:
    """A small chain: each operator's loads add up to 1, edges only between successive operators."""
    sizes = draw(st.lists(st.integers(1, 8), min_size=operators, max_size=operators))
    bounds = np.concatenate([[0], np.cumsum(sizes)])
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    load = np.concatenate([random.dirichlet(np.full(n, 0.7)) for n in sizes])
    edges = [
        (a, b)
        for o in range(operators - 1)
        for a in range(bounds[o], bounds[o + 1])
        for b in range(bounds[o + 1], bounds[o + 2])
        if random.random() < 0.4
    ] or [(0, int(bounds[1]))]
    left, right = np.array(edges).T
    old = random.integers(NOWHERE, SERVERS, size=bounds[-1]).astype(np.int32)
    state = random.dirichlet(np.ones(bounds[-1]))
    return KeyGraph(bounds, load, state, old, left, right, random.dirichlet(np.ones(len(left))))


def placed(graph: KeyGraph, seed: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).integers(SERVERS, size=len(graph.load)).astype(np.int32)


def moved(graph: KeyGraph, server: np.ndarray[Any, Any]) -> float:
    return float(graph.state[(server != graph.old) & (graph.old >= 0)].sum())


def caps(graph: KeyGraph, tolerance: float = 1.03) -> np.ndarray[Any, Any]:
    heaviest = [graph.load[graph.vertices(o)].max() for o in range(graph.operators)]
    return tolerance * np.maximum(1 / SERVERS, heaviest)


@given(graphs(), st.integers(0, 99), st.sampled_from([0.0, 0.3, 3.0]), st.booleans())
@settings(deadline=None)
def test_climbing_gains_more_than_it_costs_and_fills_no_server_beyond_its_cap(
    graph: KeyGraph, seed: int, price: float, at_home: bool
) -> None:
    before = placed(graph, seed)
    if at_home:
        before = np.where(graph.old >= 0, graph.old, before)
    after = climbed(graph, before, caps(graph), SERVERS, price)
    gain = graph.locality(after) - graph.locality(before)
    cost = price * (moved(graph, after) - moved(graph, before))
    assert gain >= cost - 1e-12
    limit = np.maximum(caps(graph)[:, None], graph.loads(before, SERVERS))
    assert (graph.loads(after, SERVERS) <= limit * (1 + 1e-6)).all()


@given(graphs(), st.integers(0, 99))
@settings(deadline=None)
def test_at_the_top_no_single_key_with_room_to_move_would_gain(graph: KeyGraph, seed: int) -> None:
    roomy = np.full(graph.operators, 2.0)
    after = climbed(graph, placed(graph, seed), roomy, SERVERS, 0.0)
    best = graph.locality(after)
    for vertex in range(len(after)):
        for server in range(SERVERS):
            other = after.copy()
            other[vertex] = server
            assert graph.locality(other) <= best + 1e-3


@given(graphs(), st.integers(0, 99))
@settings(deadline=None)
def test_full_servers_are_relieved(graph: KeyGraph, seed: int) -> None:
    loads = graph.loads(relieved(graph, placed(graph, seed), caps(graph), SERVERS, 0.0), SERVERS)
    heaviest = np.array([graph.load[graph.vertices(o)].max() for o in range(graph.operators)])
    assert (loads.max(axis=1) <= np.maximum(caps(graph), 1 / SERVERS + heaviest) * (1 + 1e-6)).all()


def test_a_crowd_on_one_server_is_spread_over_many() -> None:
    servers, keys = 40, 3000
    load = np.random.default_rng(0).dirichlet(np.ones(keys))
    nothing = np.zeros(0, np.int64)
    graph = KeyGraph(
        np.array([0, keys]), load, load, np.full(keys, NOWHERE, np.int32), nothing, nothing, np.zeros(0)
    )
    after = relieved(graph, np.zeros(keys, np.int32), np.array([1.03 / servers]), servers, 0.0)
    assert graph.loads(after, servers).max() <= 1.03 / servers * (1 + 1e-6)


def test_a_large_key_makes_small_ones_give_way() -> None:
    # two large keys on one server, no room of that size anywhere, and too many keys to try all swaps
    load = np.concatenate([[0.3, 0.2], np.full(2500, 0.0002)])
    nothing = np.zeros(0, np.int64)
    graph = KeyGraph(
        np.array([0, 2502]), load, load, np.full(2502, NOWHERE, np.int32), nothing, nothing, np.zeros(0)
    )
    server = np.concatenate([[0, 0], np.arange(2500) % 2 + 1]).astype(np.int32)
    after = relieved(graph, server, np.array([0.35]), 3, 0.0)
    assert graph.loads(after, 3).max() <= 0.35 * (1 + 1e-6)


def test_keys_are_swapped_where_none_fits_the_room_that_is_left() -> None:
    load = np.array([5.0, 4, 3, 3, 3]) / 18
    nothing = np.zeros(0, np.int64)
    graph = KeyGraph(
        np.array([0, 5]), load, load, np.full(5, NOWHERE, np.int32), nothing, nothing, np.zeros(0)
    )
    crowded = np.array([0, 1, 0, 0, 1], np.int32)
    after = relieved(graph, crowded, np.array([0.515]), 2, 0.0)
    assert graph.loads(after, 2).ravel().tolist() == [0.5, 0.5]


def test_the_keys_that_leave_a_full_server_are_those_that_lose_least() -> None:
    # ten keys of one operator on server 0; all but two belong to the one key of the other operator there
    bounds = np.array([0, 10, 12])
    load = np.concatenate([np.full(10, 0.1), [0.5, 0.5]])
    right = np.array([10] * 8 + [11] * 2)
    graph = KeyGraph(
        bounds,
        load,
        np.full(12, 1 / 12),
        np.full(12, NOWHERE, np.int32),
        np.arange(10),
        right,
        np.full(10, 0.1),
    )
    server = np.array([0] * 10 + [0, 1], np.int32)
    after = relieved(graph, server, np.array([0.8, 0.5]), 2, 0.0)
    assert after.tolist() == [0] * 8 + [1] * 2 + [0, 1]


@given(graphs(), st.permutations(range(SERVERS)), st.integers(0, 99))
@settings(deadline=None)
def test_parts_get_the_numbers_they_had(graph: KeyGraph, numbers: list[int], seed: int) -> None:
    old = placed(graph, seed)
    same = KeyGraph(graph.bounds, graph.load, graph.state, old, graph.left, graph.right, graph.weight)
    parts = np.array(numbers, np.int32)[old]
    assert moved(same, relabelled(same, parts, SERVERS)) == 0.0


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
    parts = metis(graph, groups, 1.03, seed=0)
    assert graph.locality(parts) == pytest.approx(1.0)
    assert np.allclose(graph.loads(parts, groups), 1 / groups)
    assert np.array_equal(parts, metis(graph, groups, 1.03, seed=0))
