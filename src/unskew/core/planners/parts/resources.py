"""The measures of the papers: how even a table is, and what changing it costs.

Gedik's figures (section 3 and 4.1.3) speak of three resources: memory s, computation c and communication n.
A resource function β says how much of a resource a key of frequency f takes. Memory is measured by the keys'
share of the state, which equals f unless state was measured by itself; the other two by their share of the
load. Keys that are not tracked one by one count as their bucket's mean key, as many as its distinct estimate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unskew.core.histogram import Floats, Histogram, Measures
from unskew.core.loads import Measure, imbalance, migration, slot_loads
from unskew.core.routing import RoutingTable

Resource: TypeAlias = Callable[[Floats], Floats]
"""β: frequencies in [0, 1] → amounts of a resource; vectorised, not negative, not falling."""

Resources: TypeAlias = tuple[Resource, Resource, Resource]
Tolerances: TypeAlias = tuple[float, float, float]

RESOURCE_MEASURES: tuple[Measure, Measure, Measure] = ("state", "weights", "weights")
"""What the frequencies of memory, computation and communication are shares of."""


def constant(f: Floats) -> Floats:
    """β(f) = 1: a window of a fixed number of records, an incremental aggregate."""
    return np.ones_like(f)


def linear(f: Floats) -> Floats:
    """β(f) = f: a window of a fixed time, records sent."""
    return f


def quadratic(f: Floats) -> Floats:
    """β(f) = f²: every record is compared with all others of its key."""
    return f * f


LETTERS: dict[str, Resource] = {"C": constant, "L": linear, "Q": quadratic}


def as_resources(resources: str | Sequence[str | Resource]) -> Resources:
    """Resource functions of memory, computation and communication, from letters ("LCL") or callables."""
    if len(resources) != 3:
        raise ValueError(
            f"resources names three functions, for memory, computation and communication, not {resources!r}: "
            'give letters such as "LCL" or three of C, L, Q and callables'
        )
    return tuple(_as_resource(one, resources) for one in resources)  # type: ignore[return-value]


def as_tolerances(alpha: float | Sequence[float]) -> Tolerances:
    """α_k of the three resources, from one figure for all or from three."""
    figures = (alpha, alpha, alpha) if isinstance(alpha, int | float) else tuple(alpha)
    if len(figures) != 3 or not all(np.isfinite(a) and a > 1 for a in figures):
        raise ValueError(
            f"alpha is the tolerated max/min load, above 1, not {alpha!r}: give one such as 1.2, or three"
        )
    return figures


def amounts(resource: Resource, frequencies: Floats) -> Floats:
    """β of each frequency, checked."""
    found = np.broadcast_to(np.asarray(resource(frequencies), dtype=np.float64), frequencies.shape)
    if not np.all(np.isfinite(found) & (found >= 0)):
        name = getattr(resource, "__name__", repr(resource))
        raise ValueError(f"the resource function {name} must give finite figures that are not negative")
    return found


def resource_use(
    histogram: Histogram, resource: Resource, measure: Measure = "weights"
) -> tuple[Floats, Floats]:
    """β of each tracked key, and of all the other keys of each bucket together."""
    tracked: Floats = getattr(histogram.tracked, measure)
    rest: Floats = getattr(histogram.rest, measure)
    total = float(tracked.sum() + rest.sum()) or 1.0
    # a bucket with load but no distinct estimate holds at least one key
    keys = np.where((rest > 0) & (histogram.rest_distinct < 1), 1.0, histogram.rest_distinct)
    mean = np.divide(rest, keys * total, out=np.zeros_like(rest), where=keys > 0)
    return amounts(resource, tracked / total), keys * amounts(resource, mean)


def resource_loads(
    table: RoutingTable, histogram: Histogram, resource: Resource = linear, measure: Measure = "weights"
) -> Floats:
    """L_k: how much of a resource each slot takes (Gedik eqs. 1, 3 and 5, all as Σ β_k(f)).

    Eq. 3 as printed has a further factor f; the paper's example and eqs. 16-17 hold without it.
    """
    return slot_loads(table, _in_units_of(histogram, resource, measure))


def max_over_min(loads: Floats) -> float:
    """r_k: max over min slot load; infinite where a slot has none (Gedik eqs. 2, 4 and 6)."""
    most, least = float(loads.max()), float(loads.min())
    if least > 0:
        return most / least
    return float("inf") if most > 0 else 1.0


@dataclass(frozen=True)
class RelativeImbalance:
    """Gedik's balance: `r` max over min of each resource, `per_resource` b_k = r_k / α_k, `overall` b.

    b is the geometric mean of the three b_k (eq. 11); 1 and less is within tolerance.
    """

    r: tuple[float, float, float]
    per_resource: tuple[float, float, float]
    overall: float


def relative_imbalance(
    table: RoutingTable,
    histogram: Histogram,
    resources: str | Sequence[str | Resource] = "LCL",
    alpha: float | Sequence[float] = 1.2,
) -> RelativeImbalance:
    """r_k, b_k and b of a table (Gedik eqs. 2-6 and 11)."""
    use = zip(as_resources(resources), RESOURCE_MEASURES, strict=True)
    r = tuple(max_over_min(resource_loads(table, histogram, beta, measure)) for beta, measure in use)
    b = tuple(r_k / alpha_k for r_k, alpha_k in zip(r, as_tolerances(alpha), strict=True))
    return RelativeImbalance(r, b, float(np.prod(b) ** (1 / 3)))  # type: ignore[arg-type]


def relative_migration(
    old: RoutingTable, new: RoutingTable, histogram: Histogram, resource: str | Resource = "L"
) -> float:
    """m: the state that moves over the state of an average new slot (Gedik eqs. 9, 10 and 12).

    1 is what adding one slot must move. N is the new table's, also where that is the smaller one.
    """
    beta = _as_resource(resource, resource)
    moved = migration(old, new, _in_units_of(histogram, beta, "state"))
    return moved.state_share * new.slots


def objective(b: float, m: float) -> float:
    """b · (1 + m): imbalance and migration as one figure, lower is better (Gedik eq. 13)."""
    return b * (1.0 + m)


def theta(alpha: float, slots: int) -> float:
    """θ_k: how far from the mean, relative to it, a load may be if max/min ≤ α (Gedik eq. 15); 0 if N = 1.

    >>> round(theta(1.2, 10), 4)
    0.1765
    """
    return (alpha - 1.0) / (1.0 + alpha / (slots - 1)) if slots > 1 else 0.0


def deltas(
    resources: Resources,
    frequencies: Sequence[Floats],
    distinct: float,
    slots: int,
    tolerances: Tolerances,
    sigma: float,
) -> tuple[float, ...]:
    """δ_k: from which frequency on a key needs a row of its own, for each resource (Gedik section 4.1.3).

    `frequencies` are the known keys' shares for each resource, `distinct` is |D|. Constant and linear
    resources follow eq. 17. A quadratic one starts there, too, and is then raised with the mean load
    predicted from the keys above the first threshold; the prediction is a sum over all keys, so it is
    divided by N. For any other function eq. 16 is solved numerically with the mean load predicted from
    all known keys.
    """
    first = first_deltas(resources, distinct, slots, tolerances, sigma)
    collected = min(first)
    final = []
    for beta, alpha, f, d in zip(resources, tolerances, frequencies, first, strict=True):
        if beta is constant or beta is linear:
            final.append(d)
            continue
        allowed = sigma * theta(alpha, slots) * predicted_mean_load(beta, f[f >= collected], distinct, slots)
        final.append(float(np.sqrt(allowed)) if beta is quadratic else _largest_within(beta, allowed))
    return tuple(final)


def first_deltas(
    resources: Resources, distinct: float, slots: int, tolerances: Tolerances, sigma: float
) -> tuple[float, ...]:
    """δ_k by eq. 17, before any frequency is known: from the least of them on a counter must see keys."""
    pairs = zip(resources, tolerances, strict=True)
    return tuple(_first_delta(beta, theta(alpha, slots), distinct, slots, sigma) for beta, alpha in pairs)


def predicted_mean_load(resource: Resource, known: Floats, distinct: float, slots: int) -> float:
    """L̄_k from the frequencies of some keys, the others all taken as equal (Gedik section 4.1.3)."""
    others = max(distinct - len(known), 0.0)
    total = float(amounts(resource, known).sum())
    if others > 0:
        mean = np.array([max(1.0 - float(known.sum()), 0.0) / others])
        total += others * float(amounts(resource, mean)[0])
    return total / slots


def percentage_of_imbalance(loads: Floats) -> float:
    """λ: how far the highest load is above the mean, in per cent (DKG eq. 1).

    >>> percentage_of_imbalance(np.array([4.0, 1.0, 1.0]))
    100.0
    """
    return (imbalance(loads) - 1.0) * 100.0


def load_deviation(loads: Floats) -> float:
    """σ: the population standard deviation of the slot loads (DKG section 5)."""
    return float(np.std(loads))


def load_variance(loads: Floats) -> float:
    """var(L): the population variance of the slot loads (Guo eq. 1)."""
    return float(np.var(loads))


def state_moved(old: RoutingTable, new: RoutingTable, histogram: Histogram) -> float:
    """ψ: the state that changes slot, in the histogram's unit (Guo section 2)."""
    return migration(old, new, histogram).state


