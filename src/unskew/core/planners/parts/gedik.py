"""What Gedik's planners scan, redist and readj share: which keys to place, and how good a placement is.

All three give a row to every key above a frequency threshold δ and leave the others to a consistent ring. They
differ in how they place the keys. A placement is judged by the balance penalty ρ and the migration penalty γ of
section 4.2.1, combined by a utility function (section 4.3, lower is better).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from unskew.core.hashing import buckets_of
from unskew.core.histogram import Floats, Histogram
from unskew.core.planners.parts.resources import (
    RESOURCE_MEASURES,
    Resource,
    amounts,
    as_resources,
    as_tolerances,
    constant,
    deltas,
    theta,
)
from unskew.core.planners.ring import ring
from unskew.core.routing import RoutingTable, Slots

Utility: TypeAlias = Callable[[Floats, Floats], Floats]

UTILITIES: dict[str, Utility] = {
    # adding 0·γ gives the result the shape of both
    "A": lambda rho, gamma: rho + 0.0 * gamma,
    "APM": lambda rho, gamma: rho + gamma,
    "APLM": lambda rho, gamma: rho + np.log1p(gamma),
    "ATM": lambda rho, gamma: rho * (1.0 + gamma),
    "ATLM": lambda rho, gamma: rho * (1.0 + np.log1p(gamma)),
    # the paper does not give the base of its logarithm
    "APLM10": lambda rho, gamma: rho + np.log10(1.0 + gamma),
    "ATLM10": lambda rho, gamma: rho * (1.0 + np.log10(1.0 + gamma)),
}

TIE = 1e-9
"""Utilities this close to the best, relative and absolute, count as equal: the order of a sum makes that difference."""

NOISE = 1e-12
"""A spread below this part of the mean load is rounding, and nothing to improve."""

LEAST_FREQUENCY = 1e-12
"""Replaces the frequency 0 of a key that is tracked for its state alone, where a gain is divided by it."""

# keeps a mean load of 0, whose spread is 0, out of divisions
_TINY = np.finfo(np.float64).tiny


@dataclass(frozen=True, eq=False)
class Problem:
    """The keys to place, by falling frequency, and what each placement of them costs.

    `use[k]` is what each key takes of the k-th resource that counts, `exponents[k]` that resource's part in
    ρ (resources with the same use are joined), `scale` the tolerances' part. `home` is the slot a key is on now, which
    may be about to vanish, `cost` what moving it away adds to γ, and `sunk` what γ starts from: the keys that lose
    their row and move to another slot with that.
    """

    histogram: Histogram
    rows: NDArray[np.int64]
    ring: Slots
    slots: int
    f: Floats
    use: Floats
    exponents: Floats
    scale: float
    home: NDArray[np.int64]
    cost: Floats
    sunk: float
    utility: Utility

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def start(self) -> NDArray[np.int64]:
        """Every key where it is, or on the ring if its slot vanishes."""
        return np.where(self.home < self.slots, self.home, self.ring[self.histogram.key_buckets[self.rows]])

    def rho(self, spreads: Floats, means: Floats) -> Floats:
        """The balance penalty ρ of spreads (max − min) and mean loads, resource first (eqs. 19 and 20)."""
        if len(spreads) == 0:
            return np.ones(spreads.shape[1:])
        relative = spreads / np.maximum(means, _TINY)
        relative *= relative > NOISE
        if len(spreads) == 1:
            penalty: Floats = relative[0] * self.scale
            return penalty
        powers = relative ** self.exponents.reshape(-1, *[1] * (spreads.ndim - 1))
        joined: Floats = powers.prod(axis=0) * self.scale
        return joined

    def moving(self) -> Floats:
        """What each key (row) adds to γ on each slot (column)."""
        return np.where(self.home[:, None] == np.arange(self.slots), 0.0, self.cost[:, None])

    def table(self, placement: NDArray[np.int64]) -> RoutingTable:
        """The routing table with the keys placed like this and all others on the ring."""
        h = self.histogram
        keys, hashes = h.keys.take(self.rows), h.hashes[self.rows]
        return RoutingTable.build(
            self.slots, self.ring, heavy=keys, heavy_slots=placement, hashes=hashes, key_type=h.key_type
        )


def pose(
    histogram: Histogram,
    slots: int,
    previous: RoutingTable | None,
    *,
    seed: int,
    alpha: float | Sequence[float],
    sigma: float,
    resources: str | Sequence[str | Resource],
    utility: str,
    replicas: int,
) -> Problem:
    """The problem of placing the keys above δ on `slots` slots.

    A key is tracked if its frequency reaches the δ_k of some resource: for memory its share of the state
    counts, which is its frequency unless state was measured separately. With one slot nothing is tracked.
    Without a previous table the keys start on the ring, and moving them costs nothing.
    """
    betas, tolerances = as_resources(resources), as_tolerances(alpha)
    if not 0 < sigma <= 1:
        raise ValueError(
            f"sigma is the part of the tolerated imbalance left to untracked keys, above 0 and at most 1, "
            f"not {sigma!r}: 0.1 suits most loads"
        )
    if utility not in UTILITIES:
        raise ValueError(f"there is no utility {utility!r}: choose one of {', '.join(UTILITIES)}")
    cells = ring(slots, histogram.buckets, replicas, seed)

    totals = {"weights": histogram.total or 1.0, "state": histogram.total_state or 1.0}
    shares = [getattr(histogram.tracked, measure) / totals[measure] for measure in RESOURCE_MEASURES]
    tracked = np.zeros(len(histogram.hashes), dtype=np.bool_)
    if slots > 1:
        thresholds = deltas(betas, shares, histogram.distinct, slots, tolerances, sigma)
        for share, delta in zip(shares, thresholds, strict=True):
            # a key without load and state is not worth a row, however low the threshold
            tracked |= (share >= delta) & (share > 0)
    rows = np.flatnonzero(tracked)

    # stateless work has no memory to balance; constant resources need no balancing (section 4.4)
    counted = [
        (amounts(beta, share[rows]), theta(tolerance, slots))
        for beta, share, tolerance, measure in zip(betas, shares, tolerances, RESOURCE_MEASURES, strict=True)
        if beta is not constant and not (measure == "state" and histogram.total_state == 0)
    ]
    use, exponents, scale = _joined(counted, len(rows))
    home, cost, sunk = _migration_costs(histogram, previous, rows, cells, slots, betas[0])
    f = np.maximum(histogram.tracked.weights[rows] / totals["weights"], LEAST_FREQUENCY)
    return Problem(
        histogram, rows, cells, slots, f, use, exponents, scale, home, cost, sunk, UTILITIES[utility]
    )


def spreads_after_adding(loads: Floats, use: Floats) -> Floats:
    """Max − min load if one item is added, by resource, item and slot: (K, N), (K, M) → (K, M, N)."""
    two_lowest = np.partition(loads, 1, axis=1)
    least, second = two_lowest[:, :1], two_lowest[:, 1:2]
    # the least load among the other slots, for each slot
    least_elsewhere = np.where(loads == least, second, least)[:, None, :]
    added = loads[:, None, :] + use[:, :, None]
    spreads: Floats = np.maximum(added, loads.max(axis=1)[:, None, None])
    spreads -= np.minimum(added, least_elsewhere, out=added)
    return spreads


def first_of_least(values: Floats) -> int:
    """The first position, in flat order, of a value that ties with the least."""
    least = float(values.min())
    return int((values <= least + TIE * (abs(least) + 1.0)).argmax())


def _joined(counted: list[tuple[Floats, float]], size: int) -> tuple[Floats, Floats, float]:
    """Resources with equal use joined into one: their use, exponents and the common factor of 1/θ."""
    uses: list[Floats] = []
    times: list[float] = []
    for use, _ in counted:
        same = [i for i, earlier in enumerate(uses) if np.array_equal(earlier, use)]
        if same:
            times[same[0]] += 1.0
        else:
            uses.append(use)
            times.append(1.0)
    part = 1.0 / max(len(counted), 1)
    scale = float(np.prod([(1.0 / t) ** part for _, t in counted])) if size else 1.0
    return np.array(uses).reshape(len(uses), size), np.array(times) * part, scale


def _migration_costs(
    histogram: Histogram,
    previous: RoutingTable | None,
    rows: NDArray[np.int64],
    cells: Slots,
    slots: int,
    beta: Resource,
) -> tuple[NDArray[np.int64], Floats, float]:
    """Home slot and cost of each tracked key, and the cost of the keys that lose their row (eq. 18)."""
    if previous is None:
        return cells[histogram.key_buckets[rows]].astype(np.int64), np.zeros(len(rows)), 0.0
    total = histogram.total_state
    if total == 0:
        return previous.slot_of_hashes(histogram.hashes[rows]).astype(np.int64), np.zeros(len(rows)), 0.0
    cost = amounts(beta, histogram.tracked.state[rows] / total)
    # for a former heavy key that is missing from the histogram, its bucket's mean key is the best estimate
    homes = buckets_of(previous.hashes, histogram.buckets)
    state = histogram.rest.state[homes] / np.maximum(histogram.rest_distinct[homes], 1.0)
    at = previous.rows_of(histogram.hashes)
    named = np.flatnonzero(at >= 0)
    state[at[named]] = histogram.tracked.state[named]
    dropped = np.ones(len(previous.hashes), dtype=np.bool_)
    old_rows = at[rows]
    dropped[old_rows[old_rows >= 0]] = False
    freed = amounts(beta, state[dropped] / total)
    moves = previous.slot_of_hashes(previous.hashes[dropped]) != cells[homes[dropped]]
    ideal = float(cost.sum() + freed.sum()) / slots
    if ideal == 0:
        return previous.slot_of_hashes(histogram.hashes[rows]).astype(np.int64), np.zeros(len(rows)), 0.0
    home = previous.slot_of_hashes(histogram.hashes[rows]).astype(np.int64)
    return home, cost / ideal, float(freed[moves].sum()) / ideal
