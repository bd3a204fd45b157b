"""Tables for operators in a row: correlated keys on one server, so that records need not cross the network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.core.chaingraph import Measured
from unskew.core.histogram import DEFAULT_BUCKETS, Floats, Histogram, sum_by
from unskew.core.keygraph import NOWHERE, KeyGraph, climbed, metis, relabelled, relieved
from unskew.core.loads import Migration, check_match, imbalance, migration, slot_loads
from unskew.core.pairs import PairHistogram
from unskew.core.planners import keel
from unskew.core.planners.workbench import NEW
from unskew.core.routing import RoutingTable, check_slots
from unskew.core.scheduling import fill, longest_first

_NEAR = 0.01  # of candidates whose imbalance differs by less, locality and movement decide


@dataclass(frozen=True, eq=False)
class Chain:
    """A table for each of several operators in a row, and what they will do.

    Slot s of every operator is on server s // `slots_per_server`. `locality` is the share of the counted pairs'
    records whose two keys are on one server, `hops` the same for each pair of successive operators; with
    hashing it is about 1 / `servers`. `imbalance` is max/mean of the slots, an operator each, `server_imbalance`
    of the servers, and `joint_imbalance` of the servers with the operators' shares summed, which is what METIS
    bounds. `migration` has what moves against the tables before (None for a first plan), `moved` is that as a
    share of all state, and `chosen` names the candidate that was taken: "metis", "refined" or "kept".
    """

    tables: tuple[RoutingTable, ...]
    servers: int
    slots_per_server: int
    locality: float
    hops: tuple[float, ...]
    imbalance: tuple[float, ...]
    server_imbalance: tuple[float, ...]
    joint_imbalance: float
    migration: tuple[Migration, ...] | None = None
    moved: float = 0.0
    chosen: str = "metis"

    @property
    def slots(self) -> int:
        """The number of slots of each operator."""
        return self.servers * self.slots_per_server

    @property
    def server_of_slot(self) -> NDArray[np.int64]:
        """The server of each slot."""
        return np.arange(self.slots) // self.slots_per_server


def plan_chain(
    histograms: Sequence[Histogram],
    pairs: Sequence[PairHistogram],
    servers: int,
    slots_per_server: int = 1,
    previous: Sequence[RoutingTable] | None = None,
    *,
    imbalance: float = 1.03,
    worth: float = 0.1,
    target: float = 0.01,
    seed: int = 0,
) -> Chain:
    """Tables for k operators, given the histogram of each and the k − 1 histograms of pairs between them.

    The keys that occur in pairs are the vertices of a graph, each weighing its share of its operator's load;
    an edge weighs the records of its pair. METIS divides it among the servers (k-way, `imbalance`, `seed`), cutting
    few records. METIS bounds the operators' summed load only, so keys are then moved until no server has more
    than `imbalance` × its share of any one operator, and further while that gains locality. Buckets, which hold all
    other keys, level the servers; every server's entries are spread over its slots as `keel` does it.

    With `previous` the parts get the server numbers that keep the most state. Three ways are compared: METIS
    anew, the previous tables with single keys moved, and the previous tables as they are. `worth` is the
    exchange rate: moving all state is justified by gaining that much locality (0: movement is free). Within the
    balance asked for, or the best one reached, the way with the largest locality − `worth` × share of the state
    moved is taken; single keys move by the same rule.

    Guarantee: of the load of an operator no server has more than `imbalance` × max(1 / servers, heaviest key), or
    where its keys and buckets are too large for that, its mean and the heaviest of them; a server's slots are
    within 1 + `target` of their mean where `keel` can reach that. Keys that were not measured go with their
    bucket, by hash. A key that occurs in pairs but is not tracked by its histogram is taken out of its bucket
    with the load that its pairs suggest.
    Deterministic for a seed. Cost: METIS and some passes over the pairs, linear in them.

    Caneill et al., "Locality-aware routing in stateful streaming applications", sections 3.2 and 3.3, which
    knows one slot a server and does not weigh movement.

    >>> regions, tags = ["Asia", "Asia", "Oceania", "Oceania"], ["#java", "#ruby", "#python", "#perl"]
    >>> sides = [Histogram.from_keys(keys, buckets=8) for keys in (regions, tags)]
    >>> chain = plan_chain(sides, [PairHistogram.from_pairs(regions, tags)], servers=2)
    >>> chain.locality, chain.server_imbalance
    (1.0, (1.0, 1.0))
    """
    _check(histograms, pairs, servers, slots_per_server, previous, imbalance, worth, target)
    if all(h.total == 0 for h in histograms):
        tables = _unmeasured(histograms, servers * slots_per_server, previous)
        none = np.zeros(len(pairs))
        return _described(tables, histograms, none + 1.0, none, servers, slots_per_server, previous, "kept")
    measured = Measured.of(histograms, pairs, servers, slots_per_server, previous)
    work = _Work(measured, pairs, servers, slots_per_server, previous, imbalance, target)
    graph, caps = measured.graph, work.caps

    def mended(server: NDArray[np.int32], price: float) -> NDArray[np.int32]:
        return climbed(graph, relieved(graph, server, caps, servers, price), caps, servers, price)

    parts = _parts(graph, servers, imbalance, seed)
    if previous is None:
        return work.chain(mended(parts, 0.0), "metis")
    stay = graph.old.copy()
    homeless = np.flatnonzero(stay == NOWHERE)
    stay[homeless] = fill(graph.load[homeless], sum_by(stay[stay >= 0], graph.load[stay >= 0], servers))
    ways = [work.chain(mended(stay, worth), "refined")]
    if all(table.slots == servers * slots_per_server for table in previous):
        ways.insert(0, work.chain(stay, "kept"))  # the first of equally good ones is taken
    best = _choice(ways, worth, work.limits)
    anew = mended(relabelled(graph, parts, servers), worth)
    # buckets and slots can only add to what moves, so this is the most that these parts can be worth
    promise = graph.locality(anew) - worth * graph.moved(anew)
    if _excess(best, work.limits) > 1.0 + _NEAR or promise > best.locality - worth * best.moved:
        best = _choice([*ways, work.chain(anew, "metis")], worth, work.limits)
    return best


def local_shares(
    tables: Sequence[RoutingTable], pairs: Sequence[PairHistogram], slots_per_server: int = 1
) -> tuple[float, ...]:
    """For each two successive operators the share of the counted pairs' records that stay on their server.

    >>> pairs = PairHistogram.from_pairs([1, 2, 3, 4], [1, 2, 3, 4])
    >>> local_shares([RoutingTable.hashed(2, 8), RoutingTable.hashed(2, 8)], [pairs])
    (1.0,)
    """
    shares = []
    for (one, two), hop in zip(pairwise(tables), pairs, strict=True):
        a, b = one.slot_of_hashes(hop.hashes_a), two.slot_of_hashes(hop.hashes_b)
        local = a // slots_per_server == b // slots_per_server
        shares.append(float(hop.counts @ local / hop.counts.sum()) if len(hop) else 1.0)
    return tuple(shares)


def hashed_chain(
    key_types: Sequence[pa.DataType], slots: int, buckets: int = DEFAULT_BUCKETS
) -> tuple[RoutingTable, ...]:
    """Plain hashing with another hash for each operator, as the paper compares with: about 1 / servers stays.

    Buckets of all operators come from one hash, under which equal keys of two operators would meet by themselves;
    so those of each operator after the first are shuffled.

    >>> first, second = hashed_chain([pa.int64(), pa.int64()], slots=2, buckets=1024)
    >>> 0.45 < float((first.buckets == second.buckets).mean()) < 0.55
    True
    """
    plain = RoutingTable.hashed(slots, buckets).buckets
    orders = (
        np.random.default_rng(o).permutation(buckets) if o else slice(None) for o in range(len(key_types))
    )
    named = zip(orders, key_types, strict=True)
    return tuple(RoutingTable.build(slots, plain[order], key_type=key_type) for order, key_type in named)


def _parts(graph: KeyGraph, servers: int, imbalance: float, seed: int) -> NDArray[np.int32]:
    """The parts of METIS, or balance alone where no two keys belong together."""
    if servers > 1 and len(graph.weight):
        return metis(graph, servers, imbalance, seed)
    parts = [longest_first(graph.load[graph.vertices(o)], servers) for o in range(graph.operators)]
    return np.concatenate(parts)


@dataclass(frozen=True, eq=False)
class _Work:
    """What the ways to plan one chain have in common: what was measured, and what is asked for."""

    measured: Measured
    pairs: Sequence[PairHistogram]
    servers: int
    slots_per_server: int
    previous: Sequence[RoutingTable] | None
    imbalance: float
    target: float

    @property
    def limits(self) -> Floats:
        """The imbalance of the servers that is wanted, for each operator."""
        return np.array(
            [self.imbalance * max(1.0, h.heaviest_share * self.servers) for h in self.measured.histograms]
        )

    @property
    def caps(self) -> Floats:
        """The share of each operator's load that a server may have."""
        return self.limits / self.servers

    def chain(self, server: NDArray[np.int32], way: str) -> Chain:
        """The tables that put each vertex of the graph on its server, or for "kept" those that there are."""
        graph = self.measured.graph
        if way == "kept" and self.previous is not None:
            tables = tuple(self.previous)
        else:
            caps = enumerate(self.caps.tolist())
            tables = tuple(self._table(o, server[graph.vertices(o)], cap) for o, cap in caps)
        # the tables send every key of a pair to its server, so they need not be asked
        local = graph.weight * (server[graph.left] == server[graph.right])
        hop = np.repeat(np.arange(len(self.pairs)), [len(each) for each in self.pairs])
        shares = sum_by(hop, local, len(self.pairs)), sum_by(hop, graph.weight, len(self.pairs))
        hops = np.divide(*shares, out=np.ones(len(self.pairs)), where=shares[1] > 0)
        histograms = self.measured.histograms
        return _described(
            tables, histograms, hops, shares[1], self.servers, self.slots_per_server, self.previous, way
        )

    def _table(self, operator: int, server: NDArray[np.int32], cap: float) -> RoutingTable:
        histogram, rows = self.measured.histograms[operator], self.measured.placed[operator]
        others = np.ones(len(histogram.hashes), dtype=np.bool_)
        others[rows] = False
        rest = histogram.rest + histogram.tracked[others].summed_by(
            histogram.key_buckets[others], histogram.buckets
        )
        slots = self.servers * self.slots_per_server
        before = None if self.previous is None else self.previous[operator]
        old_keys = np.full(len(rows), NEW, np.int32)
        old_buckets = np.arange(histogram.buckets, dtype=np.int32) % slots
        if before is not None:
            old_keys, old_buckets = before.slot_of_hashes(histogram.hashes[rows]), before.buckets
        home = np.where(old_buckets < slots, old_buckets // self.slots_per_server, NOWHERE)
        carried = sum_by(server, histogram.tracked.weights[rows], self.servers)
        # nothing has to stay where it is in a first plan, so the servers can be levelled at no cost
        level = (cap if before is not None else 1.0 / self.servers) * histogram.total
        bucket_server = _levelled(rest.weights, rest.state, home, carried, level)
        if before is None:
            old_buckets = np.full(histogram.buckets, NEW, np.int32)
        at = self._slots(
            np.concatenate([server, bucket_server]),
            np.concatenate([histogram.tracked.weights[rows], rest.weights]),
            np.concatenate([histogram.tracked.state[rows], rest.state]),
            np.concatenate([old_keys, old_buckets]),
        )
        keys, buckets = at[: len(rows)], at[len(rows) :]
        apart = (
            keys != buckets[histogram.key_buckets[rows]]
        )  # the others go with their bucket and need no row
        return RoutingTable.build(
            slots,
            buckets,
            histogram.keys.take(pa.array(rows[apart])),
            keys[apart],
            key_type=histogram.key_type,
            hashes=histogram.hashes[rows[apart]],
            version=before.version + 1 if before is not None else 1,
        )

    def _slots(
        self, server: NDArray[np.int32], load: Floats, state: Floats, old: NDArray[np.int32]
    ) -> NDArray[np.int32]:
        """The slot of each entry, on its server."""
        each = self.slots_per_server
        if each == 1:
            return server
        slot = np.empty(len(server), np.int32)
        for s in range(self.servers):
            mine = np.flatnonzero(server == s)
            here = np.where((old[mine] >= s * each) & (old[mine] < (s + 1) * each), old[mine] - s * each, NEW)
            if len(mine):
                slot[mine] = s * each + keel.spread(
                    load[mine], state[mine], here.astype(np.int32), each, self.target
                )
        return slot


def _levelled(
    load: Floats, state: Floats, old: NDArray[np.int32], carried: Floats, level: float
) -> NDArray[np.int32]:
    """The server of each bucket: its old one, unless that has more than `level` with the keys it carries.

    Then those leave that relieve it for the least state; the emptiest servers take them.
    """
    server = old.astype(np.int32)
    loads = carried + sum_by(server[server >= 0], load[server >= 0], len(carried))
    for full in np.flatnonzero(loads > level).tolist():
        mine = np.flatnonzero((server == full) & (load > 0))
        mine = mine[np.argsort(state[mine] / load[mine], kind="stable")]
        leaving = mine[: int(np.searchsorted(np.cumsum(load[mine]), loads[full] - level)) + 1]
        server[leaving] = NOWHERE
        loads[full] -= load[leaving].sum()
    waiting = np.flatnonzero(server == NOWHERE)
    busy, idle = waiting[load[waiting] > 0], waiting[load[waiting] == 0]
    server[busy] = fill(load[busy], loads)
    server[idle] = np.arange(len(idle)) % len(carried)  # keys that were not seen yet will come to them
    return server


def _described(
    tables: tuple[RoutingTable, ...],
    histograms: Sequence[Histogram],
    hops: Floats,
    weights: Floats,
    servers: int,
    slots_per_server: int,
    previous: Sequence[RoutingTable] | None,
    chosen: str,
) -> Chain:
    """The tables with their figures; `hops` has the locality and `weights` the pairs' records of each hop."""
    slots = [slot_loads(table, h) for table, h in zip(tables, histograms, strict=True)]
    on_servers = [loads.reshape(servers, slots_per_server).sum(axis=1) for loads in slots]
    joint = np.sum([loads / (loads.sum() or 1.0) for loads in on_servers], axis=0)
    moves = None
    if previous is not None:
        moves = tuple(migration(*each) for each in zip(previous, tables, histograms, strict=True))
    state = sum(h.total_state for h in histograms)
    return Chain(
        tables,
        servers,
        slots_per_server,
        min(1.0, float(hops @ weights / weights.sum())) if weights.any() else 1.0,
        tuple(hops.tolist()),
        tuple(imbalance(loads) for loads in slots),
        tuple(imbalance(loads) for loads in on_servers),
        imbalance(joint),
        moves,
        sum(move.state for move in moves) / state if moves and state else 0.0,
        chosen,
    )


def _choice(ways: list[Chain], worth: float, limits: Floats) -> Chain:
    """The most locality for the least movement, of those that are as even as wanted or nearly as even as any."""
    even = max(1.0, min(_excess(way, limits) for way in ways)) + _NEAR
    fair = [way for way in ways if _excess(way, limits) <= even]
    return max(fair, key=lambda way: (way.locality - worth * way.moved, -way.moved))


def _excess(way: Chain, limits: Floats) -> float:
    """How full the fullest server is, in units of what is wanted, of the operator for which that is most."""
    return float((np.array(way.server_imbalance) / limits).max())


def _unmeasured(
    histograms: Sequence[Histogram], slots: int, previous: Sequence[RoutingTable] | None
) -> tuple[RoutingTable, ...]:
    """Nothing was measured: the previous tables if they fit, else plain hashing."""
    if previous is not None and all(table.slots == slots for table in previous):
        return tuple(previous)
    return tuple(RoutingTable.hashed(slots, h.buckets, h.key_type) for h in histograms)


def _check(
    histograms: Sequence[Histogram],
    pairs: Sequence[PairHistogram],
    servers: int,
    slots_per_server: int,
    previous: Sequence[RoutingTable] | None,
    imbalance: float,
    worth: float,
    target: float,
) -> None:
    if len(histograms) < 2 or len(pairs) != len(histograms) - 1:
        raise ValueError(
            f"{len(histograms)} histograms and {len(pairs)} of pairs: a chain of k operators, 2 or more, has k "
            "histograms and k - 1 of the pairs between them"
        )
    for name, number in (("servers", servers), ("slots_per_server", slots_per_server)):
        if isinstance(number, bool) or not isinstance(number, int | np.integer) or number < 1:
            raise ValueError(f"{name} is a whole number of at least 1, not {number!r}")
    for histogram in histograms:
        check_slots(servers * slots_per_server, histogram.buckets)
    for o, hop in enumerate(pairs):
        for at, key_type in zip((o, o + 1), hop.key_types, strict=True):
            if len(hop) and histograms[at].total == 0:
                raise ValueError(
                    f"there are pairs with keys of operator {at}, but its histogram is empty: measure both at once"
                )
            if len(hop) and not pa.types.is_null(key_type) and not key_type.equals(histograms[at].key_type):
                raise ValueError(
                    f"the pairs have {key_type} keys for operator {at}, its histogram {histograms[at].key_type} keys"
                )
    if previous is not None:
        if len(previous) != len(histograms):
            raise ValueError(f"{len(previous)} previous tables for {len(histograms)} operators")
        for table, histogram in zip(previous, histograms, strict=True):
            check_match(table, histogram)
    if not imbalance > 1.0:
        raise ValueError(
            f"imbalance is the most load of a server over the mean, above 1, not {imbalance}: try 1.03"
        )
    if not 0.0 <= worth < np.inf:
        raise ValueError(f"worth is the locality that justifies moving all state, 0 or more, not {worth}")
    if not target >= 0.0:
        raise ValueError(
            f"target is the tolerated excess of a slot over the mean of its server, not {target}"
        )