def imbalance_over_bound(loads: Floats, heaviest: float) -> float:
    """Max load over max(mean, f₁): 1 where no table that keeps keys whole does better.

    `heaviest` is the load of the heaviest key. Shown beside max/mean, which cannot be small once one key
    exceeds the mean (KIP, Figure 2).

    >>> imbalance_over_bound(np.array([6.0, 3.0, 3.0]), heaviest=6.0)
    1.0
    """
    bound = max(float(loads.mean()), heaviest)
    return float(loads.max()) / bound if bound > 0 else 1.0


def share_of_state_moved(old: RoutingTable, new: RoutingTable, histogram: Histogram) -> float:
    """Relative migration: the moved part of all state (KIP, Figure 3)."""
    return migration(old, new, histogram).state_share


def locality(first: ArrayLike, second: ArrayLike, weights: ArrayLike | None = None) -> float:
    """The share of pairs whose two slots are equal, each pair counted `weights` times (Caneill).

    >>> locality([0, 1, 2], [0, 1, 1], weights=[2, 1, 1])
    0.75
    """
    same: NDArray[np.bool_] = np.asarray(first) == np.asarray(second)
    counted = np.ones(len(same)) if weights is None else np.asarray(weights, dtype=np.float64)
    total = float(counted.sum())
    return float(counted[same].sum()) / total if total > 0 else 1.0


