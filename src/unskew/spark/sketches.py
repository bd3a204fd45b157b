"""Bucket counts and heavy keys by Spark's own sketches, in one pass and without a shuffle by key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F

from unskew.core.hashing import Hashes, buckets_of, hash_keys
from unskew.core.histogram import Histogram, Measures
from unskew.spark.keys import KeyColumns, quoted

if TYPE_CHECKING:
    from pyspark.sql import Column

HEAVY = 1024
"""Heavy keys read back: about as many as a table will have rows."""

MOST_BUCKETS = 500_000
"""Spark's sketch has room for a million items."""

_TRACKED = 16_384
"""Items that the sketch of heavy keys counts."""


def aggregates(keys: KeyColumns, key_hash: str, buckets: int, among: str = "") -> list[Column]:
    """The figures to gather from a DataFrame that has the key's hash in the column `key_hash`.

    `among` is an SQL condition on the rows to count. It is text because Spark's Python columns have no FILTER.
    """
    hash_column = quoted(key_hash)
    item = _item(keys) if holds_values(keys) else hash_column
    bucket = f"CAST(pmod({hash_column}, {buckets}) AS INT)"
    figures = {
        "heavy": f"approx_top_k({item}, {HEAVY}, {_TRACKED})",
        # more room than buckets: every count is exact; one item more: a hash may be null (see `observe_keys`)
        "buckets": f"approx_top_k({bucket}, {buckets + 1}, {2 * buckets})",
        "distinct": f"approx_count_distinct({hash_column})",
    }
    only = f" FILTER (WHERE {among})" if among else ""
    return [F.expr(figure + only).alias(name) for name, figure in figures.items()]


def holds_values(keys: KeyColumns) -> bool:
    """Whether Spark's sketch can hold the key itself."""
    refused = (pa.types.is_struct, pa.types.is_null, pa.types.is_binary)
    return not any(is_refused(keys.type) for is_refused in refused)


def histogram_of(figures: Mapping[str, Any], keys: KeyColumns, buckets: int) -> Histogram:
    """The histogram of the gathered figures.

    Bucket counts are exact. Where the key has several columns, or is a struct or binary, the heavy keys are
    known by their hash only, which is all that planning needs.
    """
    values, hashes, counts = _heavy(figures["heavy"] or [], keys)
    whole = np.zeros(buckets)
    for row in figures["buckets"] or []:
        whole[row["item"]] = row["count"]
    homes = buckets_of(hashes, buckets)
    rest = np.maximum(whole - np.bincount(homes, counts, buckets), 0.0)
    distinct = max(float(figures["distinct"]) - len(hashes), 0.0)
    histogram = Histogram(
        values,
        hashes,
        Measures.of(counts),
        Measures(rest, rest, rest),
        np.where(rest > 0, distinct / max(int(np.count_nonzero(rest)), 1), 0.0),
        key_names=keys.names,
    )
    return merged_hashes(histogram)


def _heavy(rows: list[Any], keys: KeyColumns) -> tuple[pa.Array, Hashes, Any]:
    items = [row["item"] for row in rows]
    counts = np.array([float(row["count"]) for row in rows])
    if not holds_values(keys):
        return pa.nulls(len(items), keys.type), np.array(items, dtype=np.int64), counts
    values = _values(items, keys.type)
    return values, hash_keys(values), counts


def merged_hashes(histogram: Histogram) -> Histogram:
    """The histogram with keys of the same hash merged into one entry, as they are in every table."""
    hashes, first, group = np.unique(histogram.hashes, return_index=True, return_inverse=True)
    if len(hashes) == len(histogram.hashes):
        return histogram.trimmed(histogram.capacity)
    tracked = histogram.tracked.summed_by(group.reshape(-1), len(hashes))
    merged = replace(histogram, keys=histogram.keys.take(pa.array(first)), hashes=hashes, tracked=tracked)
    return merged.trimmed(merged.capacity)


def _item(keys: KeyColumns) -> str:
    """The key as the sketch holds it: a timestamp as a number, since a Python datetime depends on the time zone."""
    item = quoted(keys.names[0])
    return f"unix_micros({item})" if _is_timestamp(keys.type) else item


def _values(items: list[Any], key_type: pa.DataType) -> pa.Array:
    return (
        pa.array(items, pa.int64()).cast(key_type) if _is_timestamp(key_type) else pa.array(items, key_type)
    )


def _is_timestamp(key_type: pa.DataType) -> bool:
    return pa.types.is_timestamp(key_type) and key_type.tz is not None
