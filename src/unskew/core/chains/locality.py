"""Tables for operators in a row: correlated keys on one server, so that records need not cross the network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from unskew.core.chains.chain import Chain, hop_records, local_shares, overall
from unskew.core.chains.graph import Measured
from unskew.core.chains.metis import NOWHERE, KeyGraph, climbed, metis, relabelled, relieved
from unskew.core.chains.pairs import PairHistogram
from unskew.core.chains.servers import Servers
from unskew.core.chains.tables import Operator
from unskew.core.histogram import Floats, Histogram, sum_by
from unskew.core.loads import check_match
from unskew.core.routing import RoutingTable, check_slots
from unskew.core.scheduling import fill, longest_first

_NEAR = 0.01  # of candidates whose imbalance differs by less, locality and movement decide


def plan_chain(
    histograms: Sequence[Histogram],
    pairs: Sequence[PairHistogram],
    servers: int,
    slots_per_server: int = 1,
    previous: Sequence[RoutingTable] | None = None,
    *,
    placed: Sequence[ArrayLike] | None = None,
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

    Slot s of every operator is on server s // `slots_per_server`, unless `placed` says where the scheduler put
    them: for each operator the server of each of its slots. Operators may then have different numbers of slots,
    and servers, too: they are taken to be equally strong, so each gets the same share of an operator's load. What
    the previous tables gave to a slot is on the server that has the slot now.

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
    _check(histograms, pairs, previous, imbalance, worth, target)
    where = _placed(histograms, servers, slots_per_server, placed)
    if all(h.total == 0 for h in histograms):
        tables, none = _unmeasured(histograms, where, previous), np.zeros(len(pairs))
        return Chain.of(tables, histograms, where, none + 1.0, none, previous, "kept")
    measured = Measured.of(histograms, pairs, where, previous)
    work = _Work(measured, pairs, where, previous, imbalance, target)
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
    if where.fit(previous):
        ways.insert(0, work.chain(stay, "kept"))  # the first of equally good ones is taken
    best = work.choice(ways, worth)
    anew = mended(relabelled(graph, parts, servers), worth)
    # buckets and slots can only add to what moves, so this is the most that these parts can be worth
    promise = graph.locality(anew) - worth * graph.moved(anew)
    if work.excess(best) > 1.0 + _NEAR or promise > best.locality - worth * best.moved:
        best = work.choice([*ways, work.chain(anew, "metis")], worth)
    return best


def locality_over_pairs(
    histograms: Sequence[Histogram],
    pairs: Sequence[PairHistogram],
    servers: int,
    kept: Sequence[int],
    *,
    seed: int = 0,
) -> dict[int, float]:
    """How local the records of all pairs become when only the most frequent pairs are known to the planner.

    For each number in `kept` that many pairs of each hop are planned with. It tells how many are worth counting:
    Figure 12 of Caneill et al.
    """
    records = hop_records(pairs)
    reached = {}
    for most in kept:
        chain = plan_chain(histograms, [hop.trimmed(most) for hop in pairs], servers, seed=seed)
        reached[most] = overall(local_shares(chain.tables, pairs), records)
    return reached


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
    servers: Servers
    previous: Sequence[RoutingTable] | None
    imbalance: float
    target: float

    @property
    def limits(self) -> Floats:
        """The imbalance of the servers that is wanted, for each operator."""
        return np.array(
            [
                self.imbalance * max(1.0, h.heaviest_share * self.servers.count)
                for h in self.measured.histograms
            ]
        )

    @property
    def slot_limits(self) -> Floats:
        """The imbalance of the slots that is wanted: that of the servers, each spread over its slots."""
        found = []
        for o, (limit, h) in enumerate(zip(self.limits, self.measured.histograms, strict=True)):
            fewest = min(len(own) for own in self.servers.own(o))
            slots = self.servers.slots(o)
            spread = max(
                limit * slots / (self.servers.count * fewest), self.imbalance * slots * h.heaviest_share
            )
            found.append(spread * (1.0 + self.target))
        return np.array(found)

    @property
    def caps(self) -> Floats:
        """The share of each operator's load that a server may have."""
        return self.limits / self.servers.count

    def chain(self, server: NDArray[np.int32], way: str) -> Chain:
        """The tables that put each vertex of the graph on its server, or for "kept" those that there are."""
        graph = self.measured.graph
        if way == "kept" and self.previous is not None:
            tables = tuple(self.previous)
        else:
            vertices = [server[graph.vertices(o)] for o in range(graph.operators)]
            tables = tuple(map(self._table, range(graph.operators), vertices, self.caps.tolist()))
        # the tables send every key of a pair to its server, so they need not be asked
        local = graph.weight * (server[graph.left] == server[graph.right])
        hop = np.repeat(np.arange(len(self.pairs)), [len(each) for each in self.pairs])
        shares = sum_by(hop, local, len(self.pairs)), sum_by(hop, graph.weight, len(self.pairs))
        hops = np.divide(*shares, out=np.ones(len(self.pairs)), where=shares[1] > 0)
        return Chain.of(tables, self.measured.histograms, self.servers, hops, shares[1], self.previous, way)

    def _table(self, operator: int, server: NDArray[np.int32], cap: float) -> RoutingTable:
        histogram, rows = self.measured.histograms[operator], self.measured.placed[operator]
        before = None if self.previous is None else self.previous[operator]
        return Operator(operator, histogram, rows, self.servers, before).table(server, cap, self.target)

    def choice(self, ways: list[Chain], worth: float) -> Chain:
        """The most locality for the least movement, of those that are as even as wanted or nearly as even as any."""
        even = max(1.0, min(map(self.excess, ways))) + _NEAR
        fair = [way for way in ways if self.excess(way) <= even]
        return max(fair, key=lambda way: (way.locality - worth * way.moved, -way.moved))

    def excess(self, way: Chain) -> float:
        """How full the fullest server or slot is, in units of what is wanted, of the operator that is worst."""
        servers = np.array(way.server_imbalance) / self.limits
        return float(max(servers.max(), (np.array(way.imbalance) / self.slot_limits).max()))


