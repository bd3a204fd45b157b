"""A histogram from a DataFrame, counted in the JVM."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql import types as T

from unskew.core.hashing import buckets_of
from unskew.core.histogram import DEFAULT_BUCKETS, Histogram, Measures
from unskew.spark.keys import Key, KeyColumns, column, field, free_name, key_columns, lots
from unskew.spark.sketches import MOST_BUCKETS, aggregates, histogram_of, merged_hashes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Sample = float | int | Literal["auto"] | None

TRACKED = 10_000
"""Keys whose load is read back one by one; a table rarely has a tenth of that many rows."""

AUTO_SHARE = 0.1
"""`sample="auto"` looks at a tenth of the records: counting them is then a small part of shuffling all of them."""

AUTO_ROWS = 100_000
"""With fewer sampled records than this, all are counted: there are few, so it costs little."""

AUTO_FIRST = 50_000
"""So many records of each partition are counted, and a share of the others: all of little data, a tenth of much."""


def measure(
    df: DataFrame,
    key: Key,
    *,
    buckets: int = DEFAULT_BUCKETS,
    weight: str | None = None,
    sample: Sample = None,
    tracked: int = TRACKED,
) -> Histogram:
    """Count the load of every bucket and of the heaviest keys, in one Spark job and without Python per row.

    Records are counted by key with Spark's own partial aggregation, the counts summed by bucket, and the
    `tracked` heaviest keys read back with them. `weight` names a column with the cost of a record (bytes,
    tuples, seconds); otherwise every record weighs 1. `sample` is a share of the records (a float below 1),
    about how many to look at (a whole number; counts the rows first), or "auto": the first 50 000 of
    every partition and a tenth of the others, by Spark's sketches (see `sketching`), which need no shuffle by key; with
    a weight a tenth of all, or all if that is few, by key.
    """
    keys = key_columns(df, key)
    check_weight(df, weight)
    check_sample(sample)
    if buckets < 1:
        raise ValueError(f"buckets is at least 1, not {buckets}")
    if tracked < 0:
        raise ValueError(f"tracked is the number of keys to read back, 0 or more, not {tracked}")
    if sample == "auto" and weight is None and buckets <= MOST_BUCKETS:
        return _sketch(df, keys, buckets)
    if sample == "auto":
        histogram = _count(sampled(df, AUTO_SHARE), keys, buckets, weight, tracked)
        if histogram.records >= AUTO_ROWS:
            return scaled(histogram, AUTO_SHARE)
        return _count(df, keys, buckets, weight, tracked)
    share = share_of(df, sample)
    return scaled(_count(sampled(df, share), keys, buckets, weight, tracked), share)


def _sketch(df: DataFrame, keys: KeyColumns, buckets: int) -> Histogram:
    """The first records of every partition, and a sample of the others, in one job."""
    key_hash, place, lot = (free_name(name, df.columns) for name in ("__hash", "__place", "__lot"))
    number = F.monotonically_increasing_id().bitwiseAND((1 << 33) - 1)  # of a row in its partition
    first, drawn = f"{place} < {AUTO_FIRST}", f"{place} >= {AUTO_FIRST} AND {lot} < {AUTO_SHARE}"
    seen = (
        df.withColumns({key_hash: keys.hash(), place: number, lot: lots()})
        .where(f"{first} OR {drawn}")
        .agg(
            *(
                F.struct(*aggregates(keys, key_hash, buckets, rows)).alias(name)
                for name, rows in (("first", first), ("drawn", drawn))
            )
        )
        .collect()[0]
    )
    whole, sample = (histogram_of(seen[name].asDict(), keys, buckets) for name in ("first", "drawn"))
    return whole.merge(scaled(sample, AUTO_SHARE)) if sample.records else whole


def _count(df: DataFrame, keys: KeyColumns, buckets: int, weight: str | None, tracked: int) -> Histogram:
    parts = [f"k{i}" for i in range(len(keys.names))]  # the user's names might be ours, too
    count = F.count(F.lit(1)).cast("double")
    load = F.sum(column(weight).cast("double")) if weight else count
    by_key = (
        df.groupBy(*[part.alias(name) for part, name in zip(keys.columns(), parts, strict=True)])
        .agg(count.alias("__n"), F.coalesce(load, F.lit(0.0)).alias("__w"))
        .select(F.xxhash64(*parts).alias("__h"), "__n", "__w", F.struct(*parts).alias("__k"))
    )
    heaviest = by_key.orderBy(F.col("__w").desc(), F.col("__h")).limit(tracked)
    bucket = F.pmod(F.col("__h"), F.lit(buckets).cast("bigint"))
    by_bucket = by_key.groupBy(bucket.alias("__b")).agg(
        F.sum("__n").alias("__n"), F.sum("__w").alias("__w"), F.count(F.lit(1)).cast("double").alias("__d")
    )
    no_key = F.lit(None).cast(_nullable(by_key.schema["__k"].dataType))
    none = F.lit(None).cast("double")
    both = heaviest.select(
        F.lit(True).alias("key"), F.col("__h").alias("id"), "__n", "__w", none.alias("__d"), "__k"
    )
    both = both.unionAll(
        by_bucket.select(F.lit(False), F.col("__b"), "__n", "__w", "__d", no_key.alias("__k"))
    )
    return _histogram(both.toArrow(), keys, buckets)


def _nullable(spark_type: T.DataType) -> T.DataType:
    """The type with every part nullable, as it is where there is no key: Arrow refuses a null in other parts."""
    if not isinstance(spark_type, T.StructType):
        return spark_type
    return T.StructType([T.StructField(f.name, _nullable(f.dataType)) for f in spark_type.fields])


def _histogram(rows: pa.Table, keys: KeyColumns, buckets: int) -> Histogram:
    """From the union of key rows and bucket rows; a bucket row counts its tracked keys too."""
    is_key = rows["key"].to_numpy()
    heavy, whole = rows.filter(pa.array(is_key)), rows.filter(pa.array(~is_key))
    values = key_array(heavy["__k"].combine_chunks(), keys)
    hashes = heavy["id"].to_numpy()
    counts, weights = heavy["__n"].to_numpy(), heavy["__w"].to_numpy()
    tracked = Measures.of(counts, weights)
    at = whole["id"].to_numpy()
    sums = [_spread(at, whole[c].to_numpy(), buckets) for c in ("__n", "__w", "__d")]
    homes = buckets_of(hashes, buckets)
    for total, part in zip(sums, (counts, weights, np.ones(len(hashes))), strict=True):
        total -= np.bincount(homes, part, buckets)
    rest_counts, rest_weights, distinct = (np.maximum(total, 0.0) for total in sums)
    rest = Measures(rest_counts, rest_weights, rest_counts)
    everything = Histogram(values, hashes, tracked, rest, distinct, key_names=keys.names)
    return merged_hashes(everything)


def key_array(structs: pa.StructArray, keys: KeyColumns) -> pa.Array:
    """The keys out of structs of their columns."""
    columns = structs.flatten()
    if len(keys.names) == 1:
        return columns[0].cast(keys.type)
    return pa.StructArray.from_arrays(columns, names=list(keys.names)).cast(keys.type)


def _spread(at: Any, figures: Any, size: int) -> Any:
    whole = np.zeros(size)
    whole[at] = figures
    return whole


def sampled(df: DataFrame, share: float) -> DataFrame:
    """A share of the records, the same ones each time."""
    return df if share >= 1.0 else df.sample(fraction=share, seed=0)


def share_of(df: DataFrame, sample: float | None) -> float:
    """The share of the records that `sample` asks for; a number of rows needs a job that counts them."""
    if sample is None:
        return 1.0
    if isinstance(sample, float) and sample <= 1.0:
        return sample
    return min(1.0, sample / max(df.count(), 1))


def check_sample(sample: Sample) -> None:
    """Refuse what is no sample; no Spark job runs."""
    if sample is None or sample == "auto":
        return
    if isinstance(sample, bool) or not isinstance(sample, int | float) or not sample > 0:
        raise ValueError(f"sample is a share below 1, a number of rows, 'auto' or None, not {sample!r}")


def scaled(histogram: Histogram, share: float) -> Histogram:
    """Figures of a sample made to stand for all records."""
    if share >= 1.0:
        return histogram
    up = 1.0 / share
    return replace(
        histogram, tracked=histogram.tracked.scaled(up), rest=histogram.rest.scaled(up), sampled=share
    )


def check_weight(df: DataFrame, weight: str | None) -> None:
    """Refuse a weight that is not a column of numbers; no Spark job runs."""
    if weight is not None and not isinstance(field(df, weight).dataType, T.NumericType):
        raise ValueError(
            f"weight column {weight!r} is not a number but {field(df, weight).dataType.simpleString()}"
        )
