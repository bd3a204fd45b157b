"""Bucket counts and heavy keys by Spark's own sketches, in one pass and without a shuffle by key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F

from unskew.core.hashing import Hashes, buckets_of, hash_keys
from unskew.core.histogram import Histogram, Measures
from unskew.spark.keys import KeyColumns, free_name, quoted
from unskew.spark.versions import counting

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

HEAVY = 1024
"""Heavy keys read back: about as many as a table will have rows."""

MOST_BUCKETS = 500_000
"""Spark's sketch has room for a million items."""

_TRACKED = 16_384
"""Items that the sketch of heavy keys counts."""


@dataclass(frozen=True)
class SketchedColumns:
    """The columns that the sketches read, by name: the hash of the key, and the key as a sketch holds it.

    Where Spark lacks the sketches, `item` is drawn for a sample of the rows instead (`versions.counting`).
    """

    key_hash: str
    item: str
    sampled: bool = False

    @classmethod
    def beside(cls, spark: SparkSession, *taken: Sequence[str]) -> SketchedColumns:
        """With names that differ from those in `taken`."""
        return cls(free_name("__hash", *taken), free_name("__key", *taken), counting.draws_sample(spark))

    def of(self, keys: KeyColumns) -> dict[str, Column]:
        """The columns to add to the DataFrame."""
        item = counting.drawn(keys.hash(), _item(keys)) if self.sampled else _item(keys)
        return {self.key_hash: keys.hash(), self.item: item}


def aggregates(sketched: SketchedColumns, buckets: int, among: str = "") -> list[Column]:
    """The figures to gather from a DataFrame that has the sketched columns.

    `among` is an SQL condition on the rows to count. It is text because Spark's Python columns have no FILTER.
    """
    hash_column, item = quoted(sketched.key_hash), quoted(sketched.item)
    bucket = f"CAST(pmod({hash_column}, {buckets}) AS INT)"
    figures = {
        "heavy": f"approx_top_k({item}, {HEAVY}, {_TRACKED})",
        # more room than buckets: every count is exact; one item more: a hash may be null (see `observe_keys`)
        "buckets": f"approx_top_k({bucket}, {buckets + 1}, {2 * buckets})",
        "distinct": f"approx_count_distinct({hash_column})",
    }
    if sketched.sampled:
        figures = counting.sample_aggregates(sketched.item, sketched.key_hash)
    only = f" FILTER (WHERE {among})" if among else ""
    return [F.expr(figure + only).alias(name) for name, figure in figures.items()]


def holds_values(keys: KeyColumns) -> bool:
    """Whether Spark's sketch can hold the key itself."""
    refused = (pa.types.is_struct, pa.types.is_null, pa.types.is_binary)
    return not any(is_refused(keys.type) for is_refused in refused)


def histogram_of(figures: Mapping[str, Any], keys: KeyColumns, buckets: int) -> Histogram:
    """The histogram of the gathered figures.

    With sketches, bucket counts are exact. Where the key has several columns, or is a struct or binary, the heavy keys
    are known by their hash only, which is all that planning needs.
    """
    figures = counting.in_sketched_form(figures, buckets, HEAVY, item_type(keys))
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


def _item(keys: KeyColumns) -> Column:
    """The key as the sketch holds it: its hash, or its value, if that can be a number or a string in Python.

    Dates and times become numbers, since Python has none before the year 1 or after 9999, and its times depend on
    the time zone.
    """
    if not holds_values(keys):
        return keys.hash()
    value = keys.values()[0]
    if pa.types.is_date(keys.type):
        return F.unix_date(value)
    if pa.types.is_timestamp(keys.type):
        return F.unix_micros(value) if keys.type.tz is not None else _micros_without_zone(value)
    return value


def item_type(keys: KeyColumns) -> pa.DataType:
    """The type of `_item` in Arrow."""
    is_number = not holds_values(keys) or pa.types.is_date(keys.type) or pa.types.is_timestamp(keys.type)
    return pa.int64() if is_number else keys.type


def _micros_without_zone(time: Column) -> Column:
    minutes = (F.unix_date(time.cast("date")).cast("long") * 24 + F.hour(time)) * 60 + F.minute(time)
    return minutes * 60_000_000 + (F.extract(F.lit("SECOND"), time) * 1_000_000).cast("long")


def _values(items: list[Any], key_type: pa.DataType) -> pa.Array:
    if pa.types.is_date(key_type):
        return pa.array(items, pa.int32()).cast(key_type)
    if pa.types.is_timestamp(key_type):
        return pa.array(items, pa.int64()).cast(key_type)
    return pa.array(items, key_type)
