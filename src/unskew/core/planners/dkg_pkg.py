"""DKG with partial key grouping: heavy keys are scheduled in parts, light ones as in DKG."""

from __future__ import annotations

import numpy as np

from unskew.core.histogram import Histogram
from unskew.core.planners.declaration import Planner
from unskew.core.planners.dkg import bucket_groups, heavy_part
from unskew.core.planners.pkg import check_choices
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
    choices: int = 2,
) -> RoutingTable:
    """Each heavy key as `choices` equal parts, scheduled together with groups of buckets.

    Only for operators that can merge partial results. With two choices no part exceeds half the heaviest key,
    which also halves the bound on the imbalance. Parts of one key may share a slot (a row that names it twice).
    Like DKG it ignores `previous`. `theta` and `mu` as in `dkg`.
    Paper: Rivetti et al., DEBS 2015, section 6, figure 14.

    >>> h = Histogram.from_counts({"a": 60, "b": 20, "c": 10, "d": 10}, buckets=16)
    >>> plan(h, 2, theta=0.5).heavy
    {'a': (0, 1)}
    """
    check_choices(choices)
    trimmed = heavy_part(histogram, theta)
    groups = bucket_groups(histogram.buckets, slots, mu, seed)
    parts = np.repeat(trimmed.tracked.weights / choices, choices)
    chosen = longest_first(np.concatenate([parts, np.bincount(groups, trimmed.rest.weights)]), slots)
    return RoutingTable.build(
        slots,
        chosen[len(parts) :][groups],
        heavy=trimmed.keys,
        heavy_slots=chosen[: len(parts)].reshape(-1, choices).tolist(),
        hashes=trimmed.hashes,
        key_type=histogram.key_type,
    )


PLANNER = Planner(
    "dkg-pkg",
    plan,
    summary="DKG with each heavy key scheduled in equal parts; needs an operator that merges",
    movement="no promise",
    paper="Rivetti et al., DEBS 2015, section 6, figure 14",
    splits=True,
)
