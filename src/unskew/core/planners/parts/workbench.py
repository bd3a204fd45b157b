"""Entries on slots, and the moves that keel makes with them: shed, settle, exchange."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unskew.core.histogram import Floats, Histogram, sum_by
from unskew.core.routing import RoutingTable
from unskew.core.scheduling import fill

Index = NDArray[np.int64]

NEW = -1
"""The old slot of an entry that has none: in a first plan, or from a slot that no longer exists."""

SLACK = 1e-9
"""Loads are sums of floats: a slot that exceeds its cap by this fraction or less is not overloaded."""

SLIGHT = 1.05
"""An overload up to 5 % is slight: above that, trading entries one by one takes too many steps."""

# slots tried for a swap, emptiest first: more of them cost time and rarely help
_RECEIVERS = 6


@dataclass(frozen=True, eq=False)
class Entries:
    """The heavy keys, then the buckets: load, state and old slot of each.

    `heavy` says which tracked keys of the histogram are entries, `hot` which of these deserve a row by their load.
    """

    slots: int
    heavy: Index
    hot: NDArray[np.bool_]
    load: Floats
    state: Floats
    old: NDArray[np.int32]

    def table(self, histogram: Histogram, placed: Placement) -> RoutingTable:
        """The routing table for this placement."""
        at = placed.slot.astype(np.int32)
        keys, buckets = at[: len(self.heavy)], at[len(self.heavy) :]
        has_row = self.hot | (keys != buckets[histogram.key_buckets[self.heavy]])
        rows = self.heavy[has_row]
        return RoutingTable.build(
            self.slots,
            buckets,
            histogram.keys.take(rows),
            keys[has_row],
            key_type=histogram.key_type,
            hashes=histogram.hashes[rows],
        )


@dataclass(frozen=True, eq=False)
class Placement:
    """A slot for every entry, the highest slot load that results, and the state that moves."""

    slot: NDArray[np.int32]
    highest: float
    moved: float


class Work:
    """A placement in the making: every entry has one slot, or `NEW` while it waits for one."""

    def __init__(self, entries: Entries, slot: NDArray[np.int32]) -> None:
        self.entries = entries
        self.slot = slot
        held = slot >= 0
        self.loads = sum_by(slot[held], entries.load[held], entries.slots)
        order = np.argsort(slot, kind="stable")
        self._order, self._bounds = order, np.searchsorted(slot[order], np.arange(entries.slots + 1))

    def placement(self) -> Placement:
        """The placement as it stands."""
        moved = (self.slot != self.entries.old) & (self.entries.old >= 0)
        return Placement(self.slot, float(self.loads.max()), float(self.entries.state[moved].sum()))

    def shed(self, slot: int, level: float) -> None:
        """Make entries of `slot` wait until its load is at most `level`, choosing those with little state."""
        load, state = self.entries.load, self.entries.state
        members = self._order[self._bounds[slot] : self._bounds[slot + 1]]
        room = max(level - self.loads.min(), 0.0)
        members = members[(load[members] > 0) & (load[members] <= room)]
        excess = self.loads[slot] - level
        leaving = members[_cheapest_cover(load[members], state[members], excess)]
        self.slot[leaving] = NEW
        self.loads[slot] -= load[leaving].sum()

    def settle(self) -> None:
        """Give each waiting entry the emptiest slot, heaviest entry first.

        Entries without load would all go to one slot, and with them all keys not yet measured: they are dealt out.
        """
        load, waiting = self.entries.load, self.slot == NEW
        busy, idle = np.flatnonzero(waiting & (load > 0)), np.flatnonzero(waiting & (load == 0))
        self.slot[busy] = fill(load[busy], self.loads)
        self.loads += sum_by(self.slot[busy], load[busy], self.entries.slots)
        roomy = np.flatnonzero(self.loads <= self.loads.mean() * SLIGHT)
        self.slot[idle] = roomy[np.arange(len(idle)) % len(roomy)]

    def even_out(self, cap: float) -> None:
        """Move or swap entries out of the fullest slot while that brings it closer to the cap."""
        for _ in range(4 * min(self.entries.slots, 500)):
            fullest = int(self.loads.argmax())
            if self.loads[fullest] <= cap * (1 + SLACK) or not self._ease(fullest, cap):
                return

    def _ease(self, slot: int, cap: float) -> bool:
        load = self.entries.load
        mine = np.flatnonzero((self.slot == slot) & (load > 0))
        excess = self.loads[slot] - cap
        receivers = np.argsort(self.loads, kind="stable")[:_RECEIVERS]
        best: tuple[float, float, int, int, int] | None = None
        for receiver in receivers.tolist():
            room = min(cap, float(self.loads[slot])) - self.loads[receiver]
            if receiver == slot or room <= 0:
                continue
            theirs = np.append(np.flatnonzero((self.slot == receiver) & (load > 0)), NEW)
            theirs_load = np.where(theirs >= 0, load[theirs], 0.0)
            exchange = self._exchange(mine, theirs, theirs_load, excess, float(room), slot, receiver)
            if exchange is not None and (best is None or exchange < best):
                best = exchange
        if best is None:
            return False
        _, _, x, y, receiver = best
        self._shift(x, slot, receiver)
        if y >= 0:
            self._shift(y, receiver, slot)
        return True

    def _exchange(
        self,
        mine: Index,
        theirs: Index,
        theirs_load: Floats,
        excess: float,
        room: float,
        slot: int,
        receiver: int,
    ) -> tuple[float, float, int, int, int] | None:
        """The entry to send to `receiver` and the one to take back (or none) that leave the least excess.

        The partner of each entry is the one with which the difference just covers the excess, or failing that the
        one with the largest difference that there is room for.
        """
        load = self.entries.load
        order = np.argsort(theirs_load, kind="stable")
        sizes = theirs_load[order]
        # partner y with load(x) - load(y) >= excess and nearest to it: the largest y <= load(x) - excess
        at = np.searchsorted(sizes, load[mine] - excess, side="right") - 1
        # failing that, the smallest y that still leaves room: y >= load(x) - room
        at = np.where(at >= 0, at, np.searchsorted(sizes, load[mine] - room, side="left"))
        valid = (at >= 0) & (at < len(sizes))
        mine, at = mine[valid], at[valid]
        gain = load[mine] - sizes[at]
        fits = (gain > excess * 0.02) & (gain <= room)
        if not fits.any():
            return None
        mine, partner, gain = mine[fits], theirs[order[at[fits]]], gain[fits]
        left = np.maximum(excess - gain, 0.0)
        cost = self._extra_state(mine, receiver) + np.where(
            partner >= 0, self._extra_state(partner, slot), 0.0
        )
        pick = int(np.lexsort((cost, left))[0])
        return float(left[pick]), float(cost[pick]), int(mine[pick]), int(partner[pick]), receiver

    def _extra_state(self, who: Index, target: int) -> Floats:
        """The state that a change of slot adds to the movement; negative for an entry that returns."""
        old, state = self.entries.old[who], self.entries.state[who]
        return np.where(old < 0, 0.0, state * (1.0 * (old != target) - (old != self.slot[who])))

    def _shift(self, who: int, source: int, target: int) -> None:
        self.slot[who] = target
        self.loads[source] -= self.entries.load[who]
        self.loads[target] += self.entries.load[who]


def _cheapest_cover(load: Floats, state: Floats, excess: float) -> Index:
    """Entries with little state whose loads add up to at least `excess`; all entries if they cannot.

    They are taken by state per load; then those that are not needed are dropped, costliest first. A single entry that
    covers the excess alone is taken instead if that is cheaper.
    """
    by_ratio = np.argsort(state / load, kind="stable")
    covered = np.cumsum(load[by_ratio])
    taken = by_ratio[: int(np.searchsorted(covered, excess)) + 1]
    spare = float(load[taken].sum()) - excess
    needed = np.ones(len(taken), dtype=np.bool_)
    for i in np.argsort(-state[taken], kind="stable"):
        if load[taken[i]] <= spare:
            spare -= float(load[taken[i]])
            needed[i] = False
    taken = taken[needed]
    alone = np.flatnonzero(load >= excess)
    if len(alone):
        cheapest = alone[np.lexsort((load[alone], state[alone]))[0]]
        if state[cheapest] < state[taken].sum():
            return np.array([cheapest])
    return taken
