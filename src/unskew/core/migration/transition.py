"""Tables between two tables: what a partly done migration leads to, and how far to go in one batch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.core.hashing import Hashes, buckets_of
from unskew.core.histogram import Floats, Histogram, sum_by
from unskew.core.loads import check_match, slot_loads
from unskew.core.routing import RoutingTable, Slots

_ROUNDING = 1e-9  # sums of shares do not come out exactly; a budget may be exceeded by this part of it


def agreed(table: RoutingTable, target: RoutingTable, exporters: Iterable[int]) -> RoutingTable:
    """The routes after the `exporters` did their part: `target` for the keys they held, else `table`.

    Each key goes by its slot in `table`. The result has the next version, or is `table` itself where
    no row differs.

    >>> old, new = RoutingTable.build(3, [0, 1, 2]), RoutingTable.build(2, [1, 0, 0])
    >>> partly = agreed(old, new, {0, 1})
    >>> partly.buckets.tolist(), partly.slots, agreed(old, new, {0, 1, 2}).slots
    ([1, 0, 2], 3, 2)
    """
    check_pair(table, target)
    goes = np.zeros(table.slots, dtype=np.bool_)
    goes[[slot for slot in exporters if slot < table.slots]] = True
    if not goes.any():
        return table
    result = target
    if not (goes[table.buckets].all() and goes[table.choices].all()):
        pair = _Pair.of(table, target)
        result = pair.between(goes[table.buckets], goes[pair.key_from])
    return table if result.same_routes(table) else result.with_version(table.version + 1)


def toward(
    table: RoutingTable,
    goal: RoutingTable,
    histogram: Histogram | None = None,
    *,
    share: float = 1.0,
    entries: int | None = None,
) -> RoutingTable:
    """A table on the way from `table` to `goal` that moves a limited part of the state.

    At most `entries` entries and at most `share` of all state move, by the histogram's `state`; without one
    (or where it measured no state) `share` is of all entries. Of the entries that fit, those that relieve
    most go first: moving load w from a slot with load S to one with load D takes 2·w·(S − D − w) off the sum of
    squared loads. One entry moves in any case, so repeated steps end at `goal`, which is
    returned itself when the rest fits. Some ms for 4096 buckets and 10 000 heavy rows.
    """
    check_pair(table, goal)
    pair = _Pair.of(table, goal)
    keys = np.flatnonzero(pair.key_from != pair.key_to)
    cells = np.flatnonzero(table.buckets != goal.buckets)
    if not len(keys) + len(cells):
        return goal
    costs, relief, everything = pair.figures(keys, cells, histogram)
    order = np.lexsort((costs, -relief))
    budget = share * everything * (1 + _ROUNDING)
    fitting = order[costs[order] <= budget]
    chosen = fitting[np.cumsum(costs[fitting]) <= budget][:entries]
    if not len(chosen):
        chosen = order[:1]
    if len(chosen) == len(order):
        return goal
    keys_go, cells_go = np.zeros(len(pair.hashes), np.bool_), np.zeros(len(table.buckets), np.bool_)
    keys_go[keys[chosen[chosen < len(keys)]]] = True
    cells_go[cells[chosen[chosen >= len(keys)] - len(keys)]] = True
    return pair.between(cells_go, keys_go)


@dataclass(frozen=True)
class Budget:
    """How much of a migration is done in one batch, so that batch time stays flat (Megaphone's strategies).

    >>> old, new = RoutingTable.build(2, [0, 0, 0, 0]), RoutingTable.build(2, [1, 1, 1, 0])
    >>> [b.step(old, new).buckets.tolist() for b in (Budget.sudden(), Budget.fluid(1), Budget.batched(0.5))]
    [[1, 1, 1, 0], [1, 0, 0, 0], [1, 1, 0, 0]]
    """

    share: float = 1.0
    entries: int | None = None

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise ValueError(f"share is a part of the state, above 0 and at most 1, not {self.share}")
        if self.entries is not None and self.entries < 1:
            raise ValueError(f"entries is at least 1, not {self.entries}")

    @classmethod
    def sudden(cls) -> Budget:
        """Everything at once."""
        return cls()

    @classmethod
    def fluid(cls, entries: int = 1) -> Budget:
        """A few entries a batch, however large they are."""
        return cls(entries=entries)

    @classmethod
    def batched(cls, share: float = 0.1) -> Budget:
        """A share of all state a batch."""
        return cls(share)

    def step(
        self, table: RoutingTable, goal: RoutingTable, histogram: Histogram | None = None
    ) -> RoutingTable:
        """The table to export towards next, on the way to `goal`."""
        if self == Budget.sudden():
            check_pair(table, goal)
            return goal
        return toward(table, goal, histogram, share=self.share, entries=self.entries)


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
        # the goal's rows come first, so the first place of a hash tells whether the goal has it
        hashes, first = np.unique(np.concatenate([goal.hashes, table.hashes]), return_index=True)
        key_type = goal.key_type if len(goal.keys) or not len(table.keys) else table.key_type
        keys = pa.concat_arrays([t.keys if len(t.keys) else pa.array([], key_type) for t in (goal, table)])
        key_from, key_to = table.slot_of_hashes(hashes), goal.slot_of_hashes(hashes)
        return cls(
            table, goal, keys.take(pa.array(first)), hashes, key_from, key_to, first < len(goal.hashes)
        )

    def between(self, cells_go: NDArray[np.bool_], keys_go: NDArray[np.bool_]) -> RoutingTable:
        """The goal's place for what goes, the table's for what stays.

        A key has a row where the goal gives it one, or where it is not with its bucket.
        """
        cells = np.where(cells_go, self.goal.buckets, self.table.buckets)
        places = np.where(keys_go, self.key_to, self.key_from)
        rows = np.flatnonzero(self.in_goal | (places != cells[buckets_of(self.hashes, len(cells))]))
        highest = max(int(cells.max()), int(places.max(initial=0)))
        return RoutingTable(
            self.goal.slots if highest < self.goal.slots else max(self.goal.slots, self.table.slots),
            cells,
            self.keys.take(pa.array(rows)),
            self.hashes[rows],
            np.arange(len(rows) + 1, dtype=np.int64),
            places[rows],
            self.goal.version,
        )

    def figures(
        self, keys: NDArray[np.int64], cells: NDArray[np.int64], histogram: Histogram | None
    ) -> tuple[Floats, Floats, float]:
        """Cost and relief of moving these keys and these buckets, and the cost of everything there is."""
        costs = np.ones(len(keys) + len(cells))
        everything = float(len(self.hashes) + len(self.table.buckets))
        if histogram is None:
            return costs, np.zeros(len(costs)), everything
        check_match(self.goal, histogram)
        load = self._entry_figures(histogram, histogram.tracked.weights, histogram.rest.weights, keys, cells)
        if histogram.total_state > 0:
            everything = histogram.total_state
            costs = self._entry_figures(histogram, histogram.tracked.state, histogram.rest.state, keys, cells)
        loads = np.zeros(max(self.table.slots, self.goal.slots))
        loads[: self.table.slots] = slot_loads(self.table, histogram)
        source = np.concatenate([self.key_from[keys], self.table.buckets[cells]])
        destination = np.concatenate([self.key_to[keys], self.goal.buckets[cells]])
        return costs, load * (loads[source] - loads[destination] - load), everything

    def _entry_figures(
        self,
        histogram: Histogram,
        tracked: Floats,
        rest: Floats,
        keys: NDArray[np.int64],
        cells: NDArray[np.int64],
    ) -> Floats:
        """A figure of each key and bucket; tracked keys that are heavy in neither table go with their bucket."""
        own = np.zeros(len(self.hashes) + 1)
        at = np.searchsorted(self.hashes, histogram.hashes)
        known = np.append(self.hashes, 0)[at] == histogram.hashes
        known &= at < len(self.hashes)
        own[at[known]] = tracked[known]
        light = sum_by(histogram.key_buckets[~known], tracked[~known], histogram.buckets)
        return np.concatenate([own[keys], (rest + light)[cells]])


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
        raise ValueError(f"the table is for {table.key_type} keys and the target for {target.key_type} keys")


def check_whole(table: RoutingTable) -> None:
    """Refuse a table that sends one key to several slots."""
    if len(table.choices) != len(table.hashes):
        key = table.keys[int(np.argmax(table.lengths > 1))].as_py()
        raise ValueError(
            f"the heavy row of {key!r} names several slots, but a key's state cannot be split; "
            "use a planner that keeps keys whole"
        )
