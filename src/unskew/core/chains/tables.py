"""The tables of chained operators and what they achieve together: records that stay, even loads, state that moves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from unskew.core.chains.pairs import PairHistogram
from unskew.core.chains.servers import Servers
from unskew.core.histogram import DEFAULT_BUCKETS, Floats, Histogram
from unskew.core.loads import Migration, imbalance, migration, slot_loads
from unskew.core.routing import RoutingTable


@dataclass(frozen=True, eq=False)
class ChainTables:
    """A table for each of several chained operators, and what the tables will do.

    `histograms` are those of the operators; `server_of_slot` has the server of each of their slots. `locality` is
    the share of the counted pairs' records whose two keys are on one server, and `hops` the same for each two
    successive operators; with hashing it is about 1 / `servers`. `imbalance` is max/mean over the slots of each
    operator, `server_imbalance` over the servers, and `joint_imbalance` over the servers with the operators' shares
    summed, which is what METIS bounds. `migration` is what moves against the previous tables (None for a first
    plan), `moved` is that as a share of all state, and `chosen` names the candidate that was taken: "metis",
    "refined" or "kept".
    """

    tables: tuple[RoutingTable, ...]
    histograms: tuple[Histogram, ...]
    servers: int
    server_of_slot: tuple[NDArray[np.int32], ...]
    locality: float
    hops: tuple[float, ...]
    imbalance: tuple[float, ...]
    server_imbalance: tuple[float, ...]
    joint_imbalance: float
    migration: tuple[Migration, ...] | None = None
    moved: float = 0.0
    chosen: str = "metis"

    @classmethod
    def of(
        cls,
        tables: Sequence[RoutingTable],
        histograms: Sequence[Histogram],
        servers: Servers,
        hops: Floats,
        weights: Floats,
        previous: Sequence[RoutingTable] | None,
        chosen: str,
    ) -> ChainTables:
        """The tables with their figures; `hops` has the locality and `weights` the pairs' records of each hop."""
        by_slot = [slot_loads(table, h) for table, h in zip(tables, histograms, strict=True)]
        by_server = [
            np.array([loads[own].sum() for own in servers.slots_by_server(o)])
            for o, loads in enumerate(by_slot)
        ]
        joint = np.sum([loads / (loads.sum() or 1.0) for loads in by_server], axis=0)
        moves = None
        if previous is not None:
            changes = zip(previous, tables, histograms, strict=True)
            moves = tuple(migration(old, new, h) for old, new, h in changes)
        state = sum(h.total_state for h in histograms)
        return cls(
            tuple(tables),
            tuple(histograms),
            servers.count,
            servers.of_slot,
            overall_locality(hops, weights),
            tuple(hops.tolist()),
            tuple(imbalance(loads) for loads in by_slot),
            tuple(imbalance(loads) for loads in by_server),
            imbalance(joint),
            moves,
            sum(move.state for move in moves) / state if moves and state else 0.0,
            chosen,
        )

    def __repr__(self) -> str:
        imbalances = " ".join(f"{figure:.3f}" for figure in self.imbalance)
        return (
            f"ChainTables({len(self.tables)} operators, {self.servers} servers, locality {self.locality:.3f}, "
            f"imbalance {imbalances}, moved {self.moved:.3f}, {self.chosen})"
        )


def local_shares(
    tables: Sequence[RoutingTable],
    pairs: Sequence[PairHistogram],
    slots_per_server: int = 1,
    server_of_slot: Sequence[ArrayLike] | None = None,
) -> tuple[float, ...]:
    """For each two successive operators, the share of the counted pairs' records that stay on their server.

    `server_of_slot` has one array per operator; without it slot s is on server s // `slots_per_server`.

    >>> pairs = PairHistogram.from_pairs([1, 2, 3, 4], [1, 2, 3, 4])
    >>> tables = [RoutingTable.hashed(2, 8), RoutingTable.hashed(2, 8)]
    >>> local_shares(tables, [pairs]), local_shares(tables, [pairs], server_of_slot=[[0, 1], [1, 0]])
    ((1.0,), (0.0,))
    """
    if server_of_slot is None:
        of_slot = [np.arange(table.slots) // slots_per_server for table in tables]
    else:
        of_slot = [np.asarray(servers) for servers in server_of_slot]
    shares = []
    hops = zip(pairwise(tables), pairwise(of_slot), pairs, strict=True)
    for (table_a, table_b), (servers_a, servers_b), hop in hops:
        server_a = servers_a[table_a.slot_of_hashes(hop.hashes_a)]
        server_b = servers_b[table_b.slot_of_hashes(hop.hashes_b)]
        local = server_a == server_b
        shares.append(float(hop.counts @ local / hop.counts.sum()) if len(hop) else 1.0)
    return tuple(shares)


def expected_locality(
    tables: Sequence[RoutingTable],
    pairs: Sequence[PairHistogram],
    servers: int,
    server_of_slot: Sequence[ArrayLike],
) -> float:
    """The share of records that will stay, judged by pairs that the tables were not planned with.

    Tables also fit what is chance in the pairs they were planned with, so those would promise too much. Records of
    pairs that were not counted are taken to stay as often as with hashing.

    >>> tables = [RoutingTable.hashed(2, 8), RoutingTable.hashed(2, 8)]
    >>> pairs = PairHistogram.from_pairs([1, 2, 3, 4], [1, 2, 3, 4])
    >>> [expected_locality(tables, [counted], 2, [[0, 1], [0, 1]]) for counted in (pairs, pairs.trimmed(2))]
    [1.0, 0.75]
    """
    shares = local_shares(tables, pairs, server_of_slot=server_of_slot)
    covered = [hop.covered for hop in pairs]
    hops = [share * part + (1.0 - part) / servers for share, part in zip(shares, covered, strict=True)]
    return overall_locality(hops, np.array([hop.total for hop in pairs]))


def overall_locality(hops: ArrayLike, weights: Floats) -> float:
    """The share of all pairs' records that stay, from that of each hop and its records; 1 if there are no records.

    >>> overall_locality([1.0, 0.5], np.array([30.0, 10.0]))
    0.875
    """
    return min(1.0, float(np.asarray(hops) @ weights / weights.sum())) if weights.any() else 1.0


def hop_records(pairs: Sequence[PairHistogram]) -> Floats:
    """The counted records of each hop."""
    return np.array([hop.counts.sum() for hop in pairs])


def hashed_chain(
    key_types: Sequence[pa.DataType], slots: int, buckets: int = DEFAULT_BUCKETS
) -> tuple[RoutingTable, ...]:
    """Plain hashing with a different hash for each operator, which the paper compares with: about 1 / servers stays.

    >>> first, second = hashed_chain([pa.int64(), pa.int64()], slots=2, buckets=1024)
    >>> 0.45 < float((first.buckets == second.buckets).mean()) < 0.55
    True
    """
    return tuple(hashed_table(o, slots, buckets, key_type) for o, key_type in enumerate(key_types))


def hashed_table(operator: int, slots: int, buckets: int, key_type: pa.DataType) -> RoutingTable:
    """Plain hashing for operator number `operator` of a chain.

    Buckets of all operators come from one hash, under which equal keys of two operators would always meet on one
    server; so the buckets of each operator after the first are shuffled.
    """
    plain = RoutingTable.hashed(slots, buckets, key_type)
    if operator == 0:
        return plain
    order = np.random.default_rng(operator).permutation(buckets)
    return RoutingTable.build(slots, plain.buckets[order], key_type=key_type)
