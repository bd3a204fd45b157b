"""Which tasks write the rows of which values, where each task writes one file for each of its values."""

from __future__ import annotations

import heapq
from math import log

import numpy as np
from numpy.typing import NDArray

from unskew.core.histogram import Floats, Histogram
from unskew.core.routing import RoutingTable

MOST_FILES = 20_000
"""Files of one value, and so tasks: with more, Spark's driver would be busy with them for minutes."""

_UNLIKELY = log(1e12)
"""A file exceeds its limit once in 10¹² files at most."""

_OWN_ROW = 0.1
"""Share of the mean slot from which a value gets a row in the table; lighter ones go where their bucket goes."""


def files_table(histogram: Histogram, slots: int, rows_per_file: int | None = None) -> RoutingTable:
    """A table in whose slots no value has more than `rows_per_file` rows; without that, none has more than the mean.

    A value above the limit is shared equally by several slots, any other is whole: so small values are one file each,
    many of them to a slot. Slots are filled heaviest first, each share to the least loaded slot that has none of that
    value. There are more than `slots` slots if a value needs more files. The histogram counts all rows.

    Which rows of a value go to which of its slots is as good as random, so the shares are planned a little smaller
    than the limit (`expected_rows`).

    >>> h = Histogram.from_counts({"a": 900, "b": 60, "c": 40}, buckets=16)
    >>> files_table(h, 4).heavy
    {'a': (0, 1, 2, 3), 'b': 0, 'c': 1}
    >>> files_table(h, 4, rows_per_file=1000).heavy["a"]
    0
    """
    counts = histogram.tracked.counts
    limit = histogram.total / slots if rows_per_file is None else float(rows_per_file)
    planned = limit if rows_per_file is None else expected_rows(rows_per_file)
    files = (
        np.where(counts > limit, np.ceil(counts / planned), 1.0) if histogram.total else np.ones(len(counts))
    )
    most = float(files.max(initial=1.0))
    if most > MOST_FILES:
        raise ValueError(
            f"a value has {counts.max():,.0f} rows, which at rows_per_file={rows_per_file} takes {most:,.0f} tasks: "
            f"raise rows_per_file, or leave it out and write with option('maxRecordsPerFile', {rows_per_file})"
        )
    slots = max(slots, int(most))
    own = int(np.count_nonzero((files > 1) | (counts >= _OWN_ROW * histogram.total / slots)))
    trimmed = histogram.trimmed(own)
    heavy, buckets = _placed(trimmed.tracked.counts, files[:own].astype(np.int64), trimmed.rest.counts, slots)
    # a table has at least as many buckets as slots: bucket b of H is buckets b, b + H, b + 2 H, … of more
    buckets = np.tile(buckets, -(-slots // len(buckets)))
    return RoutingTable.build(
        slots,
        buckets,
        heavy=trimmed.keys,
        heavy_slots=heavy,
        hashes=trimmed.hashes,
        key_type=trimmed.key_type,
    )


def expected_rows(most: int) -> float:
    """How many rows a file may be expected to get so that it practically never gets more than `most`.

    Chernoff's bound: a sum of independent choices with mean x is at least m with probability e^-(m ln(m/x) - m + x) at
    most.

    >>> round(expected_rows(1_000_000)), round(expected_rows(1000))
    (992585, 783)
    """
    low, high = 0.0, float(most)
    for _ in range(100):
        x = (low + high) / 2
        if x > 0 and most * log(most / x) - most + x >= _UNLIKELY:
            low = x
        else:
            high = x
    return max(low, 1e-300)


def _placed(
    heavy: Floats, files: NDArray[np.int64], buckets: Floats, slots: int
) -> tuple[list[list[int]], NDArray[np.int32]]:
    """The slots of each heavy value, and of each bucket."""
    sizes = np.concatenate([heavy / files, buckets])
    heap = [(0.0, slot) for slot in range(slots)]
    heavy_slots: list[list[int]] = [[] for _ in heavy]
    bucket_slots = np.zeros(len(buckets), np.int32)
    for entry in np.argsort(-sizes, kind="stable").tolist():
        copies = int(files[entry]) if entry < len(heavy) else 1
        taken = [heapq.heappop(heap) for _ in range(copies)]
        for load, slot in taken:
            heapq.heappush(heap, (load + float(sizes[entry]), slot))
        if entry < len(heavy):
            heavy_slots[entry] = [slot for _, slot in taken]
        else:
            bucket_slots[entry - len(heavy)] = taken[0][1]
    return heavy_slots, bucket_slots
