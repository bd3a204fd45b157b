"""The keys of a chain as a graph: a vertex for each key that is placed individually, an edge for each pair."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.core.chains.pairs import PairHistogram
from unskew.core.chains.servers import NOWHERE, Index, Servers
from unskew.core.hashing import Hashes, buckets_of
from unskew.core.histogram import Floats, Histogram, Measures, sum_by
from unskew.core.routing import RoutingTable

GRAIN = 0.1
"""A key with this share of a mean slot's load is placed individually even if it occurs in no counted pair."""


@dataclass(frozen=True, eq=False)
class KeyGraph:
    """A vertex for each (operator, key), an edge for each counted pair of keys of successive operators.

    The vertices of operator o are `bounds[o]` to `bounds[o + 1]`. All figures are shares: `load` of the load of
    the key's operator, `state` of the state of all operators, `weight` of the records of all pairs. `old` is the
    server that has the key now. The methods take the `server` of each vertex.
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
        """The vertices of an operator."""
        return slice(int(self.bounds[operator]), int(self.bounds[operator + 1]))

    @cached_property
    def operator(self) -> Index:
        """The operator of each vertex."""
        return np.repeat(np.arange(self.operators), np.diff(self.bounds))

    @cached_property
    def adjacency(self) -> tuple[Index, Index, Floats]:
        """Where the edges of each vertex start, and the neighbour and the weight of each edge."""
        ends = np.concatenate([self.left, self.right])
        order = np.argsort(ends, kind="stable")
        starts = np.concatenate([[0], np.cumsum(np.bincount(ends, minlength=len(self.load)))])
        neighbours = np.concatenate([self.right, self.left])[order]
        return starts, neighbours, np.concatenate([self.weight, self.weight])[order]

    def locality(self, server: NDArray[np.int32]) -> float:
        """The share of the pairs' records whose two keys are on one server."""
        return float(self.weight[server[self.left] == server[self.right]].sum())

    def moved(self, server: NDArray[np.int32]) -> float:
        """The share of all state that would leave the server it is on."""
        return float(self.state[(server != self.old) & (self.old >= 0)].sum())

    def loads(self, server: NDArray[np.int32], servers: int) -> Floats:
        """The load of each server, one row per operator, as shares of the operator's load."""
        cells = self.operator * servers + server
        return sum_by(cells, self.load, self.operators * servers).reshape(self.operators, servers)


@dataclass(frozen=True, eq=False)
class ChainKeys:
    """The keys of a chain that are placed individually: those in pairs, those with a row now, and heavy ones.

    The histograms track every key of the pairs; `rows` has the rows of the keys in their histogram, operator by
    operator, in the order of the graph's vertices.
    """

    histograms: tuple[Histogram, ...]
    rows: tuple[Index, ...]
    graph: KeyGraph

    @classmethod
    def of(
        cls,
        histograms: Sequence[Histogram],
        pairs: Sequence[PairHistogram],
        servers: Servers,
        previous: Sequence[RoutingTable] | None,
    ) -> ChainKeys:
        """The keys to place and their graph, with the server that has each key now; edges in the order of the pairs."""
        sides = [_PairedKeys.of(pairs, o, histogram) for o, histogram in enumerate(histograms)]
        tracking = tuple(_track(histogram, side) for histogram, side in zip(histograms, sides, strict=True))
        key_rows, old_servers, pair_vertices, vertices = [], [], [], 0
        for o, (histogram, side) in enumerate(zip(tracking, sides, strict=True)):
            order = np.argsort(histogram.hashes)
            in_pairs = order[np.searchsorted(histogram.hashes, side.hashes, sorter=order)]
            least = max(GRAIN * histogram.total / servers.slots(o), np.finfo(float).tiny)
            placed = histogram.tracked.weights >= least
            placed[in_pairs] = True
            table = None if previous is None else previous[o]
            if table is not None:
                placed |= table.rows_of(histogram.hashes) >= 0
            rows = np.flatnonzero(placed)
            vertex = np.full(len(placed), NOWHERE)
            vertex[rows] = vertices + np.arange(len(rows))
            vertices += len(rows)
            key_rows.append(rows)
            pair_vertices.append(vertex[in_pairs])
            old = np.full(len(rows), NOWHERE, np.int32)
            if table is not None:
                old = servers.look_up(o, table.slot_of_hashes(histogram.hashes[rows]))
            old_servers.append(old)
        figures = [
            (h.tracked.weights[rows] / (h.total or 1.0), h.tracked.state[rows])
            for h, rows in zip(tracking, key_rows, strict=True)
        ]
        records = sum(float(hop.counts.sum()) for hop in pairs) or 1.0
        graph = KeyGraph(
            np.concatenate([[0], np.cumsum([len(rows) for rows in key_rows])]),
            np.concatenate([load for load, _ in figures]),
            np.concatenate([state for _, state in figures]) / (sum(h.total_state for h in tracking) or 1.0),
            np.concatenate(old_servers),
            np.concatenate([pair_vertices[o][sides[o].leaving] for o in range(len(pairs))]),
            np.concatenate([pair_vertices[o + 1][sides[o + 1].coming] for o in range(len(pairs))]),
            np.concatenate([hop.counts for hop in pairs]) / records,
        )
        return cls(tracking, tuple(key_rows), graph)


