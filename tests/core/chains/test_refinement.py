"""Every move of single keys improves what it is for and keeps what it must."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.chains.graph_cases import SERVERS, graphs, random_servers, state_moved
from unskew.core.chains.graph import KeyGraph
from unskew.core.chains.refinement import improve_locality, relieve_servers
from unskew.core.chains.servers import NOWHERE


def caps(graph: KeyGraph, tolerance: float = 1.03) -> np.ndarray[Any, Any]:
    heaviest = [graph.load[graph.vertices(o)].max() for o in range(graph.operators)]
    return tolerance * np.maximum(1 / SERVERS, heaviest)


@given(graphs(), st.integers(0, 99), st.sampled_from([0.0, 0.3, 3.0]), st.booleans())
@settings(deadline=None)
def test_moves_gain_more_than_they_cost_and_fill_no_server_beyond_its_cap(
    graph: KeyGraph, seed: int, price: float, at_home: bool
) -> None:
    before = random_servers(graph, seed)
    if at_home:
        before = np.where(graph.old >= 0, graph.old, before)
    after = improve_locality(graph, before, caps(graph), SERVERS, price)
    gain = graph.locality(after) - graph.locality(before)
    cost = price * (state_moved(graph, after) - state_moved(graph, before))
    assert gain >= cost - 1e-12
    limit = np.maximum(caps(graph)[:, None], graph.loads(before, SERVERS))
    assert (graph.loads(after, SERVERS) <= limit * (1 + 1e-6)).all()


@given(graphs(), st.integers(0, 99))
@settings(deadline=None)
def test_afterwards_no_single_key_with_room_to_move_would_gain(graph: KeyGraph, seed: int) -> None:
    roomy = np.full(graph.operators, 2.0)
    after = improve_locality(graph, random_servers(graph, seed), roomy, SERVERS, 0.0)
    best = graph.locality(after)
    for vertex in range(len(after)):
        for server in range(SERVERS):
            changed = after.copy()
            changed[vertex] = server
            assert graph.locality(changed) <= best + 1e-3


@given(graphs(), st.integers(0, 99))
@settings(deadline=None)
def test_full_servers_are_relieved(graph: KeyGraph, seed: int) -> None:
    after = relieve_servers(graph, random_servers(graph, seed), caps(graph), SERVERS, 0.0)
    loads = graph.loads(after, SERVERS)
    heaviest = np.array([graph.load[graph.vertices(o)].max() for o in range(graph.operators)])
    assert (loads.max(axis=1) <= np.maximum(caps(graph), 1 / SERVERS + heaviest) * (1 + 1e-6)).all()


def test_a_crowd_on_one_server_is_spread_over_many() -> None:
    servers, keys = 40, 3000
    load = np.random.default_rng(0).dirichlet(np.ones(keys))
    nothing = np.zeros(0, np.int64)
    graph = KeyGraph(
        np.array([0, keys]), load, load, np.full(keys, NOWHERE, np.int32), nothing, nothing, np.zeros(0)
    )
    after = relieve_servers(graph, np.zeros(keys, np.int32), np.array([1.03 / servers]), servers, 0.0)
    assert graph.loads(after, servers).max() <= 1.03 / servers * (1 + 1e-6)


def test_a_large_key_makes_small_ones_give_way() -> None:
    # two large keys on one server, no room of that size anywhere, and too many keys to try all swaps
    load = np.concatenate([[0.3, 0.2], np.full(2500, 0.0002)])
    nothing = np.zeros(0, np.int64)
    graph = KeyGraph(
        np.array([0, 2502]), load, load, np.full(2502, NOWHERE, np.int32), nothing, nothing, np.zeros(0)
    )
    server = np.concatenate([[0, 0], np.arange(2500) % 2 + 1]).astype(np.int32)
    after = relieve_servers(graph, server, np.array([0.35]), 3, 0.0)
    assert graph.loads(after, 3).max() <= 0.35 * (1 + 1e-6)


def test_keys_are_swapped_where_none_fits_the_room_that_is_left() -> None:
    load = np.array([5.0, 4, 3, 3, 3]) / 18
    nothing = np.zeros(0, np.int64)
    graph = KeyGraph(
        np.array([0, 5]), load, load, np.full(5, NOWHERE, np.int32), nothing, nothing, np.zeros(0)
    )
    crowded = np.array([0, 1, 0, 0, 1], np.int32)
    after = relieve_servers(graph, crowded, np.array([0.515]), 2, 0.0)
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
    after = relieve_servers(graph, server, np.array([0.8, 0.5]), 2, 0.0)
    assert after.tolist() == [0] * 8 + [1] * 2 + [0, 1]
