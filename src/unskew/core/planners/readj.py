"""Readj: leave the tracked keys where they are, then move and swap them while the balance improves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unskew.core.histogram import Floats, Histogram
from unskew.core.planners.declaration import Planner
from unskew.core.planners.parts.gedik import LEAST_FREQUENCY, NOISE, TIE, Problem, pose
from unskew.core.planners.parts.resources import Resource
from unskew.core.planners.ring import REPLICAS
from unskew.core.routing import RoutingTable

Indices = NDArray[np.int64]

GAIN_TIE = 1e-7
"""Gains are differences over small frequencies and carry more rounding than utilities."""


def plan(
    histogram: Histogram,
    slots: int,
    previous: RoutingTable | None = None,
    *,
    seed: int = 0,
    alpha: float | Sequence[float] = 1.2,
    sigma: float = 0.1,
    resources: str | Sequence[str | Resource] = "LCL",
    utility: str = "APM",
    replicas: int = REPLICAS,
    max_moves: int = 5,
) -> RoutingTable:
    """From the present placement, the move or swap with the best gain, repeated while one lowers ρ.

    Tracked keys stay where they are unless moving them improves the balance; those of a removed slot start on
    the ring. ρ falls with every step. A gain is the fall of the utility over the frequency moved. It only ranks
    the readjustments: any that lowers ρ is acceptable, even one that migrates much. Among equals moves go before
    swaps, more frequent keys first. O(R²) per step for R tracked keys, at most max_moves · R steps.

    Options as for `scan`, and `max_moves`: how often a key may move during one planning.

    Gedik, "Partitioning functions for stateful data parallelism in stream processing", section 4.2.4,
    Algorithm 4; a gain is measured against the utility before the step, not against 0.

    >>> h = Histogram.from_counts({"a": 4, "b": 3, "c": 2, "d": 1})
    >>> heavy = plan(h, 2).heavy
    >>> heavy["a"] == heavy["d"] != heavy["b"] == heavy["c"]
    True
    """
    if isinstance(max_moves, bool) or not isinstance(max_moves, int | np.integer) or max_moves < 1:
        raise ValueError(
            f"max_moves is how often a key may move, a whole number of at least 1, not {max_moves!r}"
        )
    problem = pose(
        histogram,
        slots,
        previous,
        seed=seed,
        alpha=alpha,
        sigma=sigma,
        resources=resources,
        utility=utility,
        replicas=replicas,
    )
    return problem.table(_Search(problem, max_moves).run() if len(problem) else problem.start)


@dataclass(eq=False)
class _Search:
    """A placement while it is readjusted.

    The keys are followed by one void item per slot, which uses and costs nothing and stays where it is. So a move
    is a swap with the void of the other slot.
    """

    problem: Problem
    max_moves: int

    def __post_init__(self) -> None:
        problem, n = self.problem, self.problem.slots
        self.keys = len(problem)
        self.f = np.append(problem.f, np.zeros(n))
        self.use = np.hstack([problem.use, np.zeros((len(problem.use), n))])
        self.by_use = np.argsort(self.use, axis=1)
        self.slot = np.append(problem.start, np.arange(n))
        self.moves = np.zeros(self.keys + n, dtype=np.int64)
        # what γ is with each item on each slot, and how it would change from now (eq. 22)
        self.moving = np.vstack([problem.moving(), np.zeros((n, n))])
        now = self.moving[np.arange(len(self.slot)), self.slot]
        self.change = self.moving - now[:, None]
        self.gamma = np.array(problem.sunk + now.sum())
        self.loads = np.array([np.bincount(self.slot, use, n) for use in self.use]).reshape(-1, n)
        self.means = self.loads.mean(axis=1)
        self.all_but = [np.delete(np.arange(n), i) for i in range(n)]

    def run(self) -> Indices:
        """The slot of each key once no readjustment lowers ρ any more."""
        # every swap uses up a move of some key
        for _ in range(self.max_moves * self.keys):
            best = self._best_swap()
            if best is None:
                break
            self._swap(*best)
        return self.slot[: self.keys]

    def _best_swap(self) -> tuple[int, int] | None:
        """The two items whose swap lowers ρ and gains most, if there is one."""
        swaps = []
        for k, load in enumerate(self.loads):
            free = self.by_use[k]
            free = free[self.moves.take(free) < self.max_moves]
            at = self.slot.take(free)
            swaps += [self._swaps_with(k, i, free, at) for i in _critical(load)]
        if not swaps:
            return None
        a_to, b_to, volume, spreads = (np.concatenate(parts, axis=-1) for parts in zip(*swaps, strict=True))
        spreads_now = self.loads.max(axis=1) - self.loads.min(axis=1)
        rho = self.problem.rho(spreads_now, self.means)
        rho_after = self.problem.rho(spreads, self.means[:, None])
        # A spread and ρ must fall by more than rounding, but a small fall is enough: where two slots are nearly the
        # lowest, lifting one to the other is a small step that makes larger ones possible.
        certain = (spreads < (spreads_now - NOISE * self.means)[:, None]).any(axis=0)
        falls = certain & (rho_after < rho * (1.0 - NOISE))
        if not falls.any():
            return None
        gamma_after = self.change.take(a_to) + self.change.take(b_to) + self.gamma
        fall = self.problem.utility(rho, self.gamma) - self.problem.utility(rho_after, gamma_after)
        gain = np.where(falls, fall / np.maximum(volume, LEAST_FREQUENCY), -np.inf)
        most = float(gain.max())
        tied = (gain >= most - GAIN_TIE * abs(most) - TIE).nonzero()[0]
        a, b = a_to[tied] // self.problem.slots, b_to[tied] // self.problem.slots
        # moves before swaps, more frequent keys first, then the lowest slot; voids come after all keys
        first, second = np.minimum(a, b), np.maximum(a, b)
        best = np.lexsort((second, first, second < self.keys))[0]
        return int(first[best]), int(second[best])

    def _swap(self, a: int, b: int) -> None:
        i, j = int(self.slot[a]), int(self.slot[b])
        shift = self.use[:, a] - self.use[:, b]
        self.loads[:, i] -= shift
        self.loads[:, j] += shift
        self.gamma = self.gamma + self.change[a, j] + self.change[b, i]
        for item, target in ((a, j), (b, i)):
            if item < self.keys:
                self.slot[item] = target
                self.moves[item] += 1
                self.change[item] = self.moving[item] - self.moving[item, target]

    def _swaps_with(
        self, k: int, i: int, free: Indices, at: Indices
    ) -> tuple[Indices, Indices, Floats, Floats]:
        """The swaps of an item a on slot i with an item b on another that lower the spread of resource k.

        `free` are the items that may move by rising use of k, `at` their slots. Returned are the places in
        `change` of a's and b's new slots, the frequency moved and the spread of every resource afterwards.

        A swap of slots i and j that shifts x from i leaves them at (L_i + L_j) / 2 ± w, where
        w = |x − (L_i − L_j) / 2|. A spread depends on j and w alone and grows with w: it is
        max(2w, w + near_j, far_j). So for each b the items a that lower the spread of k are those whose use lies
        in an interval, and only these are tried.
        """
        n, on_i = self.problem.slots, at == i
        on_slot, elsewhere, j = free[on_i], free[~on_i], at[~on_i]
        half, near, far = zip(*(self._after_swap(load, i) for load in self.loads), strict=True)
        use = [each.take(on_slot) for each in self.use]
        aim = [each.take(elsewhere) + shift.take(j) for each, shift in zip(self.use, half, strict=True)]

        spread = self.loads[k].max() - self.loads[k].min()
        reach = np.maximum(np.minimum(spread / 2, spread - near[k]), 0.0).take(j)
        first = use[k].searchsorted(aim[k] - reach)
        count = use[k].searchsorted(aim[k] + reach) - first
        column = np.arange(len(elsewhere)).repeat(count)
        row = np.arange(len(column)) + (first - count.cumsum() + count).repeat(count)

        j = j.take(column)
        spreads = np.empty((len(use), len(column)))
        for r in range(len(use)):
            w = use[r].take(row)
            w -= aim[r].take(column)
            np.abs(w, out=w)
            w += np.maximum(w, near[r].take(j))
            np.maximum(w, far[r].take(j), out=spreads[r])
        volume = np.abs(self.f.take(on_slot).take(row) - self.f.take(elsewhere).take(column))
        return (on_slot * n).take(row) + j, (elsewhere * n + i).take(column), volume, spreads

    def _after_swap(self, load: Floats, i: int) -> tuple[Floats, Floats, Floats]:
        """For each slot j: half = (L_i − L_j) / 2, and how the slots other than i and j limit a swap.

        With h and l the highest and lowest of their loads and m the middle of L_i and L_j:
        near = max(m − l, h − m) and far = h − l.
        """
        half = (load[i] - load) / 2
        if len(load) == 2:
            return half, np.zeros(2), np.zeros(2)
        others = np.sort(load.take(self.all_but[i]))
        high = np.where(load == others[-1], others[-2], others[-1])
        low = np.where(load == others[0], others[1], others[0])
        middle = load[i] - half
        return half, np.maximum(middle - low, high - middle), high - low


def _critical(load: Floats) -> list[int]:
    """The critical slots: every readjustment that lowers the spread of a resource touches one of them.

    The highest load must fall or the lowest rise. Where two slots share the highest load, one readjustment cannot
    lower both, nor can it raise two that share the lowest.
    """
    order = load.argsort()
    low, second, runner_up, high = load[order[[0, 1, -2, -1]]].tolist()
    noticed = NOISE / 4 * load.mean()
    if len(load) == 2:
        return [int(order[1])] if high > low else []
    highest = [int(order[-1])] if high - runner_up > noticed else []
    lowest = [int(order[0])] if second - low > noticed else []
    return highest + lowest


PLANNER = Planner(
    "readj",
    plan,
    summary="tracked keys stay, then are moved and swapped while the balance improves; the rest on a ring",
    movement="a tracked key moves only where that improves the balance",
    paper=(
        'Gedik, "Partitioning functions for stateful data parallelism in stream processing", '
        "section 4.2.4, algorithm 4"
    ),
)
