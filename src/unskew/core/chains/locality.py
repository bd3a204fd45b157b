"""Plan the tables of chained operators: correlated keys on one server, so that records need not cross the network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from unskew.core.chains.graph import ChainKeys, KeyGraph
from unskew.core.chains.metis import partition, renumber_parts
from unskew.core.chains.operator_table import TableBuilder
from unskew.core.chains.pairs import PairHistogram
from unskew.core.chains.refinement import improve_locality, relieve_servers
from unskew.core.chains.servers import NOWHERE, Servers
from unskew.core.chains.tables import ChainTables, hop_records, local_shares, overall_locality
from unskew.core.histogram import Floats, Histogram, sum_by
from unskew.core.loads import check_match
from unskew.core.routing import RoutingTable, check_slots
from unskew.core.scheduling import fill, longest_first

# Between candidates whose imbalance differs by less than this, locality and movement decide.
_NEAR = 0.01


def plan_chain_tables(
    histograms: Sequence[Histogram],
    pairs: Sequence[PairHistogram],
    servers: int,
    slots_per_server: int = 1,
    previous: Sequence[RoutingTable] | None = None,
    *,
    server_of_slot: Sequence[ArrayLike] | None = None,
    imbalance: float = 1.03,
    worth: float = 0.1,
    target: float = 0.01,
    seed: int = 0,
) -> ChainTables:
    """Tables for k operators, from the histogram of each and the k − 1 histograms of pairs between them.

    Guarantee: no server has more of an operator's load than `imbalance` × max(1 / servers, heaviest key), or, where
    its keys and buckets are too large for that, than the mean plus the heaviest of them; a server's slots are within
    1 + `target` of their mean where `keel` can reach that. Keys that were not measured go with their bucket, by
    hash. Deterministic for a seed. Cost: METIS and several passes over the pairs, linear in their number.

    The keys that occur in pairs are the vertices of a graph, each weighing its share of its operator's load; an edge
    weighs the records of its pair. METIS divides the graph among the servers (k-way, `imbalance`, `seed`), cutting
    few records. METIS bounds only the operators' summed load, so keys are then moved until no server has more
    than `imbalance` × its share of any one operator, and further while that gains locality. Buckets, which hold all
    other keys, level the servers; every server's entries are spread over its slots the way `keel` does. A key that
    occurs in pairs but is not tracked by its histogram is taken out of its bucket with the load that its pairs
    suggest.

    Slot s of every operator is on server s // `slots_per_server`, unless `server_of_slot` says where the scheduler
    put them: for each operator, the server of each of its slots. Operators, and servers, may then have different
    numbers of slots: servers are taken to be equally strong, so each gets the same share of an operator's load. What
    the previous tables gave to a slot is on the server that has the slot now.

    With `previous` the parts get the server numbers that leave the most state in place. Three candidates are
    compared: a new division by METIS, the previous tables with single keys moved, and the previous tables as they
    are. `worth` is the exchange rate: moving all state is justified by gaining that much locality (0: movement is
    free). Of the candidates within the balance asked for, or within the best balance reached, the one with the
    largest locality − `worth` × share of the state moved is taken; single keys move by the same rule.

    Caneill et al., "Locality-aware routing in stateful streaming applications", sections 3.2 and 3.3, where
    a server has one slot and movement is free.

    >>> regions, tags = ["Asia", "Asia", "Oceania", "Oceania"], ["#java", "#ruby", "#python", "#perl"]
    >>> sides = [Histogram.from_keys(keys, buckets=8) for keys in (regions, tags)]
    >>> plan_chain_tables(sides, [PairHistogram.from_pairs(regions, tags)], servers=2)
    ChainTables(2 operators, 2 servers, locality 1.000, imbalance 1.000 1.000, moved 0.000, metis)
    """
    _check(histograms, pairs, previous, imbalance, worth, target)
    layout = _layout(histograms, servers, slots_per_server, server_of_slot)
    if all(h.total == 0 for h in histograms):
        tables, records = _unmeasured_tables(histograms, layout, previous), np.zeros(len(pairs))
        return ChainTables.of(tables, histograms, layout, records + 1.0, records, previous, "kept")
    keys = ChainKeys.of(histograms, pairs, layout, previous)
    problem = _Problem(keys, pairs, layout, previous, imbalance, target)
    graph, caps = keys.graph, problem.caps

    def refine(server: NDArray[np.int32], price: float) -> NDArray[np.int32]:
        relieved = relieve_servers(graph, server, caps, servers, price)
        return improve_locality(graph, relieved, caps, servers, price)

    parts = _divide(graph, servers, imbalance, seed)
    if previous is None:
        return problem.build(refine(parts, 0.0), "metis")
    present = graph.old.copy()
    homeless = np.flatnonzero(present == NOWHERE)
    settled = present >= 0
    present[homeless] = fill(graph.load[homeless], sum_by(present[settled], graph.load[settled], servers))
    candidates = [problem.build(refine(present, worth), "refined")]
    if layout.fit(previous):
        # first, because the first of equally good candidates is taken
        candidates.insert(0, problem.build(present, "kept"))
    best = problem.choose(candidates, worth)
    division = refine(renumber_parts(graph, parts, servers), worth)
    # buckets and slots can only add to what moves, so this is the most that the division can be worth
    promise = graph.locality(division) - worth * graph.moved(division)
    if problem.excess(best) > 1.0 + _NEAR or promise > best.locality - worth * best.moved:
        best = problem.choose([*candidates, problem.build(division, "metis")], worth)
    return best


def locality_over_pairs(
    histograms: Sequence[Histogram],
    pairs: Sequence[PairHistogram],
    servers: int,
    pair_counts: Sequence[int],
    *,
    seed: int = 0,
) -> dict[int, float]:
    """The locality of the records of all pairs when the planner gets only the most frequent pairs.

    For each number in `pair_counts`, that many pairs of each hop are planned with. This shows how many pairs are
    worth counting: Figure 12 of Caneill et al.
    """
    records = hop_records(pairs)
    localities = {}
    for count in pair_counts:
        chain = plan_chain_tables(histograms, [hop.trimmed(count) for hop in pairs], servers, seed=seed)
        localities[count] = overall_locality(local_shares(chain.tables, pairs), records)
    return localities


def _divide(graph: KeyGraph, servers: int, imbalance: float, seed: int) -> NDArray[np.int32]:
    """The part of each vertex: by METIS, or for balance alone where there are no pairs."""
    if servers > 1 and len(graph.weight):
        return partition(graph, servers, imbalance, seed)
    parts = [longest_first(graph.load[graph.vertices(o)], servers) for o in range(graph.operators)]
    return np.concatenate(parts)


@dataclass(frozen=True, eq=False)
class _Problem:
    """What all candidates for one chain have in common: what was measured, and what is asked for."""

    keys: ChainKeys
    pairs: Sequence[PairHistogram]
    servers: Servers
    previous: Sequence[RoutingTable] | None
    imbalance: float
    target: float

    @property
    def limits(self) -> Floats:
        """The highest imbalance of the servers that is acceptable, for each operator."""
        heaviest = [h.heaviest_share * self.servers.count for h in self.keys.histograms]
        return self.imbalance * np.maximum(1.0, heaviest)

    @property
    def slot_limits(self) -> Floats:
        """The same for the slots: the servers' limits, with each server spread over its slots."""
        limits = []
        for o, (limit, h) in enumerate(zip(self.limits, self.keys.histograms, strict=True)):
            fewest = min(len(own) for own in self.servers.slots_by_server(o))
            slots = self.servers.slots(o)
            spread = limit * slots / (self.servers.count * fewest)
            limits.append(max(spread, self.imbalance * slots * h.heaviest_share) * (1.0 + self.target))
        return np.array(limits)

    @property
    def caps(self) -> Floats:
        """The share of each operator's load that a server may have."""
        return self.limits / self.servers.count

    def build(self, server: NDArray[np.int32], candidate: str) -> ChainTables:
        """The tables that put each vertex of the graph on its server; for "kept" the previous tables."""
        graph = self.keys.graph
        if candidate == "kept" and self.previous is not None:
            tables = tuple(self.previous)
        else:
            vertices = [server[graph.vertices(o)] for o in range(graph.operators)]
            tables = tuple(map(self._table, range(graph.operators), vertices, self.caps.tolist()))
        # the tables send every key of a pair to its server, so there is no need to look the keys up
        local = graph.weight * (server[graph.left] == server[graph.right])
        count = len(self.pairs)
        hop_of_pair = np.repeat(np.arange(count), [len(hop) for hop in self.pairs])
        weights = sum_by(hop_of_pair, graph.weight, count)
        hops = np.divide(sum_by(hop_of_pair, local, count), weights, out=np.ones(count), where=weights > 0)
        histograms = self.keys.histograms
        return ChainTables.of(tables, histograms, self.servers, hops, weights, self.previous, candidate)

    def _table(self, operator: int, server: NDArray[np.int32], cap: float) -> RoutingTable:
        histogram, rows = self.keys.histograms[operator], self.keys.rows[operator]
        previous = None if self.previous is None else self.previous[operator]
        builder = TableBuilder(operator, histogram, rows, self.servers, previous)
        return builder.build(server, cap, self.target)

    def choose(self, candidates: list[ChainTables], worth: float) -> ChainTables:
        """The most locality for the least movement, among candidates within the limits or close to the most even."""
        most = max(1.0, min(map(self.excess, candidates))) + _NEAR
        even = [chain for chain in candidates if self.excess(chain) <= most]
        return max(even, key=lambda chain: (chain.locality - worth * chain.moved, -chain.moved))

    def excess(self, chain: ChainTables) -> float:
        """How full the fullest server or slot is, as a multiple of its limit, over all operators."""
        servers = np.array(chain.server_imbalance) / self.limits
        return float(max(servers.max(), (np.array(chain.imbalance) / self.slot_limits).max()))


