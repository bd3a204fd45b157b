"""The measures of the papers: how even a table is, and what changing it costs.

Keys that are not tracked individually count as their bucket's mean key, as many as the bucket's distinct estimate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from unskew.core.histogram import Floats, Histogram, Measures
from unskew.core.loads import Measure, imbalance, migration, slot_loads
from unskew.core.planners.parts.resources import (
    RESOURCE_MEASURES,
    Resource,
    amounts,
    as_resource,
    as_resources,
    as_tolerances,
    linear,
)
from unskew.core.routing import RoutingTable


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
    beta = as_resource(resource, resource)
    moved = migration(old, new, _in_units_of(histogram, beta, "state"))
    return moved.state_share * new.slots


def percentage_of_imbalance(loads: Floats) -> float:
    """λ: how far the highest load is above the mean, in per cent (DKG eq. 1).

    >>> percentage_of_imbalance(np.array([4.0, 1.0, 1.0]))
    100.0
    """
    return (imbalance(loads) - 1.0) * 100.0


def load_deviation(loads: Floats) -> float:
    """σ: the population standard deviation of the slot loads (DKG section 5)."""
    return float(np.std(loads))


def _in_units_of(histogram: Histogram, resource: Resource, measure: Measure) -> Histogram:
    """The histogram with β in place of load and state, so that `loads` adds it up."""
    tracked, rest = resource_use(histogram, resource, measure)
    return replace(histogram, tracked=Measures(tracked, tracked, tracked), rest=Measures(rest, rest, rest))
