"""A histogram from a DataFrame, counted in the JVM."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql import types as T

from unskew.core.hashing import buckets_of
from unskew.core.histogram import DEFAULT_BUCKETS, Histogram, Measures
from unskew.spark.keys import (
    Key,
    KeyColumns,
    Part,
    check_batch,
    column,
    field,
    free_name,
    key_columns,
    lots,
)
from unskew.spark.sketches import (
    HEAVY,
    MOST_BUCKETS,
    SketchedColumns,
    aggregates,
    histogram_of,
    holds_values,
    merged_hashes,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Sample: TypeAlias = float | int | Literal["auto"] | None
"""Which records to measure: a share of them, about how many, "auto", or None for all."""

TRACKED = 10_000
"""Keys whose load is read back one by one; a table rarely has a tenth of that many rows."""

AUTO_SHARE = 0.1
"""`sample="auto"` reads a tenth of the records: counting them is then a small part of shuffling all of them."""

AUTO_ROWS = 100_000
"""If a tenth is fewer records than this, all are counted by key: they are few, so it costs little."""

AUTO_FIRST = 50_000
"""Sketches count this many records of each partition, and a tenth of the others: all of small data, a tenth of big."""


def measure(
    df: DataFrame,
    key: Key,
    *more: Part,
    buckets: int = DEFAULT_BUCKETS,
    weight: str | None = None,
    sample: Sample = "auto",
    tracked: int | None = None,
) -> Histogram:
    """Count the load of every bucket and of the heaviest keys, in the JVM: no Python sees a row.

    `weight` names a column with the cost of a record (bytes, tuples, seconds); otherwise every record weighs 1.
    At most `tracked` keys are read back one by one (default: 10 000; those that a sketch holds).

    `sample="auto"` reads the first 50 000 records of every partition and a tenth of the others, in one job, with
    Spark's own sketches, which need no shuffle by key and hold the heaviest 1024 keys of either part. A sketch has no
    weights, and holds composite, struct and binary keys by their hash only. With a weight, with such keys, or with more
    `tracked` keys than a sketch holds, a tenth of the records is counted by key, or all of them if that is few.
    `sample=None` counts all records by key. A float below 1 is a share of the records; a whole number is about how many
    to read, and costs another job to count them all.
    """
    check_batch(df)
    keys = key_columns(df, key, *more)
    most = TRACKED if tracked is None else tracked
    _check(df, buckets, weight, sample, most)
    if sample == "auto" and (not holds_values(keys) or (tracked or 0) > HEAVY):
        return _tenth_by_key(df, keys, buckets, weight, most)
    return measure_for_planning(df, keys, buckets, weight, sample, most)


def measure_for_planning(
    df: DataFrame,
    keys: KeyColumns,
    buckets: int,
    weight: str | None,
    sample: Sample,
    tracked: int = TRACKED,
) -> Histogram:
    """As `measure`, but sketches may hold keys by their hash alone, which is all that a table needs."""
    if sample == "auto" and weight is None and buckets <= MOST_BUCKETS:
        return _sketch(df, keys, buckets, tracked)
    if sample == "auto":
        return _tenth_by_key(df, keys, buckets, weight, tracked)
    share = share_of(df, sample)
    return scaled(_count(sampled(df, share), keys, buckets, weight, tracked), share)


def _check(df: DataFrame, buckets: int, weight: str | None, sample: Sample, tracked: int) -> None:
    check_weight(df, weight)
    check_sample(sample)
    if buckets < 1:
        raise ValueError(f"buckets is at least 1, not {buckets}")
    if tracked < 0:
        raise ValueError(f"tracked is the number of keys to read back, 0 or more, not {tracked}")


def _tenth_by_key(
    df: DataFrame, keys: KeyColumns, buckets: int, weight: str | None, tracked: int
) -> Histogram:
    """A tenth of the records counted by key, or all of them if that is few."""
    histogram = _count(sampled(df, AUTO_SHARE), keys, buckets, weight, tracked)
    if histogram.records >= AUTO_ROWS:
        return scaled(histogram, AUTO_SHARE)
    return _count(df, keys, buckets, weight, tracked)


def _sketch(df: DataFrame, keys: KeyColumns, buckets: int, tracked: int) -> Histogram:
    """The first records of every partition, and a sample of the others, in one job."""
    place, lot = (free_name(name, df.columns) for name in ("__place", "__lot"))
    sketched = SketchedColumns.beside(df.columns)
    # the low 33 bits number the rows of a partition
    row_number = F.monotonically_increasing_id().bitwiseAND((1 << 33) - 1)
    first, drawn = f"{place} < {AUTO_FIRST}", f"{place} >= {AUTO_FIRST} AND {lot} < {AUTO_SHARE}"
    figures = (
        df.withColumns({**sketched.of(keys), place: row_number, lot: lots()})
        .where(f"{first} OR {drawn}")
        .agg(
            *(
                F.struct(*aggregates(sketched, buckets, rows)).alias(name)
                for name, rows in (("first", first), ("drawn", drawn))
            )
        )
        .collect()[0]
    )
    whole, sample = (histogram_of(figures[name].asDict(), keys, buckets) for name in ("first", "drawn"))
    histogram = whole.merge(scaled(sample, AUTO_SHARE)) if sample.records else whole
    return replace(histogram.trimmed(tracked), capacity=histogram.capacity)


def _count(df: DataFrame, keys: KeyColumns, buckets: int, weight: str | None, tracked: int) -> Histogram:
    # names of our own: the user's might be those of our columns
    parts = [f"k{i}" for i in range(len(keys.names))]
    count = F.count(F.lit(1)).cast("double")
    load = F.sum(column(weight).cast("double")) if weight else count
    by_key = (
        df.groupBy(*[part.alias(name) for part, name in zip(keys.values(), parts, strict=True)])
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
    """The type with every part nullable: rows of buckets have no key, and Arrow refuses a null in other parts."""
    if not isinstance(spark_type, T.StructType):
        return spark_type
    return T.StructType([T.StructField(part.name, _nullable(part.dataType)) for part in spark_type.fields])


def _histogram(rows: pa.Table, keys: KeyColumns, buckets: int) -> Histogram:
    """The histogram of the union of key rows and bucket rows; a bucket row includes its tracked keys."""
    is_key = rows["key"].to_numpy()
    heavy, whole = rows.filter(pa.array(is_key)), rows.filter(pa.array(~is_key))
    values = key_array(heavy["__k"].combine_chunks(), keys)
    hashes = heavy["id"].to_numpy()
    counts, weights = heavy["__n"].to_numpy(), heavy["__w"].to_numpy()
    tracked = Measures.of(counts, weights)
    bucket = whole["id"].to_numpy()
    sums = [_spread(bucket, whole[name].to_numpy(), buckets) for name in ("__n", "__w", "__d")]
    homes = buckets_of(hashes, buckets)
    for total, part in zip(sums, (counts, weights, np.ones(len(hashes))), strict=True):
        total -= np.bincount(homes, part, buckets)
    rest_counts, rest_weights, distinct = (np.maximum(total, 0.0) for total in sums)
    rest = Measures(rest_counts, rest_weights, rest_counts)
    return merged_hashes(Histogram(values, hashes, tracked, rest, distinct, key_names=keys.names))


def key_array(structs: pa.StructArray, keys: KeyColumns) -> pa.Array:
    """The keys from structs of their columns."""
    columns = structs.flatten()
    if len(keys.names) == 1:
        return columns[0].cast(keys.type)
    names = [part.name for part in keys.type]
    return pa.StructArray.from_arrays(columns, names=names).cast(keys.type)


def _spread(positions: Any, figures: Any, size: int) -> Any:
    whole = np.zeros(size)
    whole[positions] = figures
    return whole


def sampled(df: DataFrame, share: float) -> DataFrame:
    """A share of the records, the same ones in every run."""
    return df if share >= 1.0 else df.sample(fraction=share, seed=0)


def share_of(df: DataFrame, sample: float | None) -> float:
    """The share of the records that `sample` asks for; a number of rows needs a job that counts them."""
    if sample is None:
        return 1.0
    if isinstance(sample, float) and sample <= 1.0:
        return sample
    return min(1.0, sample / max(df.count(), 1))


def check_sample(sample: Sample) -> None:
    """Refuse what is not a sample; no Spark job runs."""
    if sample is None or sample == "auto":
        return
    if isinstance(sample, bool) or not isinstance(sample, int | float) or not sample > 0:
        raise ValueError(f"sample is a share below 1, a number of rows, 'auto' or None, not {sample!r}")


def scaled(histogram: Histogram, share: float) -> Histogram:
    """The figures of a sample scaled up to all records."""
    if share >= 1.0:
        return histogram
    tracked, rest = (measures.scaled(1.0 / share) for measures in (histogram.tracked, histogram.rest))
    return replace(histogram, tracked=tracked, rest=rest, sampled=share)


def check_weight(df: DataFrame, weight: str | None) -> None:
    """Refuse a weight that is not a column of numbers; no Spark job runs."""
    if weight is not None and not isinstance(field(df, weight).dataType, T.NumericType):
        raise ValueError(
            f"weight column {weight!r} is not a number but {field(df, weight).dataType.simpleString()}"
        )