def _unmeasured(
    histograms: Sequence[Histogram], servers: Servers, previous: Sequence[RoutingTable] | None
) -> tuple[RoutingTable, ...]:
    """Nothing was measured: the previous tables if they fit, else plain hashing."""
    if previous is not None and servers.fit(previous):
        return tuple(previous)
    return tuple(
        RoutingTable.hashed(servers.slots(o), h.buckets, h.key_type) for o, h in enumerate(histograms)
    )


def _placed(
    histograms: Sequence[Histogram],
    servers: int,
    slots_per_server: int,
    placed: Sequence[ArrayLike] | None,
) -> Servers:
    """Where the slots are, checked."""
    if placed is None:
        where = Servers.in_order(servers, slots_per_server, len(histograms))
    elif len(placed) != len(histograms):
        raise ValueError(f"the slots of {len(placed)} operators are placed, but there are {len(histograms)}")
    else:
        where = Servers.of(servers, placed)
    for o, histogram in enumerate(histograms):
        check_slots(where.slots(o), histogram.buckets)
    return where


def _check(
    histograms: Sequence[Histogram],
    pairs: Sequence[PairHistogram],
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
    check_options(imbalance, worth, target)


def check_options(imbalance: float = 1.03, worth: float = 0.1, target: float = 0.01, seed: int = 0) -> None:
    """Refuse options of `plan_chain` that cannot be meant."""
    for name, number in (("imbalance", imbalance), ("worth", worth), ("target", target), ("seed", seed)):
        if isinstance(number, bool) or not isinstance(number, int | float | np.integer | np.floating):
            raise ValueError(f"{name} is a number, not {number!r}")
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
