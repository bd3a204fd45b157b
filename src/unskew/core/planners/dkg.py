"""Distribution-aware key grouping (DKG): heavy keys and groups of buckets, scheduled together."""

from __future__ import annotations

from math import ceil
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from unskew.core.histogram import Histogram
from unskew.core.planners.declaration import Planner, UnsuitablePlannerError
from unskew.core.planners.parts.universal_hash import bucket_numbers, draw
from unskew.core.routing import RoutingTable
from unskew.core.scheduling import longest_first


def plan(
    histogram: Histogram,
    slots: int,
    previous: RoutingTable | None = None,
    *,
    seed: int = 0,
    theta: float = 0.1,
    mu: float | None = 2.0,
    cost: Literal["linear", "quadratic"] = "linear",
) -> RoutingTable:
    """Heavy keys and groups of buckets, heaviest first, each to the least loaded slot.

    A heavy key above the mean slot load is alone on its slot; if it is also the heaviest item, the
    imbalance is the least possible (theorem 4.2, case 1). In any case the maximum is within 4/3 − 1/(3N)
    of the best placement of these items.
    DKG learns once: it ignores `previous` and makes no promise about migration.
    Costs O(H + (|heavy| + N·mu) log N).

    `theta`: a tracked key with at least this share of the load is heavy (Θ; the paper's 1/ε counters are the
    histogram's tracked keys). `mu`: the buckets form ceil(N·mu) groups by a 2-universal function drawn by `seed`
    (μ, h̄); None schedules every bucket on its own, which is much finer. `cost`: "quadratic" squares the load of
    each item before it is scheduled, as section 5.2 does; this overestimates groups of many light keys. Among
    equal items heavy keys come first.
    Paper: Rivetti et al., "Efficient Key Grouping for Near-Optimal Load Balancing", DEBS 2015, section 3.

    >>> h = Histogram.from_counts({"a": 60, "b": 20, "c": 10, "d": 10}, buckets=16)
    >>> plan(h, 2, theta=0.2).heavy == {"a": 0, "b": 1}
    True
    """
    if cost not in ("linear", "quadratic"):
        raise ValueError(f"cost is 'linear' or 'quadratic', not {cost!r}")
    trimmed = heavy_part(histogram, theta)
    groups = bucket_groups(histogram.buckets, slots, mu, seed)
    items = np.concatenate([trimmed.tracked.weights, np.bincount(groups, trimmed.rest.weights)])
    chosen = longest_first(items**2 if cost == "quadratic" else items, slots)
    heavy = len(trimmed.hashes)
    return RoutingTable.build(
        slots,
        chosen[heavy:][groups],
        heavy=trimmed.keys,
        heavy_slots=chosen[:heavy],
        hashes=trimmed.hashes,
        key_type=histogram.key_type,
    )


def heavy_part(histogram: Histogram, theta: float) -> Histogram:
    """The histogram with only those keys tracked whose share is at least `theta`."""
    if not 0.0 < theta <= 1.0:
        raise ValueError(f"theta is a share of the load, above 0 and at most 1, not {theta}")
    return histogram.trimmed(int(np.count_nonzero(histogram.tracked.weights >= theta * histogram.total)))


def bucket_groups(buckets: int, slots: int, mu: float | None, seed: int) -> NDArray[np.int64]:
    """The group of each bucket: one of ceil(slots·mu), or its own where `mu` is None."""
    if mu is None:
        return np.arange(buckets)
    if not 1.0 <= mu < np.inf:
        raise ValueError(
            f"mu is the number of bucket groups per slot, at least 1, not {mu}; or None for no groups"
        )
    groups = ceil(slots * mu)
    if groups > buckets:
        raise UnsuitablePlannerError(
            f"mu={mu} asks for {groups} groups of only {buckets} buckets: "
            "use a smaller mu or mu=None, or measure with more buckets"
        )
    return draw(groups, seed)(bucket_numbers(buckets))


PLANNER = Planner(
    "dkg",
    plan,
    summary="distribution-aware key grouping: heavy keys and groups of buckets, scheduled together",
    movement="no promise",
    paper='Rivetti et al., "Efficient Key Grouping for Near-Optimal Load Balancing", DEBS 2015, section 3',
)
