"""Keel: the least state moved for a wanted balance, or the best balance for a given movement."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from unskew.core.histogram import Floats, Histogram, sum_by
from unskew.core.loads import migration
from unskew.core.routing import RoutingTable
from unskew.core.scheduling import evened, fill, longest_first, makespan

Index = NDArray[np.int64]

NEW = -1
"""The old slot of an entry that has none: a first plan, or a slot that no longer exists."""

_SLACK = 1e-9  # loads are sums of floats: a slot this far above its cap, relatively, is not overloaded
_NEAR = 1e-3  # a balance this near to the best one is not worth more movement
_SLIGHT = 1.05  # an overload up to 5 %: above it trading entries one by one takes too many steps
_LEVELS = (1.12, 1.1, 1.08, 1.06, 1.05, 1.04, 1.03, 1.02, 1.01)  # greedy scheduling is mended to each in turn
_BISECTIONS = 12  # a budget is met within 1/4096 of the range between the present and the best balance
_RECEIVERS = 6  # slots looked at for a swap, emptiest first: more cost time and rarely help


def plan(
    histogram: Histogram,
    slots: int,
    previous: RoutingTable | None = None,
    *,
    seed: int = 0,
    target: float = 0.01,
    budget: float | None = None,
    grain: float = 0.1,
    rows: int | None = None,
    cores: int | None = None,
) -> RoutingTable:
    """Place heavy keys and buckets together by their measured load, starting from the previous table.

    The knob is `target`: the highest slot load wanted, as the excess over the lower bound max(f₁, 1/N).
    Slots below that are left alone. An overloaded slot gives up the entries that relieve it for the least
    state, the emptiest slots take them, and moves and swaps mend what does not fit; if that cannot reach
    the target, a looser start and a plan from scratch are tried and the best one is kept. With `budget`,
    a share of all state, the balance is the best one found that moves no more than that (entries of slots
    that no longer exist, rows beyond `rows` and split rows must move in any case; they use it up first).

    A first plan is greedy scheduling of all entries (nothing has to stay). Where N slots run on fewer `cores`,
    two other ways are tried: the same slots numbered fullest first, as Spark starts them; and the cores balanced,
    each core's share cut into slots (equal slots beside one that is larger may leave cores idle at the end). The
    one that ends soonest is taken. Entries without load stay where they are; those that have no place are dealt
    out evenly, since keys that were not seen yet will come to them.

    A key becomes a heavy row when its load is at least `grain` of a mean slot load, so there are at most N/grain
    such rows; colder rows of the previous table are kept while dropping them would move state, up to `rows` rows
    in all (default 16·N, at least 1024), and are merged back for free when their bucket comes to their slot.

    Deterministic; `seed` is not used. Costs about one sort of the entries and one step for each entry
    moved. The paper that is closest is KIP, which assumes equal bucket loads and knows no movement cost.

    >>> h = Histogram.from_counts({"a": 50, "b": 30, "c": 20}, buckets=16)
    >>> first = plan(h, 2)
    >>> first.slot_of(["a", "b", "c"]).tolist()
    [0, 1, 1]
    >>> plan(h, 2, first).same_routes(first)
    True
    """
    check(target=target, budget=budget, grain=grain, rows=rows, cores=cores)
    entries = _entries(histogram, slots, previous, grain, rows if rows is not None else max(1024, 16 * slots))
    bound = max(
        float(histogram.tracked.weights[0]) if len(histogram.hashes) else 0.0, histogram.total / slots
    )
    cap = bound * (1.0 + target)
    if previous is None:
        return entries.table(histogram, _first(entries, cap, cores))
    placed = _best(entries, cap)
    if budget is not None and placed.moved > 0:
        stay = _gentle(entries, np.inf)
        forced = migration(previous, entries.table(histogram, stay), histogram).state
        left = max(budget * histogram.total_state - forced, 0.0)
        if placed.moved > left:
            placed = _within_budget(entries, stay, bound, left)
    return entries.table(histogram, placed)


def spread(
    load: Floats, state: Floats, old: NDArray[np.int32], slots: int, target: float = 0.01
) -> NDArray[np.int32]:
    """Any entries over `slots` slots as `plan` does it; the old slot of an entry that comes from elsewhere is `NEW`.

    >>> load = np.array([2.0, 1.0, 1.0])
    >>> spread(load, load, np.array([1, NEW, 1], np.int32), 2).tolist()
    [1, 0, 0]
    """
    none = np.zeros(0, np.int64)
    entries = _Entries(slots, none, none.astype(np.bool_), load, state, old)
    cap = max(float(load.max(initial=0.0)), float(load.sum()) / slots) * (1.0 + target)
    return (_best(entries, cap) if (old >= 0).any() else _scratch(entries, cap)).slot


@dataclass(frozen=True, eq=False)
class _Entries:
    """The heavy keys, then the buckets: load, state and old slot of each."""

    slots: int
    heavy: Index  # which tracked keys of the histogram are heavy
    hot: NDArray[np.bool_]  # heavy keys that deserve a row by their load
    load: Floats
    state: Floats
    old: NDArray[np.int32]

    def table(self, histogram: Histogram, placed: _Placement) -> RoutingTable:
        at = placed.slot.astype(np.int32)
        keys, buckets = at[: len(self.heavy)], at[len(self.heavy) :]
        kept = self.hot | (keys != buckets[histogram.key_buckets[self.heavy]])
        rows = self.heavy[kept]
        return RoutingTable.build(
            self.slots,
            buckets,
            histogram.keys.take(rows),
            keys[kept],
            key_type=histogram.key_type,
            hashes=histogram.hashes[rows],
        )


@dataclass(frozen=True, eq=False)
class _Placement:
    slot: NDArray[np.int32]
    highest: float
    moved: float


def _entries(
    histogram: Histogram, slots: int, previous: RoutingTable | None, grain: float, rows: int
) -> _Entries:
    tracked, hashes = histogram.tracked, histogram.hashes
    hot = tracked.weights >= max(grain * histogram.total / slots, np.finfo(float).tiny)
    wanted = hot
    if previous is not None and len(previous.hashes):
        has_row = (previous.rows_of(hashes) >= 0) & ~hot
        costly = np.flatnonzero(has_row)[np.argsort(-tracked.state[has_row], kind="stable")]
        wanted = hot.copy()
        wanted[costly[: max(0, rows - int(hot.sum()))]] = True
    heavy = np.flatnonzero(wanted)
    folded = np.flatnonzero(~wanted)
    rest = histogram.rest + tracked[folded].summed_by(histogram.key_buckets[folded], histogram.buckets)
    if previous is None:
        old = np.full(len(heavy) + histogram.buckets, NEW, dtype=np.int32)
    else:
        old = np.concatenate([previous.slot_of_hashes(hashes[heavy]), previous.buckets])
        old[old >= slots] = NEW
    load = np.concatenate([tracked.weights[heavy], rest.weights])
    state = np.concatenate([tracked.state[heavy], rest.state])
    return _Entries(slots, heavy, hot[heavy], load, state, old)


def _best(entries: _Entries, cap: float) -> _Placement:
    """The least movement under the cap, or the best balance there is; from scratch only if that helps."""
    gentle = _gentle(entries, cap)
    if gentle.highest <= cap * (1 + _NEAR):
        return gentle
    tries = [gentle, _relabelled(entries, _scratch(entries, cap))]
    reached = min(t.highest for t in tries)
    if reached > cap:  # what can be reached is known now, and maybe there is a gentle way to it
        tries.append(_gentle(entries, reached * (1 + _NEAR)))
    return _choose(tries, cap)


def _gentle(entries: _Entries, cap: float) -> _Placement:
    """The least movement under the cap among ways that leave all slots below it alone.

    Overloaded slots come down to the cap, or to the mean (fewer but larger entries leave), or trade
    entries one by one (which suits a slight overload of a slot with few entries).
    """
    mean = float(entries.load.sum()) / entries.slots
    stay = _Work(entries, entries.old.copy())
    if stay.loads.max() <= cap * (1 + _SLACK) and entries.old.min() >= 0:
        return stay.placement()
    levels = [cap, mean] if stay.loads.max() > cap * _SLIGHT else [cap, mean, np.inf]
    return _choose([_relieve(entries, cap, level) for level in levels], cap)


def _choose(tries: list[_Placement], cap: float) -> _Placement:
    """The least movement of those under the cap, else of those near the best balance."""
    limit = max(cap * (1 + _SLACK), min(t.highest for t in tries) * (1 + _NEAR))
    return min((t for t in tries if t.highest <= limit), key=lambda t: (t.moved, t.highest))


def _within_budget(entries: _Entries, stay: _Placement, bound: float, budget: float) -> _Placement:
    """The lowest cap whose movement stays within the budget, by bisection from `stay`, which moves nothing."""
    best, low, high = stay, bound, stay.highest
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        tried = _gentle(entries, middle)
        if tried.moved <= budget * (1 + _SLACK):
            best = min(best, tried, key=lambda t: t.highest)
            high = middle
        else:
            low = middle
    return best


def _first(entries: _Entries, cap: float, cores: int | None) -> _Placement:
    """A plan where nothing was before; for fewer cores than slots the one that ends soonest."""
    placed = _scratch(entries, cap)
    if cores is None or cores >= entries.slots:
        return placed
    tries = [placed, _fullest_first(entries, placed), _on_cores(entries, cores)]
    # what the cores gain must not cost the balance of the slots, as it may where N is no multiple of the cores
    tries = [t for t in tries if t.highest <= max(cap, placed.highest) * (1 + _NEAR)]
    return min(tries, key=lambda t: makespan(sum_by(t.slot, entries.load, entries.slots), cores))


def _scratch(entries: _Entries, cap: float) -> _Placement:
    """A plan that keeps nothing: greedy scheduling, then mended by swaps."""
    work = _Work(entries, np.full(len(entries.load), NEW, dtype=np.int32))
    work.settle()
    work.mend(cap)
    if work.loads.max() > cap * (1 + _SLACK):
        work = _Work(entries, evened(entries.load, work.slot, entries.slots, cap))
    return work.placement()


def _on_cores(entries: _Entries, cores: int) -> _Placement:
    """Entries evenly over cores, each core's entries evenly over its slots, slots numbered by when they start.

    A core works on its slots fullest first. Spark starts tasks by number, each on the next free core, so
    numbers by starting time make it do just that.
    """
    load, slots = entries.load, entries.slots
    slot = np.full(len(load), NEW, dtype=np.int32)
    busy = np.flatnonzero(load > 0)
    core = _evenly(replace(entries, slots=cores, load=load[busy], state=load[busy], old=slot[busy]))
    starts = np.zeros(slots)
    for c in range(cores):
        mine, own = busy[core == c], np.arange(c, slots, cores)
        within = longest_first(load[mine], len(own))
        slot[mine] = own[within]
        loads = sum_by(within, load[mine], len(own))
        order = np.argsort(-loads, kind="stable")
        starts[own[order]] = np.cumsum(loads[order]) - loads[order]
    number = np.empty(slots, dtype=np.int32)
    number[np.lexsort((-sum_by(slot[busy], load[busy], slots), starts))] = np.arange(slots, dtype=np.int32)
    slot[busy] = number[slot[busy]]
    work = _Work(entries, slot)
    work.settle()
    return work.placement()


def _evenly(entries: _Entries) -> NDArray[np.int32]:
    """Greedy scheduling, then swaps to one level after another, as low as they can reach.

    Swaps keep all slots under the level they aim at, so aiming low at once would leave them no room.
    """
    work = _Work(entries, longest_first(entries.load, entries.slots))
    least = max(float(entries.load.max(initial=0.0)), float(entries.load.sum()) / entries.slots)
    for level in _LEVELS:
        work.mend(least * level)
        if work.loads.max() > least * level * (1 + _SLACK):
            break
    return evened(entries.load, work.slot, entries.slots, least)


def _fullest_first(entries: _Entries, placed: _Placement) -> _Placement:
    """The same groups of entries on slots numbered by falling load."""
    order = np.argsort(-sum_by(placed.slot, entries.load, entries.slots), kind="stable")
    number = np.empty(entries.slots, dtype=np.int32)
    number[order] = np.arange(entries.slots, dtype=np.int32)
    return replace(placed, slot=number[placed.slot])


def _relieve(entries: _Entries, cap: float, level: float) -> _Placement:
    """Slots above cap and level give up entries until they are at `level`; the emptiest slots take them."""
    work = _Work(entries, entries.old.copy())
    for slot in np.flatnonzero(work.loads > max(cap, level) * (1 + _SLACK)):
        work.shed(int(slot), level)
    work.settle()
    work.mend(cap)
    return work.placement()


class _Work:
    """A placement in the making: every entry has one slot, or `NEW` while it waits for one."""

    def __init__(self, entries: _Entries, slot: NDArray[np.int32]) -> None:
        self.entries = entries
        self.slot = slot
        held = slot >= 0
        self.loads = sum_by(slot[held], entries.load[held], entries.slots)
        order = np.argsort(slot, kind="stable")
        self._order, self._bounds = order, np.searchsorted(slot[order], np.arange(entries.slots + 1))

    def placement(self) -> _Placement:
        moved = (self.slot != self.entries.old) & (self.entries.old >= 0)
        return _Placement(self.slot, float(self.loads.max()), float(self.entries.state[moved].sum()))

    def shed(self, slot: int, level: float) -> None:
        """Put entries of `slot` on the waiting list until its load is at most `level`, for little state."""
        load, state = self.entries.load, self.entries.state
        members = self._order[self._bounds[slot] : self._bounds[slot + 1]]
        room = max(level - self.loads.min(), 0.0)
        members = members[(load[members] > 0) & (load[members] <= room)]
        excess = self.loads[slot] - level
        leaving = members[_cheapest_cover(load[members], state[members], excess)]
        self.slot[leaving] = NEW
        self.loads[slot] -= load[leaving].sum()

    def settle(self) -> None:
        """Give the waiting entries a slot, heaviest first: the emptiest one.

        Those without load would all go to one slot, and all keys yet unseen with them: they are dealt out.
        """
        load, waiting = self.entries.load, self.slot == NEW
        busy, idle = np.flatnonzero(waiting & (load > 0)), np.flatnonzero(waiting & (load == 0))
        self.slot[busy] = fill(load[busy], self.loads)
        self.loads += sum_by(self.slot[busy], load[busy], self.entries.slots)
        roomy = np.flatnonzero(self.loads <= self.loads.mean() * _SLIGHT)
        self.slot[idle] = roomy[np.arange(len(idle)) % len(roomy)]

    def mend(self, cap: float) -> None:
        """Move or swap entries out of the fullest slot while that brings it nearer to the cap."""
        for _ in range(4 * min(self.entries.slots, 500)):
            fullest = int(self.loads.argmax())
            if self.loads[fullest] <= cap * (1 + _SLACK) or not self._ease(fullest, cap):
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
            found = self._exchange(mine, theirs, theirs_load, excess, float(room), slot, receiver)
            if found is not None and (best is None or found < best):
                best = found
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
        """The entry to send to `receiver` and the one to take back (or none), best first by what remains.

        For each entry of ours the partner is the one that makes the difference just cover the excess, or
        failing that the largest difference there is room for.
        """
        load = self.entries.load
        order = np.argsort(theirs_load, kind="stable")
        sizes = theirs_load[order]
        # partner y with load(x) - load(y) >= excess and nearest to it: the largest y <= load(x) - excess
        at = np.searchsorted(sizes, load[mine] - excess, side="right") - 1
        # failing that the smallest y that still leaves room: y >= load(x) - room
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
    """Entries whose loads add up to at least `excess` for little state (all of them if they cannot).

    By state per load, then without those that turn out not to be needed, costliest first; or one entry
    that does it alone, if that is cheaper.
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


