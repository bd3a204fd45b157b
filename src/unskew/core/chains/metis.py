"""Keys that occur together as a graph, and its division among servers: METIS, new numbers, moves one by one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unskew.core.chains.matching import best_matching
from unskew.core.histogram import Floats, sum_by
from unskew.core.scheduling import evened, fill

Index = NDArray[np.int64]

NOWHERE = -1
"""The old server of a key that has none: a first plan, or a server that no longer exists."""

_UNITS = 2**30  # METIS counts in whole numbers, which some builds keep in 32 bits
_CELLS = 1 << 22  # (key, server) cells looked at together: 32 MB
_ROUNDS = 12  # sweeps over all keys: what later ones find is not worth their time
_ENOUGH = 1e-4  # a sweep that gains less than this share of all pairs is the last
_LEAST = 1e-12  # a smaller gain is rounding
_SLACK = 1e-9  # loads are sums of floats


@dataclass(frozen=True, eq=False)
class KeyGraph:
    """A vertex for each (operator, key), an edge for each pair of keys that successive operators have in common.

    The vertices of operator o are `bounds[o]` to `bounds[o + 1]`. All figures are shares: `load` of the load of
    the key's operator, `state` of the state of all operators, `weight` of the records of all pairs. `old` is the
    server that has the key now.
    """

    bounds: Index
    load: Floats
    state: Floats
    old: NDArray[np.int32]
    left: Index
    right: Index
    weight: Floats

    @property
    def operators(self) -> int:
        """The length of the chain."""
        return len(self.bounds) - 1

    def vertices(self, operator: int) -> slice:
        """Where the keys of an operator are."""
        return slice(int(self.bounds[operator]), int(self.bounds[operator + 1]))

    @cached_property
    def operator(self) -> Index:
        """The operator of each vertex."""
        return np.repeat(np.arange(self.operators), np.diff(self.bounds))

    @cached_property
    def adjacency(self) -> tuple[Index, Index, Floats]:
        """Where each vertex's edges begin, and the other end and the weight of each."""
        ends = np.concatenate([self.left, self.right])
        order = np.argsort(ends, kind="stable")
        starts = np.concatenate([[0], np.cumsum(np.bincount(ends, minlength=len(self.load)))])
        others = np.concatenate([self.right, self.left])[order]
        return starts, others, np.concatenate([self.weight, self.weight])[order]

    def locality(self, server: NDArray[np.int32]) -> float:
        """The share of the pairs' records whose two keys are on one server."""
        return float(self.weight[server[self.left] == server[self.right]].sum())

    def moved(self, server: NDArray[np.int32]) -> float:
        """The share of all state that would leave the server it is on."""
        return float(self.state[(server != self.old) & (self.old >= 0)].sum())

    def loads(self, server: NDArray[np.int32], servers: int) -> Floats:
        """The load of each server, a row an operator, as shares of the operator's load."""
        cells = self.operator * servers + server
        return sum_by(cells, self.load, self.operators * servers).reshape(self.operators, servers)


def metis(graph: KeyGraph, servers: int, imbalance: float, seed: int) -> NDArray[np.int32]:
    """The parts that METIS finds: k-way, few records between parts, loads within `imbalance` of the mean.

    `pymetis` passes on one weight for each vertex, so METIS bounds the load of all operators together, not
    of each: `relieved` sees to each.
    """
    pymetis = pymetis_module()
    starts, others, weight = graph.adjacency
    index = pymetis.zero_copy_dtype()
    vertex_units = np.ceil(graph.load * (_UNITS / graph.operators))
    edge_units = np.maximum(1, np.rint(weight * _UNITS))  # METIS wants edges to weigh something
    options = pymetis.Options(seed=int(seed), ufactor=max(1, round((imbalance - 1.0) * 1000)))
    found = pymetis.part_graph(
        servers,
        pymetis.CSRAdjacency(starts.astype(index), others.astype(index)),
        vweights=vertex_units.astype(index),
        eweights=edge_units.astype(index),
        recursive=False,  # else pymetis bisects for up to 8 parts
        options=options,
    )
    return np.asarray(found.vertex_part, dtype=np.int32)


def relabelled(graph: KeyGraph, parts: NDArray[np.int32], servers: int) -> NDArray[np.int32]:
    """The same parts under the server numbers that leave the most state where it is.

    The numbers that METIS gives its parts mean nothing; no other numbering keeps more state in place.
    """
    known = graph.old >= 0
    cells = parts[known].astype(np.int64) * servers + graph.old[known]
    kept = sum_by(cells, graph.state[known], servers * servers).reshape(servers, servers)
    return best_matching(kept).astype(np.int32)[parts]


