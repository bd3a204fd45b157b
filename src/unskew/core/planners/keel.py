"""Keel: the least movement of state for a target balance, or the best balance for a movement budget."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from unskew.core.histogram import Floats, Histogram, sum_by
from unskew.core.loads import migration
from unskew.core.planners.declaration import Planner
from unskew.core.planners.parts.workbench import NEW, SLACK, SLIGHT, Entries, Placement, Work
from unskew.core.routing import RoutingTable
from unskew.core.scheduling import evened, longest_first, makespan

# a balance this close to the best one is not worth more movement
_NEAR = 1e-3
# greedy scheduling is improved to each of these levels in turn
_LEVELS = (1.12, 1.1, 1.08, 1.06, 1.05, 1.04, 1.03, 1.02, 1.01)
# a budget is met within 1/4096 of the range between the present and the best balance
_BISECTIONS = 12


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

    The knob is `target`: the highest acceptable slot load, as the excess over the lower bound max(f₁, 1/N).
    Slots below it are left alone. An overloaded slot gives up the entries that relieve it for the least state, the
    emptiest slots take them, and moves and swaps fix what does not fit. If that cannot reach the target, a looser
    start and a plan from scratch are tried as well, and the best plan wins. With `budget`, a share of all state, the
    result is the best balance that was reached without moving more than that. Entries of slots that no longer exist,
    rows beyond `rows` and split rows must move in any case; they use up the budget first.

    A first plan is greedy scheduling of all entries (nothing has to stay). Where N slots run on fewer `cores`, two
    more plans are tried: the same slots numbered fullest first, in the order in which Spark starts them; and the cores
    balanced, each core's share divided into slots (equal slots beside a larger one may leave cores idle at the end).
    The plan that ends soonest wins. Entries without load stay where they are; those without a place are dealt out
    evenly, since keys not yet measured will come to them.

    A key becomes a heavy row when its load is at least `grain` of a mean slot load, so there are at most N/grain such
    rows. Colder rows of the previous table stay while dropping them would move state, up to `rows` rows in all (default
    16·N, at least 1024). They are merged back for free when their bucket comes to their slot.

    Deterministic; `seed` is not used. Costs about one sort of the entries and one step per entry moved. The closest
    paper is KIP, which assumes equal bucket loads and has no movement cost.

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
    """Place any entries on `slots` slots as `plan` does; the old slot of an entry that had none is `NEW`.

    >>> load = np.array([2.0, 1.0, 1.0])
    >>> spread(load, load, np.array([1, NEW, 1], np.int32), 2).tolist()
    [1, 0, 0]
    """
    none = np.zeros(0, np.int64)
    entries = Entries(slots, none, none.astype(np.bool_), load, state, old)
    cap = max(float(load.max(initial=0.0)), float(load.sum()) / slots) * (1.0 + target)
    return (_best(entries, cap) if (old >= 0).any() else _scratch(entries, cap)).slot


def _entries(
    histogram: Histogram, slots: int, previous: RoutingTable | None, grain: float, rows: int
) -> Entries:
    tracked, hashes = histogram.tracked, histogram.hashes
    hot = tracked.weights >= max(grain * histogram.total / slots, np.finfo(float).tiny)
    has_entry = hot
    if previous is not None and len(previous.hashes):
        has_row = (previous.rows_of(hashes) >= 0) & ~hot
        costly = np.flatnonzero(has_row)[np.argsort(-tracked.state[has_row], kind="stable")]
        has_entry = hot.copy()
        has_entry[costly[: max(0, rows - int(hot.sum()))]] = True
    heavy = np.flatnonzero(has_entry)
    folded = np.flatnonzero(~has_entry)
    rest = histogram.rest + tracked[folded].summed_by(histogram.key_buckets[folded], histogram.buckets)
    if previous is None:
        old = np.full(len(heavy) + histogram.buckets, NEW, dtype=np.int32)
    else:
        old = np.concatenate([previous.slot_of_hashes(hashes[heavy]), previous.buckets])
        old[old >= slots] = NEW
    load = np.concatenate([tracked.weights[heavy], rest.weights])
    state = np.concatenate([tracked.state[heavy], rest.state])
    return Entries(slots, heavy, hot[heavy], load, state, old)


def _best(entries: Entries, cap: float) -> Placement:
    """The least movement under the cap, or the best balance possible; from scratch only if that helps."""
    gentle = _gentle(entries, cap)
    if gentle.highest <= cap * (1 + _NEAR):
        return gentle
    tries = [gentle, _relabelled(entries, _scratch(entries, cap))]
    reached = min(t.highest for t in tries)
    if reached > cap:
        # now that it is clear what can be reached, there may be a gentle way to reach it
        tries.append(_gentle(entries, reached * (1 + _NEAR)))
    return _choose(tries, cap)


def _gentle(entries: Entries, cap: float) -> Placement:
    """The least movement under the cap that leaves all slots below it alone.

    Overloaded slots come down to the cap, or to the mean (fewer but larger entries leave), or trade entries one by one
    (which suits a slight overload of a slot with few entries).
    """
    mean = float(entries.load.sum()) / entries.slots
    stay = Work(entries, entries.old.copy())
    if stay.loads.max() <= cap * (1 + SLACK) and entries.old.min() >= 0:
        return stay.placement()
    levels = [cap, mean] if stay.loads.max() > cap * SLIGHT else [cap, mean, np.inf]
    return _choose([_relieve(entries, cap, level) for level in levels], cap)


def _choose(tries: list[Placement], cap: float) -> Placement:
    """The placement with the least movement among those under the cap, else among those near the best balance."""
    limit = max(cap * (1 + SLACK), min(t.highest for t in tries) * (1 + _NEAR))
    return min((t for t in tries if t.highest <= limit), key=lambda t: (t.moved, t.highest))


def _within_budget(entries: Entries, stay: Placement, bound: float, budget: float) -> Placement:
    """The lowest cap whose movement stays within the budget, by bisection from `stay`, which moves nothing."""
    best, low, high = stay, bound, stay.highest
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        tried = _gentle(entries, middle)
        if tried.moved <= budget * (1 + SLACK):
            best = min(best, tried, key=lambda t: t.highest)
            high = middle
        else:
            low = middle
    return best


def _first(entries: Entries, cap: float, cores: int | None) -> Placement:
    """A first placement; for fewer cores than slots, the one that ends soonest."""
    placed = _scratch(entries, cap)
    if cores is None or cores >= entries.slots:
        return placed
    tries = [placed, _fullest_first(entries, placed), _on_cores(entries, cores)]
    # the cores must not gain at the cost of the slots' balance, as they might where N is not a multiple of the cores
    tries = [t for t in tries if t.highest <= max(cap, placed.highest) * (1 + _NEAR)]
    return min(tries, key=lambda t: makespan(sum_by(t.slot, entries.load, entries.slots), cores))


def _scratch(entries: Entries, cap: float) -> Placement:
    """A placement that keeps nothing: greedy scheduling, then improved by swaps."""
    work = Work(entries, np.full(len(entries.load), NEW, dtype=np.int32))
    work.settle()
    work.even_out(cap)
    if work.loads.max() > cap * (1 + SLACK):
        work = Work(entries, evened(entries.load, work.slot, entries.slots, cap))
    return work.placement()


def _on_cores(entries: Entries, cores: int) -> Placement:
    """Entries evenly over cores, each core's entries evenly over its slots, slots numbered by their starting time.

    A core works on its slots fullest first. Spark starts tasks by number, each on the next free core, so numbering
    slots by starting time makes it follow this order.
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
    work = Work(entries, slot)
    work.settle()
    return work.placement()


