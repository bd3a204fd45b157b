"""Statistics gathered while the user's own job runs, with no job of ours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import Observation

from unskew.core.histogram import DEFAULT_BUCKETS, Histogram
from unskew.spark.keys import KeyColumns, free_name, key_columns
from unskew.spark.sketches import MOST_BUCKETS, aggregates, histogram_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


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
        return histogram_of(self.observation.get, self.keys, self.buckets)


def watch(df: DataFrame, *key: str, buckets: int = DEFAULT_BUCKETS) -> Watched:
    """Measure `df` by `key` while the user's own job runs on the returned `Watched.df`; no job is started.

    >>> watched = unskew.watch(events, "user")  # doctest: +SKIP
    >>> unskew.groupBy(watched.df, "user", plan=plan).applyInPandas(score, schema)  # doctest: +SKIP
    >>> plan = unskew.plan(watched.histogram, slots=64, previous=plan)  # doctest: +SKIP
    """
    keys = key_columns(df, key)
    if not 1 <= buckets <= MOST_BUCKETS:
        raise ValueError(f"buckets is between 1 and {MOST_BUCKETS} here, not {buckets}")
    observation = Observation()
    name = free_name("__hash", df.columns)
    watched = df.withColumn(name, keys.hash()).observe(observation, *aggregates(keys, name, buckets))
    return Watched(watched.drop(name), keys, buckets, observation)
