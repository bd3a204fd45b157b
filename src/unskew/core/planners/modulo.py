"""Storm's fields grouping as the DKG paper has it: the key itself mod N."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from unskew.core.histogram import Histogram
from unskew.core.planners.declaration import Planner
from unskew.core.routing import RoutingTable


def plan(
    histogram: Histogram, slots: int, previous: RoutingTable | None = None, *, seed: int = 0
) -> RoutingTable:
    """Integer keys to slot `key mod N`, everything else to slot `bucket mod N`.

    Each tracked integer key gets a row, so the table is the paper's Modulo for tracked keys and plain hashing for
    all others, and for null. Keys of any other type have no remainder: for them this is the same as `hash`.
    Blind to load; moves nothing while N stays and the same keys are tracked. Costs one row per tracked key.
    Paper: Rivetti et al., DEBS 2015, section 5.1 ("Modulo").

    >>> plan(Histogram.from_counts({5: 1, 7: 1}, buckets=8), 3).heavy == {5: 2, 7: 1}
    True
    """
    if not pa.types.is_integer(histogram.key_type):
        return RoutingTable.hashed(slots, histogram.buckets, histogram.key_type)
    present = np.flatnonzero(pc.is_valid(histogram.keys).to_numpy(zero_copy_only=False))
    keys = histogram.keys.take(pa.array(present))
    return RoutingTable.build(
        slots,
        np.arange(histogram.buckets) % slots,
        heavy=keys,
        heavy_slots=keys.to_numpy().astype(np.int64) % slots,
        hashes=histogram.hashes[present],
        key_type=histogram.key_type,
    )


PLANNER = Planner(
    "modulo",
    plan,
    summary="the key itself mod N, for integer keys; other keys as `hash`",
    movement="nothing while N and the tracked keys stay",
    paper='Rivetti et al., DEBS 2015, section 5.1 ("Modulo")',
    # for most data a twin of `hash`
    compared=False,
)
