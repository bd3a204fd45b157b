"""Single keys moved between servers: to relieve servers above their cap, then to gain locality within the caps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unskew.core.chains.graph import KeyGraph
from unskew.core.chains.servers import NOWHERE
from unskew.core.histogram import Floats, sum_by
from unskew.core.scheduling import evened, fill

# (key, server) cells examined together: 32 MB.
_CELLS = 1 << 22
# Sweeps over all keys: what later ones gain is not worth their time.
_ROUNDS = 12
# A sweep that gains less than this share of all pairs is the last.
_ENOUGH = 1e-4
# A smaller gain is rounding.
_LEAST = 1e-12
# Loads are sums of floats.
_SLACK = 1e-9


def relieve_servers(
    graph: KeyGraph, server: NDArray[np.int32], caps: Floats, servers: int, price: float
) -> NDArray[np.int32]:
    """Move keys off servers that carry more of an operator than its cap, at the least loss.

    Guarantee: no server ends above both its cap and mean + heaviest key. The loss of a move is the locality lost and
    `price` × the state moved, per load that it relieves. Where a server is still too full after that, because its
    keys are large or much has to move, its keys are evened out regardless of the loss.
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
            offers = _best_offers(graph, server, operator, room, price)
            moving = np.flatnonzero(full[server[own]] & (load > 0) & (offers.gain > -np.inf))
            source, target, moving_load = server[own][moving], offers.target[moving], load[moving]
            order = np.argsort(-offers.gain[moving] / moving_load, kind="stable")
            relieved_before = _running_sums(source[order], moving_load[order]) - moving_load[order]
            order = order[relieved_before < excess[source[order]]]
            order = order[_running_sums(target[order], moving_load[order]) <= room[target[order]]]
            if not len(order):
                break
            server[own.start + moving[order]] = target[order]
        server[own] = _even_out(load, server[own], servers, cap * (1 + _SLACK))
    return server


def _even_out(load: Floats, server: NDArray[np.int32], servers: int, cap: float) -> NDArray[np.int32]:
    """Deal the lightest keys of servers above the cap to the emptiest servers, then try single moves and swaps."""
    order = np.argsort(load, kind="stable")
    # more than one round, since a large key may crowd out others, which are dealt in turn
    for _ in range(_ROUNDS):
        carried = sum_by(server, load, servers)
        if carried.max() <= cap:
            return server
        before = _running_sums(server[order], load[order]) - load[order]
        leaving = order[before < (carried - cap)[server[order]]]
        dealt = server.copy()
        dealt[leaving] = fill(load[leaving], carried - sum_by(server[leaving], load[leaving], servers))
        if sum_by(dealt, load, servers).max() >= carried.max():
            break
        server = dealt
    return evened(load, server, servers, cap)


def improve_locality(
    graph: KeyGraph, server: NDArray[np.int32], caps: Floats, servers: int, price: float
) -> NDArray[np.int32]:
    """Move keys, one operator after the other, while that gains more locality than `price` × the state moved.

    Every sweep improves the whole: keys of one operator share no edges, so keys that move at the same time do not
    spoil each other's gain. A server takes keys up to its cap, those of the largest gain first.
    """
    server = server.copy()
    for _ in range(_ROUNDS):
        gained = 0.0
        for operator, cap in enumerate(caps.tolist()):
            own = graph.vertices(operator)
            load = graph.load[own]
            room = cap * (1 + _SLACK) - sum_by(server[own], load, servers)
            offers = _best_offers(graph, server, operator, room, price)
            moving = np.flatnonzero(offers.gain > _LEAST)
            moving = moving[np.argsort(-offers.gain[moving], kind="stable")]
            target = offers.target[moving]
            fits = _running_sums(target, load[moving]) <= room[target]
            server[own.start + moving[fits]] = target[fits]
            gained += float(offers.gain[moving[fits]].sum())
        if gained < _ENOUGH:
            break
    return server


@dataclass(frozen=True, eq=False)
class _Offers:
    """The best other server for each key of an operator, and what moving there would gain."""

    target: NDArray[np.int32]
    gain: Floats


def _best_offers(
    graph: KeyGraph, server: NDArray[np.int32], operator: int, room: Floats, price: float
) -> _Offers:
    """The best offers among servers with room for the key; the gain is -∞ for a key that fits nowhere."""
    servers = len(room)
    starts, neighbours, weight = graph.adjacency
    own = graph.vertices(operator)
    target, gain = np.zeros(own.stop - own.start, np.int32), np.zeros(own.stop - own.start)
    for rows in _chunks(own, servers):
        count = rows.stop - rows.start
        edges = slice(int(starts[rows.start]), int(starts[rows.stop]))
        key = np.repeat(np.arange(count), np.diff(starts[rows.start : rows.stop + 1]))
        cells = key * servers + server[neighbours[edges]]
        value = sum_by(cells, weight[edges], count * servers).reshape(count, servers)
        keys = np.arange(count)
        settled = graph.old[rows] >= 0
        # what a key saves on its old server is what it costs elsewhere
        value[keys[settled], graph.old[rows][settled]] += (price * graph.state[rows])[settled]
        present = value[keys, server[rows]]
        value[graph.load[rows][:, None] > room[None, :]] = -np.inf
        value[keys, server[rows]] = -np.inf
        best = value.argmax(axis=1)
        within = slice(rows.start - own.start, rows.stop - own.start)
        target[within], gain[within] = best, value[keys, best] - present
    return _Offers(target, gain)


def _chunks(own: slice, servers: int) -> Iterator[slice]:
    size = max(1, _CELLS // servers)
    for first in range(own.start, own.stop, size):
        yield slice(first, min(first + size, own.stop))


def _running_sums(group: NDArray[Any], figures: Floats) -> Floats:
    """For each figure, the sum of the figures of its group up to and including it."""
    order = np.argsort(group, kind="stable")
    total = np.cumsum(figures[order])
    first = np.flatnonzero(np.diff(group[order], prepend=NOWHERE))
    before = np.repeat(total[first] - figures[order][first], np.diff(first, append=len(order)))
    sums = np.empty(len(figures))
    sums[order] = total - before
    return sums