def _evenly(entries: Entries) -> NDArray[np.int32]:
    """Greedy scheduling, then swaps down to one level after another, as low as they can reach.

    Swaps keep all slots under the level they aim at, so aiming for the lowest level at once would leave no room.
    """
    work = Work(entries, longest_first(entries.load, entries.slots))
    least = max(float(entries.load.max(initial=0.0)), float(entries.load.sum()) / entries.slots)
    for level in _LEVELS:
        work.even_out(least * level)
        if work.loads.max() > least * level * (1 + SLACK):
            break
    return evened(entries.load, work.slot, entries.slots, least)


def _fullest_first(entries: Entries, placed: Placement) -> Placement:
    """The same groups of entries on slots numbered by falling load."""
    order = np.argsort(-sum_by(placed.slot, entries.load, entries.slots), kind="stable")
    number = np.empty(entries.slots, dtype=np.int32)
    number[order] = np.arange(entries.slots, dtype=np.int32)
    return replace(placed, slot=number[placed.slot])


def _relieve(entries: Entries, cap: float, level: float) -> Placement:
    """Slots above both cap and level give up entries until they are at `level`; the emptiest slots take them."""
    work = Work(entries, entries.old.copy())
    for slot in np.flatnonzero(work.loads > max(cap, level) * (1 + SLACK)):
        work.shed(int(slot), level)
    work.settle()
    work.even_out(cap)
    return work.placement()


def _relabelled(entries: Entries, placed: Placement) -> Placement:
    """The same groups of entries under the slot numbers that leave the most state where it is.

    Entries without load do not affect the balance: they stay.
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
    """Refuse option values that make no sense."""
    if cores is not None and (
        isinstance(cores, bool) or not isinstance(cores, int | np.integer) or cores < 1
    ):
        raise ValueError(
            f"cores is the number of slots that run at once, a whole number of at least 1, not {cores!r}"
        )
    if not target >= 0:
        raise ValueError(f"target is the tolerated excess over the lower bound, 0 or more, not {target}")
    if budget is not None and not 0 <= budget <= 1:
        raise ValueError(f"budget is the share of the state that may move, between 0 and 1, not {budget}")
    if not 0 < grain <= 1:
        raise ValueError(f"grain is a share of the mean slot load, above 0 and at most 1, not {grain}")
    if rows is not None and rows < 0:
        raise ValueError(f"rows is the largest number of heavy rows, 0 or more, not {rows}")


PLANNER = Planner(
    "keel",
    plan,
    summary="ours: the least movement of state for a target balance, or the best balance for a movement budget",
    movement="the least state that reaches `target`, or at most `budget`",
    uses_cores=True,
)