@dataclass(frozen=True, eq=False)
class _PairedKeys:
    """The keys of one operator that occur in pairs with the operator before or after it, and their records.

    `coming` and `leaving` have the number of the key in each pair with the operator before and after it.
    """

    keys: pa.Array
    hashes: Hashes
    counts: Floats
    coming: Index
    leaving: Index

    @classmethod
    def of(cls, pairs: Sequence[PairHistogram], operator: int, histogram: Histogram) -> _PairedKeys:
        """The keys of operator number `operator` of the chain, counted in its own records.

        Pairs may have been counted over more or fewer records: an operator need not emit as many as it takes in.
        """
        columns = []
        if operator > 0:
            before = pairs[operator - 1]
            columns.append((before.keys_b, before.hashes_b, before.counts * _scale(before, histogram)))
        split = len(columns[0][1]) if columns else 0
        if operator < len(pairs):
            after = pairs[operator]
            columns.append((after.keys_a, after.hashes_a, after.counts * _scale(after, histogram)))
        pair_hashes = np.concatenate([hashes for _, hashes, _ in columns])
        hashes, first, number = np.unique(pair_hashes, return_index=True, return_inverse=True)
        pair_keys = pa.concat_arrays([keys.cast(histogram.key_type) for keys, _, _ in columns])
        coming, leaving = number[:split], number[split:]
        # a record is counted once on either side, so the larger figure is nearer to the number of all records
        counts = np.maximum(
            sum_by(coming, columns[0][2] if split else np.zeros(0), len(hashes)),
            sum_by(leaving, columns[-1][2] if len(leaving) else np.zeros(0), len(hashes)),
        )
        return cls(pair_keys.take(pa.array(first)), hashes, counts, coming, leaving)


def _scale(pairs: PairHistogram, histogram: Histogram) -> float:
    return histogram.records / pairs.total if pairs.total else 1.0


def _track(histogram: Histogram, side: _PairedKeys) -> Histogram:
    """The histogram with every key of the pairs tracked: those it did not track take their part of their bucket."""
    new = np.flatnonzero(~np.isin(side.hashes, histogram.hashes))
    if not len(new):
        return histogram
    home, counts = buckets_of(side.hashes[new], histogram.buckets), side.counts[new]
    # a bucket that was measured with fewer records than its keys have in pairs is shared out among them
    whole = np.maximum(histogram.rest.counts, sum_by(home, counts, histogram.buckets))
    part = np.divide(counts, whole[home], out=np.zeros(len(new)), where=whole[home] > 0)
    key_figures = Measures(*(column[home] * part for column in histogram.rest.columns()))
    taken = key_figures.summed_by(home, histogram.buckets)
    rest = zip(histogram.rest.columns(), taken.columns(), strict=True)
    tracking = replace(
        histogram,
        keys=pa.concat_arrays([histogram.keys, side.keys.take(pa.array(new))]),
        hashes=np.concatenate([histogram.hashes, side.hashes[new]]),
        tracked=Measures(*map(np.append, histogram.tracked.columns(), key_figures.columns())),
        rest=Measures(*(np.maximum(before - less, 0.0) for before, less in rest)),
        rest_distinct=np.maximum(
            histogram.rest_distinct - np.bincount(home, minlength=histogram.buckets), 0.0
        ),
    )
    return tracking.trimmed(max(histogram.capacity, len(tracking.hashes)))
