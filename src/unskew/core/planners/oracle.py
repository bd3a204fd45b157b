"""O-apx: every tracked key and every bucket scheduled, close to the best that whole keys allow."""

from __future__ import annotations

import numpy as np

from unskew.core.histogram import Histogram
from unskew.core.planners.declaration import Planner
from unskew.core.routing import RoutingTable
from unskew.core.scheduling import longest_first


def plan(
    histogram: Histogram, slots: int, previous: RoutingTable | None = None, *, seed: int = 0
) -> RoutingTable:
    """All tracked keys and all buckets, heaviest first, each to the least loaded slot.

    Within 4/3 − 1/(3N) of the best placement of these entries. With the full counts of the data that the table will
    route, it is the paper's O-apx, against which the other planners are judged. Every tracked key gets a row, and
    nothing is kept in place. Costs O((K + H) log N) for K tracked keys.
    Paper: Rivetti et al., DEBS 2015, section 5.1 ("O-apx").

    >>> plan(Histogram.from_counts({"a": 3, "b": 2, "c": 1}, buckets=4), 2).heavy == {"a": 0, "b": 1, "c": 1}
    True
    """
    keys = len(histogram.hashes)
    chosen = longest_first(np.concatenate([histogram.tracked.weights, histogram.rest.weights]), slots)
    return RoutingTable.build(
        slots,
        chosen[keys:],
        heavy=histogram.keys,
        heavy_slots=chosen[:keys],
        hashes=histogram.hashes,
        key_type=histogram.key_type,
    )


PLANNER = Planner(
    "oracle",
    plan,
    summary="O-apx: every tracked key and every bucket scheduled, close to the best that whole keys allow",
    movement="no promise",
    paper='Rivetti et al., DEBS 2015, section 5.1 ("O-apx")',
)
