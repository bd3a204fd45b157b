"""The graph of a chain's keys divided among servers by METIS, and its parts numbered so that most state stays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from unskew.core.chains.graph import KeyGraph
from unskew.core.chains.matching import best_matching
from unskew.core.histogram import sum_by

# METIS counts in whole numbers, which some builds keep in 32 bits.
_UNITS = 2**30


def partition(graph: KeyGraph, servers: int, imbalance: float, seed: int) -> NDArray[np.int32]:
    """The part of each vertex: k-way, few records between parts, loads within `imbalance` of the mean.

    `pymetis` passes on only one weight per vertex, so METIS bounds the load of all operators together, not
    that of each: `refinement.relieve_servers` takes care of each.
    """
    pymetis = pymetis_module()
    starts, neighbours, weight = graph.adjacency
    index = pymetis.zero_copy_dtype()
    vertex_units = np.ceil(graph.load * (_UNITS / graph.operators))
    # METIS needs edges that weigh something
    edge_units = np.maximum(1, np.rint(weight * _UNITS))
    options = pymetis.Options(seed=int(seed), ufactor=max(1, round((imbalance - 1.0) * 1000)))
    division = pymetis.part_graph(
        servers,
        pymetis.CSRAdjacency(starts.astype(index), neighbours.astype(index)),
        vweights=vertex_units.astype(index),
        eweights=edge_units.astype(index),
        # the default of pymetis is to bisect for up to 8 parts
        recursive=False,
        options=options,
    )
    return np.asarray(division.vertex_part, dtype=np.int32)


def renumber_parts(graph: KeyGraph, parts: NDArray[np.int32], servers: int) -> NDArray[np.int32]:
    """The same parts under the server numbers that leave the most state where it is.

    The numbers that METIS gives its parts mean nothing; no other numbering leaves more state in place.
    """
    settled = graph.old >= 0
    cells = parts[settled].astype(np.int64) * servers + graph.old[settled]
    staying = sum_by(cells, graph.state[settled], servers * servers).reshape(servers, servers)
    return best_matching(staying).astype(np.int32)[parts]


def pymetis_module() -> Any:
    """METIS, or an error that says how to get it."""
    try:
        import pymetis
    except ImportError as error:
        raise ImportError(
            "planning for locality needs METIS: install unskew with the extra `locality`, or pymetis itself"
        ) from error
    return pymetis
