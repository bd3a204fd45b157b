"""Statistics gathered while the user's own job runs, without a job of ours."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from pyspark.sql import Observation
from pyspark.sql import functions as F

from unskew.core.histogram import DEFAULT_BUCKETS, Histogram
from unskew.spark.keys import Key, KeyColumns, free_name, key_columns
from unskew.spark.sketches import MOST_BUCKETS, aggregates, histogram_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ITEMS = ("heavy", "buckets")


@dataclass(frozen=True)
class Observed:
    """A DataFrame that is measured while the user's own job reads it.

    Use `df` in the job instead of the original. When the job's action has ended, `histogram` has the load, so that
    the next run starts with a plan.
    """

    df: DataFrame
    keys: KeyColumns
    buckets: int
    observation: Observation
    skips_null: bool = False

    @property
    def histogram(self) -> Histogram:
        """The load that the job read; waits for the job's first action to end.

        Bucket counts are exact, heavy keys come from Spark's own sketch. If the key has several columns, or is a struct
        or binary, the heavy keys are known by their hash only, which is all that planning needs.
        """
        figures = self.observation.get
        if self.skips_null:
            counted = {
                name: [row for row in figures[name] or [] if row["item"] is not None] for name in _ITEMS
            }
            figures = {**figures, **counted}
        return histogram_of(figures, self.keys, self.buckets)

    def __repr__(self) -> str:
        return f"Observed(by {self.keys}, {self.buckets} buckets)"


def observe(df: DataFrame, key: Key, *more: str, buckets: int = DEFAULT_BUCKETS) -> Observed:
    """Measure `df` by `key` while the user's own job runs on the returned `Observed.df`; starts no job.

    >>> observed = unskew.observe(events, "user")  # doctest: +SKIP
    >>> unskew.groupBy(observed.df, "user", plan=plan).applyInPandas(score, schema)  # doctest: +SKIP
    >>> plan = unskew.plan(observed.histogram, slots=64, previous=plan)  # doctest: +SKIP
    """
    keys = key_columns(df, key, *more)
    if not 1 <= buckets <= MOST_BUCKETS:
        raise ValueError(f"buckets is between 1 and {MOST_BUCKETS} here, not {buckets}")
    return observe_keys(df, keys, buckets)


def observe_keys(df: DataFrame, keys: KeyColumns, buckets: int, *, skips_null: bool = False) -> Observed:
    """As `observe`, for key columns that were checked; with `skips_null` without rows that have a null in their key.

    An observed aggregate cannot have a FILTER, so the hash of such rows is null, and that null is not read back.
    """
    observation = Observation()
    key_hash = free_name("__hash", df.columns)
    any_null = reduce(or_, (part.isNull() for part in keys.columns()))
    hashed = df.withColumn(key_hash, F.when(~any_null, keys.hash()) if skips_null else keys.hash())
    counted = hashed.observe(observation, *aggregates(keys, key_hash, buckets))
    return Observed(counted.drop(key_hash), keys, buckets, observation, skips_null)
