"""Random graphs of keys, small enough to check every move."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from unskew.core.chains.graph import KeyGraph
from unskew.core.chains.servers import NOWHERE

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


def random_servers(graph: KeyGraph, seed: int) -> np.ndarray[Any, Any]:
    """A server for each vertex."""
    return np.random.default_rng(seed).integers(SERVERS, size=len(graph.load)).astype(np.int32)


def state_moved(graph: KeyGraph, server: np.ndarray[Any, Any]) -> float:
    """The share of all state that leaves its server, independently of `KeyGraph.moved`."""
    return float(graph.state[(server != graph.old) & (graph.old >= 0)].sum())
