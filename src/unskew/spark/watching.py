"""Statistics gathered while the user's own job runs, with no job of ours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Observation
from pyspark.sql import functions as F

from unskew.core.hashing import Hashes, buckets_of, hash_keys
from unskew.core.histogram import DEFAULT_BUCKETS, Histogram, Measures
from unskew.spark.keys import KeyColumns, column, free_name, key_columns
from unskew.spark.measure import merged_hashes

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

WATCHED = 1024
"""Heavy keys read back: about the most rows a table will have."""

_SKETCH = 8192  # items that the heavy-key sketch keeps count of
_MOST_BUCKETS = 500_000  # Spark's sketch has room for a million items


@dataclass(frozen=True)
class Watched:
    """A DataFrame that is measured while the user's own job reads it.

    Use `df` in the job instead of the original. When the job's action has ended, `histogram` has its load, so that
    the next run starts with a plan.
    """

    df: DataFrame
    keys: KeyColumns
    buckets: int
    observation: Observation

    @property
    def histogram(self) -> Histogram:
        """The load that the job read; waits for the job's first action to end.

        Bucket counts are exact, heavy keys are Spark's own sketch. Where the key has several columns, or is a struct
        or binary, the heavy keys are known by their hash only, which is all that planning needs.
        """
        seen = self.observation.get
        keys, hashes, counts = self._heavy(seen)
        whole = np.zeros(self.buckets)
        for row in seen["buckets"] or []:
            whole[row["item"]] = row["count"]
        homes = buckets_of(hashes, self.buckets)
        rest = np.maximum(whole - np.bincount(homes, counts, self.buckets), 0.0)
        distinct = max(float(seen["distinct"]) - len(hashes), 0.0)
        histogram = Histogram(
            keys,
            hashes,
            Measures.of(counts),
            Measures(rest, rest, rest),
            np.where(rest > 0, distinct / max(int(np.count_nonzero(rest)), 1), 0.0),
            key_names=self.keys.names,
        )
        return merged_hashes(histogram)

    def _heavy(self, seen: dict[str, Any]) -> tuple[pa.Array, Hashes, Any]:
        rows = seen["heavy"] or []
        items = [row["item"] for row in rows]
        counts = [float(row["count"]) for row in rows]
        if not _by_value(self.keys):
            return pa.nulls(len(items), self.keys.type), np.array(items, dtype=np.int64), np.array(counts)
        keys = _values(items, self.keys.type)
        return keys, hash_keys(keys), np.array(counts)


def watch(df: DataFrame, *key: str, buckets: int = DEFAULT_BUCKETS) -> Watched:
    """Measure `df` by `key` while the user's own job runs on the returned `Watched.df`; no job is started.

    >>> watched = unskew.watch(events, "user")  # doctest: +SKIP
    >>> unskew.groupBy(watched.df, "user", plan=plan).applyInPandas(score, schema)  # doctest: +SKIP
    >>> plan = unskew.plan(watched.histogram, slots=64, previous=plan)  # doctest: +SKIP
    """
    keys = key_columns(df, key)
    if not 1 <= buckets <= _MOST_BUCKETS:
        raise ValueError(f"buckets is between 1 and {_MOST_BUCKETS} here, not {buckets}")
    observation = Observation()
    name = free_name("__hash", df.columns)
    hashed = df.withColumn(name, keys.hash())
    item = _item(keys) if _by_value(keys) else F.col(name)
    bucket = F.pmod(F.col(name), F.lit(buckets)).cast("int")
    watched = hashed.observe(
        observation,
        _top(item, WATCHED, _SKETCH).alias("heavy"),
        _top(bucket, buckets, 2 * buckets).alias("buckets"),  # more room than buckets: every count is exact
        F.approx_count_distinct(name).alias("distinct"),
    )
    return Watched(watched.drop(name), keys, buckets, observation)


def _top(item: Any, k: int, tracked: int) -> Any:
    return F.call_function("approx_top_k", item, F.lit(k), F.lit(tracked))


def _by_value(keys: KeyColumns) -> bool:
    """Whether Spark's sketch can hold the key itself."""
    refused = (pa.types.is_struct, pa.types.is_null, pa.types.is_binary)
    return not any(is_refused(keys.type) for is_refused in refused)


def _item(keys: KeyColumns) -> Column:
    """The key as the sketch may hold it: a moment as a number, since a Python datetime would depend on the zone."""
    item = column(keys.names[0])
    return F.unix_micros(item) if _is_moment(keys.type) else item


def _values(items: list[Any], key_type: pa.DataType) -> pa.Array:
    return pa.array(items, pa.int64()).cast(key_type) if _is_moment(key_type) else pa.array(items, key_type)


def _is_moment(key_type: pa.DataType) -> bool:
    return pa.types.is_timestamp(key_type) and key_type.tz is not None