def relieved(
    graph: KeyGraph, server: NDArray[np.int32], caps: Floats, servers: int, price: float
) -> NDArray[np.int32]:
    """With keys moved out of servers that carry more of an operator than its cap, for the least loss.

    The loss is locality and `price` × state moved, for the load that the move relieves. Where that ends with a server
    still too full, because its keys are large or much has to move, they are evened out regardless: no server ends
    above both its cap and mean + heaviest key.
    """
    server = server.copy()
    for operator, cap in enumerate(caps.tolist()):
        own = graph.vertices(operator)
        load = graph.load[own]
        for _ in range(_ROUNDS):
            carried = sum_by(server[own], load, servers)
            excess, room = carried - cap, cap - carried
            full = excess > cap * _SLACK
            if not full.any():
                break
            offers = _offers(graph, server, operator, room, price)
            moving = np.flatnonzero(full[server[own]] & (load > 0) & (offers.gain > -np.inf))
            source, target = server[own][moving], offers.target[moving]
            order = np.argsort(-offers.gain[moving] / load[moving], kind="stable")
            needed = (
                _running(source[order], load[moving][order]) - load[moving][order] < excess[source[order]]
            )
            order = order[needed]
            fits = _running(target[order], load[moving][order]) <= room[target[order]]
            order = order[fits]
            if not len(order):
                break
            server[own.start + moving[order]] = target[order]
        server[own] = _evened(load, server[own], servers, cap * (1 + _SLACK))
    return server


def _evened(load: Floats, server: NDArray[np.int32], servers: int, cap: float) -> NDArray[np.int32]:
    """With the lightest keys of servers above the cap dealt out to the emptiest, then single moves and swaps."""
    order = np.argsort(load, kind="stable")
    for _ in range(_ROUNDS):  # a large key may crowd out others, which are dealt out in turn
        carried = sum_by(server, load, servers)
        if carried.max() <= cap:
            return server
        before = _running(server[order], load[order]) - load[order]
        leaving = order[before < (carried - cap)[server[order]]]
        dealt = server.copy()
        dealt[leaving] = fill(load[leaving], carried - sum_by(server[leaving], load[leaving], servers))
        if sum_by(dealt, load, servers).max() >= carried.max():
            break
        server = dealt
    return evened(load, server, servers, cap)


def climbed(
    graph: KeyGraph, server: NDArray[np.int32], caps: Floats, servers: int, price: float
) -> NDArray[np.int32]:
    """With keys moved, one operator after the other, while that gains locality beyond `price` × state moved.

    Keys of one operator share no edges, so those that move at the same time do not spoil each other's gain, and
    every sweep improves the whole. A server takes keys, those of the largest gain first, up to its cap.
    """
    server = server.copy()
    for _ in range(_ROUNDS):
        gained = 0.0
        for operator, cap in enumerate(caps.tolist()):
            own = graph.vertices(operator)
            load = graph.load[own]
            room = cap * (1 + _SLACK) - sum_by(server[own], load, servers)
            offers = _offers(graph, server, operator, room, price)
            moving = np.flatnonzero(offers.gain > _LEAST)
            moving = moving[np.argsort(-offers.gain[moving], kind="stable")]
            target = offers.target[moving]
            fits = _running(target, load[moving]) <= room[target]
            server[own.start + moving[fits]] = target[fits]
            gained += float(offers.gain[moving[fits]].sum())
        if gained < _ENOUGH:
            break
    return server


@dataclass(frozen=True, eq=False)
class _Offers:
    """The best other server of each key of an operator, and what going there would gain."""

    target: NDArray[np.int32]
    gain: Floats


def _offers(graph: KeyGraph, server: NDArray[np.int32], operator: int, room: Floats, price: float) -> _Offers:
    """Offers of the servers that have room for the key; the gain of a key for which none has is -∞."""
    servers = len(room)
    starts, others, weight = graph.adjacency
    own = graph.vertices(operator)
    target, gain = np.zeros(own.stop - own.start, np.int32), np.zeros(own.stop - own.start)
    for rows in _chunks(own, servers):
        count = rows.stop - rows.start
        edges = slice(int(starts[rows.start]), int(starts[rows.stop]))
        key = np.repeat(np.arange(count), np.diff(starts[rows.start : rows.stop + 1]))
        value = sum_by(key * servers + server[others[edges]], weight[edges], count * servers).reshape(
            count, servers
        )
        each = np.arange(count)
        settled = graph.old[rows] >= 0
        # what a key saves where it was is what it costs elsewhere
        value[each[settled], graph.old[rows][settled]] += (price * graph.state[rows])[settled]
        present = value[each, server[rows]]
        value[graph.load[rows][:, None] > room[None, :]] = -np.inf
        value[each, server[rows]] = -np.inf
        best = value.argmax(axis=1)
        within = slice(rows.start - own.start, rows.stop - own.start)
        target[within], gain[within] = best, value[each, best] - present
    return _Offers(target, gain)


def _chunks(own: slice, servers: int) -> Iterator[slice]:
    size = max(1, _CELLS // servers)
    for first in range(own.start, own.stop, size):
        yield slice(first, min(first + size, own.stop))


def _running(group: NDArray[Any], figures: Floats) -> Floats:
    """The sum of the figures up to and with each one, among those of its group."""
    order = np.argsort(group, kind="stable")
    total = np.cumsum(figures[order])
    first = np.flatnonzero(np.diff(group[order], prepend=NOWHERE))
    before = np.repeat(total[first] - figures[order][first], np.diff(first, append=len(order)))
    sums = np.empty(len(figures))
    sums[order] = total - before
    return sums


def pymetis_module() -> Any:
    """METIS, or an error that says how to get it."""
    try:
        import pymetis
    except ImportError as error:
        raise ImportError(
            "planning for locality needs METIS: install unskew with the extra `locality`, or pymetis itself"
        ) from error
    return pymetis
