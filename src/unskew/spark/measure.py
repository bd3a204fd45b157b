"""A histogram from a DataFrame: from a bounded sample of its records, or by counting all of them in the JVM."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql import types as T

from unskew.core.hashing import buckets_of
from unskew.core.histogram import DEFAULT_BUCKETS, Histogram, Measures
from unskew.spark.keys import Key, KeyColumns, Part, check_batch, column, field, key_columns
from unskew.spark.sampling import (
    LEAST_BUDGET,
    MOST_BUDGET,
    check_loads,
    histogram_of_sample,
    key_array,
    sample_inputs,
)
from unskew.spark.sketches import merged_hashes
from unskew.spark.versions.collecting import arrow_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Sample: TypeAlias = float | int | Literal["auto"] | None
"""Which records to measure: a share of them, about how many, "auto", or None for all."""

TRACKED = 10_000
"""Keys whose load is read back one by one; a table rarely has a tenth of that many rows."""


def measure(
    df: DataFrame,
    key: Key,
    *more: Part,
    buckets: int = DEFAULT_BUCKETS,
    weight: str | None = None,
    sample: Sample = "auto",
    tracked: int | None = None,
) -> Histogram:
    """Measure the load of every bucket and of the heaviest keys.

    `weight` names a column with the cost of a record (bytes, tuples, seconds); otherwise every record weighs 1.
    At most `tracked` keys are told apart one by one (default: 10 000, or 1024 if not all records were read).

    `sample="auto"` reads a bounded number of records in one job, fewer of each partition the further it gets
    (`unskew.spark.sampling`): all of small data, some hundred thousand of big data. `sample=None` counts all
    records by key, in the JVM. A float below 1 is a share of the records; a whole number is about how many to read, and
    costs another job to count them all.

    >>> clicks = spark.createDataFrame([("ann", 2), ("ann", 4), ("bob", 3)], "user string, n int")
    >>> unskew.measure(clicks, "user").top(2)
    [('ann', 2.0), ('bob', 1.0)]
    """
    check_batch(df)
    keys = key_columns(df, key, *more)
    tracked = TRACKED if tracked is None else tracked
    _check(df, buckets, weight, sample, tracked)
    return measure_for_planning(df, keys, buckets, weight, sample, tracked, budget=MOST_BUDGET)


def measure_for_planning(
    df: DataFrame,
    keys: KeyColumns,
    buckets: int,
    weight: str | None,
    sample: Sample,
    tracked: int = TRACKED,
    budget: int = LEAST_BUDGET,
) -> Histogram:
    """As `measure`, for keys that were checked; `budget` is that of `sample_keys`."""
    if sample == "auto":
        return histogram_of_sample(sample_inputs([(df, keys, weight)], budget)[0], 0, keys, buckets, tracked)
    share = share_of(df, sample)
    return scaled(_count(sampled(df, share), keys, buckets, weight, tracked), share)


def measure_inputs(
    inputs: Sequence[tuple[DataFrame, KeyColumns, str | None]],
    buckets: int,
    sample: Sample,
    budget: int = LEAST_BUDGET,
    size: float | None = None,
) -> list[Histogram]:
    """The load of each input of one operator, with its weight or None; with "auto" all in one Spark job.

    `size` is that of all inputs in bytes, if Spark was asked already.
    """
    if sample != "auto":
        return [measure_for_planning(df, keys, buckets, weight, sample) for df, keys, weight in inputs]
    samples = sample_inputs(inputs, budget, size or math.inf)
    return [
        histogram_of_sample(drawn, 0, keys, buckets, TRACKED)
        for drawn, (_, keys, _) in zip(samples, inputs, strict=True)
    ]


def _check(df: DataFrame, buckets: int, weight: str | None, sample: Sample, tracked: int) -> None:
    check_weight(df, weight)
    check_sample(sample)
    if buckets < 1:
        raise ValueError(f"buckets is at least 1, not {buckets}")
    if tracked < 0:
        raise ValueError(f"tracked is the number of keys to read back, 0 or more, not {tracked}")


def _count(df: DataFrame, keys: KeyColumns, buckets: int, weight: str | None, tracked: int) -> Histogram:
    # names of our own: the user's might be those of our columns
    parts = [f"k{i}" for i in range(len(keys.names))]
    count = F.count(F.lit(1)).cast("double")
    load = F.sum(column(weight).cast("double")) if weight else count
    lightest = F.min(column(weight).cast("double")) if weight else F.lit(0.0)
    by_key = (
        df.groupBy(*[part.alias(name) for part, name in zip(keys.values(), parts, strict=True)])
        .agg(count.alias("__n"), F.coalesce(load, F.lit(0.0)).alias("__w"), lightest.alias("__least"))
        .select(F.xxhash64(*parts).alias("__h"), "__n", "__w", "__least", F.struct(*parts).alias("__k"))
    )
    heaviest = by_key.orderBy(F.col("__w").desc(), F.col("__h")).limit(tracked)
    bucket = F.pmod(F.col("__h"), F.lit(buckets).cast("bigint"))
    by_bucket = by_key.groupBy(bucket.alias("__b")).agg(
        F.sum("__n").alias("__n"),
        F.sum("__w").alias("__w"),
        F.count(F.lit(1)).cast("double").alias("__d"),
        F.min("__least").alias("__least"),
    )
    no_key = F.lit(None).cast(_nullable(by_key.schema["__k"].dataType))
    none = F.lit(None).cast("double")
    both = heaviest.select(
        F.lit(True).alias("key"), F.col("__h").alias("id"), "__n", "__w", none.alias("__d"), "__least", "__k"
    )
    both = both.unionAll(
        by_bucket.select(F.lit(False), F.col("__b"), "__n", "__w", "__d", "__least", no_key.alias("__k"))
    )
    rows = arrow_table(both)
    check_loads(rows["__least"].drop_null().to_numpy(), weight)
    return _histogram(rows, keys, buckets)


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
            f"weight column {weight!r} is not a number but {field(df, weight).dataType.simpleString()}: "
            "cast it, or name another"
        )