def _relabelled(entries: _Entries, placed: _Placement) -> _Placement:
    """The same groups of entries under the slot numbers that leave the most state where it is.

    Entries without load change no balance: they stay.
    """
    mates = (entries.old >= 0) & (entries.load > 0)
    pair = placed.slot[mates].astype(np.int64) * entries.slots + entries.old[mates]
    pairs, inverse = np.unique(pair, return_inverse=True)
    overlap = np.bincount(inverse.reshape(-1), entries.state[mates])
    label = np.full(entries.slots, NEW, dtype=np.int32)
    free = np.ones(entries.slots, dtype=np.bool_)
    for i in np.argsort(-overlap, kind="stable").tolist():
        group, old = divmod(int(pairs[i]), entries.slots)
        if label[group] < 0 and free[old]:
            label[group], free[old] = old, False
    label[label < 0] = np.flatnonzero(free)
    idle = (entries.old >= 0) & (entries.load == 0)
    slot = np.where(idle, entries.old, label[placed.slot])
    moved = float(entries.state[mates & (slot != entries.old)].sum())
    return replace(placed, slot=slot, moved=moved)


def check(
    *, target: float, budget: float | None, cores: int | None, grain: float = 0.1, rows: int | None = None
) -> None:
    """Refuse options that mean nothing."""
    if cores is not None and (
        isinstance(cores, bool) or not isinstance(cores, int | np.integer) or cores < 1
    ):
        raise ValueError(f"cores is how many slots run at once, a whole number of at least 1, not {cores!r}")
    if not target >= 0:
        raise ValueError(f"target is the tolerated excess over the lower bound, 0 or more, not {target}")
    if budget is not None and not 0 <= budget <= 1:
        raise ValueError(f"budget is the share of the state that may move, between 0 and 1, not {budget}")
    if not 0 < grain <= 1:
        raise ValueError(f"grain is a share of the mean slot load, above 0 and at most 1, not {grain}")
    if rows is not None and rows < 0:
        raise ValueError(f"rows is the most heavy rows to keep, 0 or more, not {rows}")