def _unmeasured_tables(
    histograms: Sequence[Histogram], servers: Servers, previous: Sequence[RoutingTable] | None
) -> tuple[RoutingTable, ...]:
    """Nothing was measured: the previous tables if they fit, else plain hashing."""
    if previous is not None and servers.fit(previous):
        return tuple(previous)
    return tuple(
        RoutingTable.hashed(servers.slots(o), h.buckets, h.key_type) for o, h in enumerate(histograms)
    )


def _layout(
    histograms: Sequence[Histogram],
    servers: int,
    slots_per_server: int,
    server_of_slot: Sequence[ArrayLike] | None,
) -> Servers:
    """The server of every slot, checked."""
    if server_of_slot is None:
        layout = Servers.in_order(servers, slots_per_server, len(histograms))
    elif len(server_of_slot) != len(histograms):
        raise ValueError(
            f"server_of_slot is for {len(server_of_slot)} operators, but the chain has {len(histograms)}"
        )
    else:
        layout = Servers.of(servers, server_of_slot)
    for o, histogram in enumerate(histograms):
        check_slots(layout.slots(o), histogram.buckets)
    return layout


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
            f"{len(histograms)} histograms and {len(pairs)} of pairs: a chain of k operators, 2 or more, needs k "
            "histograms and k - 1 of the pairs between them"
        )
    for o, hop in enumerate(pairs):
        for at, key_type in zip((o, o + 1), hop.key_types, strict=True):
            if len(hop) and histograms[at].total == 0:
                raise ValueError(
                    f"there are pairs with keys of operator {at}, but its histogram is empty: measure both together"
                )
            if len(hop) and not pa.types.is_null(key_type) and not key_type.equals(histograms[at].key_type):
                raise ValueError(
                    f"the pairs have {key_type} keys for operator {at}, but its histogram has "
                    f"{histograms[at].key_type} keys: cast one of them"
                )
    if previous is not None:
        if len(previous) != len(histograms):
            raise ValueError(f"{len(previous)} previous tables for {len(histograms)} operators")
        for table, histogram in zip(previous, histograms, strict=True):
            check_match(table, histogram)
    check_options(imbalance, worth, target)


def check_options(imbalance: float = 1.03, worth: float = 0.1, target: float = 0.01, seed: int = 0) -> None:
    """Refuse options of `plan_chain_tables` that make no sense."""
    for name, number in (("imbalance", imbalance), ("worth", worth), ("target", target), ("seed", seed)):
        if isinstance(number, bool) or not isinstance(number, int | float | np.integer | np.floating):
            raise ValueError(f"{name} is a number, not {number!r}")
    if not imbalance > 1.0:
        raise ValueError(
            f"imbalance is the highest load of a server over the mean, above 1, not {imbalance}: try 1.03"
        )
    if not 0.0 <= worth < np.inf:
        raise ValueError(f"worth is the locality that justifies moving all state, 0 or more, not {worth}")
    if not target >= 0.0:
        raise ValueError(
            f"target is the tolerated excess of a slot over the mean of its server, 0 or more, not {target}"
        )
