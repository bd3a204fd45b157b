"""Tables between two tables: where a partly done migration leads, and how far to go in one batch.

Every table made here sends each key where one of the two tables sends it, so no key goes to a third slot.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.core.hashing import Hashes, buckets_of, key_iter, key_repr
from unskew.core.histogram import Floats, Histogram, sum_by
from unskew.core.loads import Measure, check_match, slot_loads
from unskew.core.routing import RoutingTable, Slots

# Sums of shares are not exact in floats, so a budget may be exceeded by this fraction of itself.
_ROUNDING = 1e-9


def table_after(table: RoutingTable, target: RoutingTable, exporters: Iterable[int]) -> RoutingTable:
    """The table in force once the `exporters` have exported: `target` for the keys they held, else `table`.

    A key is held by its slot in `table`. The result has the next version, or is `table` itself where
    no row differs.

    >>> old, new = RoutingTable.build(3, [0, 1, 2]), RoutingTable.build(2, [1, 0, 0])
    >>> partly = table_after(old, new, {0, 1})
    >>> partly.buckets.tolist(), partly.slots, table_after(old, new, {0, 1, 2}).slots
    ([1, 0, 2], 3, 2)
    """
    check_pair(table, target)
    exports = np.zeros(table.slots, dtype=np.bool_)
    exports[[slot for slot in exporters if slot < table.slots]] = True
    if not exports.any():
        return table
    result = target
    if not (exports[table.buckets].all() and exports[table.choices].all()):
        pair = _Pair.of(table, target)
        result = pair.mix(exports[table.buckets], exports[pair.key_from])
    return table if result.same_routes(table) else result.with_version(table.version + 1)


def step_toward(
    table: RoutingTable,
    goal: RoutingTable,
    histogram: Histogram | None = None,
    *,
    share: float = 1.0,
    entries: int | None = None,
) -> RoutingTable:
    """A table on the way from `table` to `goal` that moves a limited part of the state.

    At most `entries` entries and at most `share` of all state move, by the histogram's `state`; without a
    histogram (or where it measured no state) `share` is of all entries. Of the entries that fit, those that
    relieve most go first: moving load w from a slot with load S to one with load D takes 2·w·(S − D − w) off the
    sum of squared loads. At least one entry moves, so repeated steps end at `goal`; `goal` itself is returned once
    the rest fits. Takes a few ms for 4096 buckets and 10 000 heavy rows.
    """
    check_pair(table, goal)
    pair = _Pair.of(table, goal)
    keys = np.flatnonzero(pair.key_from != pair.key_to)
    buckets = np.flatnonzero(table.buckets != goal.buckets)
    if not len(keys) + len(buckets):
        return goal
    costs, relief, everything = pair.figures(keys, buckets, histogram)
    order = np.lexsort((costs, -relief))
    budget = share * everything * (1 + _ROUNDING)
    fitting = order[costs[order] <= budget]
    chosen = fitting[np.cumsum(costs[fitting]) <= budget][:entries]
    if not len(chosen):
        chosen = order[:1]
    if len(chosen) == len(order):
        return goal
    key_moves, bucket_moves = np.zeros(len(pair.hashes), np.bool_), np.zeros(len(table.buckets), np.bool_)
    key_moves[keys[chosen[chosen < len(keys)]]] = True
    bucket_moves[buckets[chosen[chosen >= len(keys)] - len(keys)]] = True
    return pair.mix(bucket_moves, key_moves)


@dataclass(frozen=True, eq=False)
class _Pair:
    """Two tables side by side, with every key that is heavy in either, by hash."""

    table: RoutingTable
    goal: RoutingTable
    keys: pa.Array
    hashes: Hashes
    key_from: Slots
    key_to: Slots
    in_goal: NDArray[np.bool_]

    @classmethod
    def of(cls, table: RoutingTable, goal: RoutingTable) -> _Pair:
        # the goal's rows come first, so the first position of a hash shows whether the goal has a row for it
        hashes, first = np.unique(np.concatenate([goal.hashes, table.hashes]), return_index=True)
        key_type = goal.key_type if len(goal.keys) or not len(table.keys) else table.key_type
        keys = pa.concat_arrays([t.keys if len(t.keys) else pa.array([], key_type) for t in (goal, table)])
        key_from, key_to = table.slot_of_hashes(hashes), goal.slot_of_hashes(hashes)
        return cls(
            table, goal, keys.take(pa.array(first)), hashes, key_from, key_to, first < len(goal.hashes)
        )

    def mix(self, bucket_moves: NDArray[np.bool_], key_moves: NDArray[np.bool_]) -> RoutingTable:
        """The goal's slot for what moves, the table's slot for what stays.

        A key has a row where the goal gives it one, or where its slot is not that of its bucket.
        """
        buckets = np.where(bucket_moves, self.goal.buckets, self.table.buckets)
        key_slots = np.where(key_moves, self.key_to, self.key_from)
        bucket_slots = buckets[buckets_of(self.hashes, len(buckets))]
        rows = np.flatnonzero(self.in_goal | (key_slots != bucket_slots))
        highest = max(int(buckets.max()), int(key_slots.max(initial=0)))
        return RoutingTable(
            self.goal.slots if highest < self.goal.slots else max(self.goal.slots, self.table.slots),
            buckets,
            self.keys.take(pa.array(rows)),
            self.hashes[rows],
            np.arange(len(rows) + 1, dtype=np.int64),
            key_slots[rows],
            self.goal.version,
        )

    def figures(
        self, keys: NDArray[np.int64], buckets: NDArray[np.int64], histogram: Histogram | None
    ) -> tuple[Floats, Floats, float]:
        """The cost and the relief of moving each of these keys and buckets, and the cost of moving everything."""
        costs = np.ones(len(keys) + len(buckets))
        everything = float(len(self.hashes) + len(self.table.buckets))
        if histogram is None:
            return costs, np.zeros(len(costs)), everything
        check_match(self.goal, histogram)
        load = self._entry_figures(histogram, "weights", keys, buckets)
        if histogram.total_state > 0:
            everything = histogram.total_state
            costs = self._entry_figures(histogram, "state", keys, buckets)
        loads = np.zeros(max(self.table.slots, self.goal.slots))
        loads[: self.table.slots] = slot_loads(self.table, histogram)
        source = np.concatenate([self.key_from[keys], self.table.buckets[buckets]])
        destination = np.concatenate([self.key_to[keys], self.goal.buckets[buckets]])
        return costs, load * (loads[source] - loads[destination] - load), everything

    def _entry_figures(
        self,
        histogram: Histogram,
        measure: Measure,
        keys: NDArray[np.int64],
        buckets: NDArray[np.int64],
    ) -> Floats:
        """The figure of each key and bucket; tracked keys that are heavy in neither table count with their bucket."""
        tracked, rest = (getattr(part, measure) for part in (histogram.tracked, histogram.rest))
        own = np.zeros(len(self.hashes) + 1)
        at = np.searchsorted(self.hashes, histogram.hashes)
        heavy = np.append(self.hashes, 0)[at] == histogram.hashes
        heavy &= at < len(self.hashes)
        own[at[heavy]] = tracked[heavy]
        light = sum_by(histogram.key_buckets[~heavy], tracked[~heavy], histogram.buckets)
        return np.concatenate([own[keys], (rest + light)[buckets]])


def check_pair(table: RoutingTable, target: RoutingTable) -> None:
    """Refuse two tables between which no state can move."""
    check_whole(table)
    check_whole(target)
    if len(table.buckets) != len(target.buckets):
        raise ValueError(
            f"state cannot move from a table of {len(table.buckets)} buckets to one of {len(target.buckets)}; "
            "plan with the table's number of buckets"
        )
    if len(table.keys) and len(target.keys) and not table.key_type.equals(target.key_type):
        raise ValueError(
            f"the table is for {table.key_type} keys and the target for {target.key_type} keys; "
            "plan with keys of the table's type"
        )


def check_whole(table: RoutingTable) -> None:
    """Refuse a table that sends one key to several slots."""
    if len(table.choices) != len(table.hashes):
        row = int(np.argmax(table.lengths > 1))
        key = next(iter(key_iter(table.keys[row : row + 1])))
        raise ValueError(
            f"the heavy row of {key_repr(key)} names several slots, but a key's state cannot be split; "
            "use a planner that keeps keys whole"
        )
