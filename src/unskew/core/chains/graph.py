"""From the measurements of a chain of operators to the graph of its keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from unskew.core.chains.metis import NOWHERE, Index, KeyGraph
from unskew.core.chains.pairs import PairHistogram
from unskew.core.chains.servers import Servers
from unskew.core.hashing import Hashes, buckets_of
from unskew.core.histogram import Floats, Histogram, Measures, sum_by
from unskew.core.routing import RoutingTable

GRAIN = 0.1
"""A key with this share of a mean slot's load is placed by itself even if no pair is known of it."""


@dataclass(frozen=True, eq=False)
class Measured:
    """The keys of a chain that are placed one by one: those in pairs, those with a row now, and heavy ones.

    The histograms track every key of the pairs; `placed` has the rows of the keys to place, operator by operator,
    in the order of the graph's vertices.
    """

    histograms: tuple[Histogram, ...]
    placed: tuple[Index, ...]
    graph: KeyGraph

    @classmethod
    def of(
        cls,
        histograms: Sequence[Histogram],
        pairs: Sequence[PairHistogram],
        servers: Servers,
        previous: Sequence[RoutingTable] | None,
    ) -> Measured:
        """The graph, with the server that has each key now; an edge for every pair, hop after hop."""
        sides = [_Side.of(pairs, o, histogram) for o, histogram in enumerate(histograms)]
        tracking = tuple(_tracking(h, side) for h, side in zip(histograms, sides, strict=True))
        placed, old, number, first = [], [], [], 0
        for o, (histogram, side) in enumerate(zip(tracking, sides, strict=True)):
            order = np.argsort(histogram.hashes)
            in_pairs = order[np.searchsorted(histogram.hashes, side.hashes, sorter=order)]
            least = max(GRAIN * histogram.total / servers.slots(o), np.finfo(float).tiny)
            wanted = histogram.tracked.weights >= least
            wanted[in_pairs] = True
            before = None if previous is None else previous[o]
            if before is not None:
                wanted |= before.rows_of(histogram.hashes) >= 0
            rows = np.flatnonzero(wanted)
            vertex = np.full(len(wanted), NOWHERE)
            vertex[rows] = first + np.arange(len(rows))
            first += len(rows)
            placed.append(rows)
            number.append(vertex[in_pairs])
            now = np.full(len(rows), NOWHERE, np.int32)
            if before is not None:
                now = servers.holding(o, before.slot_of_hashes(histogram.hashes[rows]))
            old.append(now)
        columns = [
            (h.tracked.weights[rows] / (h.total or 1.0), h.tracked.state[rows])
            for h, rows in zip(tracking, placed, strict=True)
        ]
        records = sum(float(hop.counts.sum()) for hop in pairs) or 1.0
        graph = KeyGraph(
            np.concatenate([[0], np.cumsum([len(rows) for rows in placed])]),
            np.concatenate([load for load, _ in columns]),
            np.concatenate([state for _, state in columns]) / (sum(h.total_state for h in tracking) or 1.0),
            np.concatenate(old),
            np.concatenate([number[o][sides[o].leaving] for o in range(len(pairs))]),
            np.concatenate([number[o + 1][sides[o + 1].coming] for o in range(len(pairs))]),
            np.concatenate([hop.counts for hop in pairs]) / records,
        )
        return cls(tracking, tuple(placed), graph)


@dataclass(frozen=True, eq=False)
class _Side:
    """The keys of one operator that occur in pairs, with those before or after it, and in how many records.

    `coming` and `leaving` have the key of each pair, as a number, at either side of the operator.
    """

    keys: pa.Array
    hashes: Hashes
    counts: Floats
    coming: Index
    leaving: Index

    @classmethod
    def of(cls, pairs: Sequence[PairHistogram], operator: int, histogram: Histogram) -> _Side:
        """The keys of operator number `operator` of the chain, counted in its own records.

        Pairs may have been counted over more or fewer: an operator need not put out as many as it takes in.
        """
        seen = []
        if operator > 0:
            before = pairs[operator - 1]
            seen.append((before.keys_b, before.hashes_b, before.counts * _unit(before, histogram)))
        split = len(seen[0][1]) if seen else 0
        if operator < len(pairs):
            after = pairs[operator]
            seen.append((after.keys_a, after.hashes_a, after.counts * _unit(after, histogram)))
        every = np.concatenate([hashes for _, hashes, _ in seen])
        hashes, first, number = np.unique(every, return_index=True, return_inverse=True)
        keys = pa.concat_arrays([keys.cast(histogram.key_type) for keys, _, _ in seen]).take(pa.array(first))
        coming, leaving = number[:split], number[split:]
        # one record is counted once on either side: the larger figure is nearer to all of them
        counts = np.maximum(
            sum_by(coming, seen[0][2] if split else np.zeros(0), len(hashes)),
            sum_by(leaving, seen[-1][2] if len(leaving) else np.zeros(0), len(hashes)),
        )
        return cls(keys, hashes, counts, coming, leaving)


def _unit(pairs: PairHistogram, histogram: Histogram) -> float:
    return histogram.records / pairs.total if pairs.total else 1.0


def _tracking(histogram: Histogram, side: _Side) -> Histogram:
    """The histogram with every key of the pairs tracked: those it did not track get their part of their bucket."""
    new = np.flatnonzero(~np.isin(side.hashes, histogram.hashes))
    if not len(new):
        return histogram
    home, counts = buckets_of(side.hashes[new], histogram.buckets), side.counts[new]
    whole = np.maximum(histogram.rest.counts, sum_by(home, counts, histogram.buckets))
    # a bucket that was seen with fewer records than its keys in pairs is shared out among them
    part = np.divide(counts, whole[home], out=np.zeros(len(new)), where=whole[home] > 0)
    taken = Measures(*(column[home] * part for column in histogram.rest.columns()))
    given = taken.summed_by(home, histogram.buckets)
    tracked = replace(
        histogram,
        keys=pa.concat_arrays([histogram.keys, side.keys.take(pa.array(new))]),
        hashes=np.concatenate([histogram.hashes, side.hashes[new]]),
        tracked=Measures(*map(np.append, histogram.tracked.columns(), taken.columns())),
        rest=Measures(
            *(np.maximum(h - g, 0.0) for h, g in zip(histogram.rest.columns(), given.columns(), strict=True))
        ),
        rest_distinct=np.maximum(
            histogram.rest_distinct - np.bincount(home, minlength=histogram.buckets), 0.0
        ),
    )
    return tracked.trimmed(max(histogram.capacity, len(tracked.hashes)))