def _as_resource(one: str | Resource, given: object) -> Resource:
    if callable(one):
        return one
    if one not in LETTERS:
        raise ValueError(f"{one!r} in resources={given!r} is no resource function: use C, L, Q or a callable")
    return LETTERS[one]


def _in_units_of(histogram: Histogram, resource: Resource, measure: Measure) -> Histogram:
    """The histogram with β in place of load and state, so that `loads` adds it up."""
    tracked, rest = resource_use(histogram, resource, measure)
    return replace(histogram, tracked=Measures(tracked, tracked, tracked), rest=Measures(rest, rest, rest))


def _first_delta(resource: Resource, theta_k: float, distinct: float, slots: int, sigma: float) -> float:
    if resource is constant:
        return 1.0
    if resource is linear:
        return sigma * theta_k / slots
    if resource is quadratic:
        return float(np.sqrt(sigma * theta_k / (distinct * slots)))
    return 0.0


def _largest_within(resource: Resource, allowed: float) -> float:
    """The largest δ in [0, 1] with β(δ) ≤ allowed."""

    def within(f: float) -> bool:
        return float(amounts(resource, np.array([f]))[0]) <= allowed

    if within(1.0):
        return 1.0
    low, high = 0.0, 1.0
    # halving down to the spacing of doubles around 1; thresholds far below 1e-12 would track every key anyway
    for _ in range(52):
        middle = (low + high) / 2
        low, high = (middle, high) if within(middle) else (low, middle)
    return low
