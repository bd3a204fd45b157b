"""Readj: leave the tracked keys where they are, then move and swap them while the balance improves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unskew.core.histogram import Floats, Histogram
from unskew.core.measures import Resource
from unskew.core.planners.gedik import LEAST_FREQUENCY, TIE, Problem, pose
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
    """From the present places, the move or swap with the best gain again and again, while one lowers ρ.

    Tracked keys stay where they are unless moving them improves the balance; those of a removed slot start
    on the ring. ρ falls with every step. A gain is the fall of the utility over the frequency moved, and only
    ranks the readjustments: any that lowers ρ is acceptable, also one that migrates much. Of equals moves go
    before swaps, more frequent keys first. O(R²) a step for R tracked keys, at most max_moves · R steps.

    Options as for `scan`, and `max_moves`: how often one key may move while planning.

    Gedik, "Partitioning functions for stateful data parallelism in stream processing", section 4.2.4,
    Algorithm 4; gains are taken against the utility before the step, not against 0.

    >>> h = Histogram.from_counts({"a": 4, "b": 3, "c": 2, "d": 1})
    >>> heavy = plan(h, 2).heavy
    >>> heavy["a"] == heavy["d"] != heavy["b"] == heavy["c"]
    True
    """
    if isinstance(max_moves, bool) or not isinstance(max_moves, int | np.integer) or max_moves < 1:
        raise ValueError(f"max_moves is a whole number of moves of one key, at least 1, not {max_moves!r}")
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

    The keys are followed by one void item for each slot, which uses and costs nothing and stays where it
    is: so a move is a swap with the void of the other slot.
    """

    problem: Problem
    max_moves: int

    def __post_init__(self) -> None:
        problem, n = self.problem, self.problem.slots
        self.keys = len(problem)
        self.f = np.append(problem.f, np.zeros(n))
        self.use = np.hstack([problem.use, np.zeros((len(problem.use), n))])
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
        while True:
            rho = self.problem.rho(self.loads.max(axis=1) - self.loads.min(axis=1), self.means)
            free = (self.moves < self.max_moves).nonzero()[0]
            found = [
                self._best_swaps(k, i, free, rho)
                for k, load in enumerate(self.loads)
                for i in _critical(load)
            ]
            if not any(len(gain) for gain, _, _ in found):
                return self.slot[: self.keys]
            gain, a, b = (np.concatenate(parts) for parts in zip(*found, strict=True))
            best = _first_of_most(gain, np.minimum(a, b), np.maximum(a, b), self.keys)
            self._swap(int(a[best]), int(b[best]))

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

    def _best_swaps(self, k: int, i: int, free: Indices, rho: Floats) -> tuple[Floats, Indices, Indices]:
        """The swaps of slot i with another that lower ρ by way of resource k and gain most: gain and items.

        A swap of slots i and j that shifts x from i leaves them at (L_i + L_j) / 2 ± w, where
        w = |x − (L_i − L_j) / 2|. So the spread depends on j and w alone and grows with w: it is
        max(2w, w + near_j, far_j). So for each item elsewhere the items on i that lower the spread of k are
        those whose use lies in an interval, and only these are looked at.
        """
        on_i = self.slot[free] == i
        here, there = free[on_i], free[~on_i]
        here = here[self.use[k, here].argsort()]
        j = self.slot[there]
        half = (self.loads[:, i : i + 1] - self.loads) / 2
        near, far = self._others(i)

        spread = self.loads[k].max() - self.loads[k].min()
        reach = np.minimum(spread / 2, spread - near[k])
        aim = self.use[:, there] + half[:, j]
        sorted_use = self.use[k, here]
        first = sorted_use.searchsorted(aim[k] - reach[j])
        count = np.maximum(sorted_use.searchsorted(aim[k] + reach[j]) - first, 0)
        pairs = int(count.sum())
        if not pairs:
            return np.zeros(0), here[:0], there[:0]
        column = np.arange(len(there)).repeat(count)
        row = np.arange(pairs) + (first - count.cumsum() + count).repeat(count)

        spreads = np.empty((len(self.use), pairs))
        for r, use in enumerate(self.use):
            w = np.abs(use[here].take(row) - aim[r].take(column))
            spreads[r] = np.maximum(np.maximum(w, near[r, j].take(column)) + w, far[r, j].take(column))
        rho_after = self.problem.rho(spreads, self.means[:, None])

        from_i, to_i = self.change[here], self.change[there, i] + self.gamma
        gamma_after = from_i.take(row * self.problem.slots + j.take(column)) + to_i.take(column)
        fall = self.problem.utility(rho, self.gamma) - self.problem.utility(rho_after, gamma_after)
        volume = np.abs(self.f[here].take(row) - self.f[there].take(column))
        gain = np.where(rho_after < rho * (1.0 - TIE), fall / np.maximum(volume, LEAST_FREQUENCY), -np.inf)
        best = _tied_with_most(gain)
        return gain[best], here[row[best]], there[column[best]]

    def _others(self, i: int) -> tuple[Floats, Floats]:
        """What the slots other than i and j mean for a swap between them, for each j.

        With h and l the highest and lowest of their loads and m the middle of L_i and L_j:
        max(m − l, h − m) and h − l.
        """
        loads = self.loads
        if loads.shape[1] == 2:
            return np.zeros(loads.shape), np.zeros(loads.shape)
        ordered = np.sort(loads[:, self.all_but[i]], axis=1)
        high = np.where(loads == ordered[:, -1:], ordered[:, -2:-1], ordered[:, -1:])
        low = np.where(loads == ordered[:, :1], ordered[:, 1:2], ordered[:, :1])
        middle = (loads[:, i : i + 1] + loads) / 2
        return np.maximum(middle - low, high - middle), high - low


def _critical(load: Floats) -> list[int]:
    """The slots of which every readjustment that lowers the spread of a resource touches one.

    The highest load must sink or the lowest rise. Where two slots share the highest load one readjustment
    cannot lower both, nor raise two that share the lowest.
    """
    order = load.argsort()
    low, second, runner_up, high = load[order[[0, 1, -2, -1]]].tolist()
    noticed = TIE / 4 * (high - low)
    if len(load) == 2:
        return [int(order[1])] if high > low else []
    found = [int(order[-1])] if high - runner_up > noticed else []
    return [*found, int(order[0])] if second - low > noticed else found


def _tied_with_most(gain: Floats) -> Indices:
    """Where the gain is, but for rounding, the greatest; nowhere if none is finite."""
    most = float(gain.max())
    if most == -np.inf:
        return np.zeros(0, dtype=np.int64)
    return (gain >= most - GAIN_TIE * abs(most) - TIE).nonzero()[0]


def _first_of_most(gain: Floats, first: Indices, second: Indices, keys: int) -> int:
    """Of the greatest gains the first: moves before swaps, then by falling frequency, then by slot."""
    tied = _tied_with_most(gain)
    # a void, the partner in a move, comes after all keys
    order = np.lexsort((second[tied], first[tied], second[tied] < keys))
    return int(tied[order[0]])
