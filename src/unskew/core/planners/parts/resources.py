"""The resources of Gedik's planners, and from which frequency on a key needs a row of its own.

The paper (sections 3 and 4.1.3) has three resources: memory s, computation c and communication n. A resource function β
says how much of a resource a key of frequency f takes. For memory the frequency is the key's share of the state, which
equals f unless state was measured separately; for the other two it is the share of the load.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from unskew.core.histogram import Floats
from unskew.core.loads import Measure

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
    return tuple(as_resource(each, resources) for each in resources)  # type: ignore[return-value]


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
    figures = np.broadcast_to(np.asarray(resource(frequencies), dtype=np.float64), frequencies.shape)
    if not np.all(np.isfinite(figures) & (figures >= 0)):
        name = getattr(resource, "__name__", repr(resource))
        raise ValueError(f"the resource function {name} must return finite figures that are not negative")
    return figures


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
    """δ_k: the frequency from which on a key needs a row of its own, for each resource (Gedik section 4.1.3).

    `frequencies` are the shares of the measured keys for each resource, `distinct` is |D|. Constant and linear
    resources follow eq. 17. A quadratic one starts there as well, and is then raised with the mean load
    predicted from the keys above the first threshold; the prediction is a sum over all keys, so it is
    divided by N. For any other function eq. 16 is solved numerically with the mean load predicted from
    all measured keys.
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
    """δ_k by eq. 17, before any frequency is known: a counter must find the keys from the least of them on."""
    pairs = zip(resources, tolerances, strict=True)
    return tuple(_first_delta(beta, theta(alpha, slots), distinct, slots, sigma) for beta, alpha in pairs)


def predicted_mean_load(resource: Resource, frequencies: Floats, distinct: float, slots: int) -> float:
    """L̄_k from the frequencies of some keys, with all other keys taken as equal (Gedik section 4.1.3)."""
    others = max(distinct - len(frequencies), 0.0)
    total = float(amounts(resource, frequencies).sum())
    if others > 0:
        mean = np.array([max(1.0 - float(frequencies.sum()), 0.0) / others])
        total += others * float(amounts(resource, mean)[0])
    return total / slots


def as_resource(resource: str | Resource, resources: object) -> Resource:
    """The resource function of a letter; `resources` is the whole option, for the message."""
    if callable(resource):
        return resource
    if resource not in LETTERS:
        raise ValueError(
            f"{resource!r} in resources={resources!r} is not a resource function: use C, L, Q or a callable"
        )
    return LETTERS[resource]


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
