"""Statistics gathered while the user's own job runs, without a job of ours."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

from pyspark.sql import Observation
from pyspark.sql import functions as F

from unskew.core.histogram import DEFAULT_BUCKETS, Histogram
from unskew.spark.keys import Key, KeyColumns, Part, check_batch, key_columns
from unskew.spark.sketches import HEAVY, MOST_BUCKETS, SketchedColumns, aggregates, histogram_of, item_type
from unskew.spark.versions.counting import in_sketched_form

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
        """The load that the job read; waits a minute for the job's first action to end, `wait` as long as you like.

        Bucket counts are exact, heavy keys come from Spark's own sketch. If the key has several columns, or is a struct
        or binary, the heavy keys are known by their hash only, which is all that planning needs.
        """
        return self.wait(60.0)

    def wait(self, timeout: float) -> Histogram:
        """As `histogram`, with the seconds to wait; a ValueError says that no action has ended by then."""
        figures: list[dict[str, Any]] = []
        errors: list[Exception] = []

        def get() -> None:
            try:
                figures.append(self.observation.get)
            except Exception as error:  # noqa: BLE001 (raised again below)
                errors.append(error)

        # Spark has no way to ask whether the figures are there, only one to wait for them for ever.
        waiting = threading.Thread(target=get, daemon=True)
        waiting.start()
        waiting.join(timeout)
        if errors:
            raise errors[0]
        if not figures:
            raise ValueError(
                f"no job on the observed DataFrame has ended within {timeout:g} s: run an action on observed.df first"
            )
        return self._histogram(figures[0])

    def _histogram(self, figures: dict[str, Any]) -> Histogram:
        figures = in_sketched_form(figures, self.buckets, HEAVY, item_type(self.keys))
        if self.skips_null:
            counted = {
                name: [row for row in figures[name] or [] if row["item"] is not None] for name in _ITEMS
            }
            figures = {**figures, **counted}
        return histogram_of(figures, self.keys, self.buckets)

    def __repr__(self) -> str:
        return f"Observed(by {self.keys}, {self.buckets} buckets)"


def observe(df: DataFrame, key: Key, *more: Part, buckets: int = DEFAULT_BUCKETS) -> Observed:
    """Measure `df` by `key` while the user's own job runs on the returned `Observed.df`; starts no job.

    >>> clicks = spark.createDataFrame([("ann", 2), ("ann", 4), ("bob", 3)], "user string, n int")
    >>> observed = unskew.observe(clicks, "user")
    >>> sorted(row.user for row in observed.df.collect())
    ['ann', 'ann', 'bob']
    >>> observed.histogram.top(1)
    [('ann', 2.0)]
    """
    check_batch(df)
    keys = key_columns(df, key, *more)
    if not 1 <= buckets <= MOST_BUCKETS:
        raise ValueError(f"buckets is between 1 and {MOST_BUCKETS} here, not {buckets}")
    return observe_keys(df, keys, buckets)


def observe_keys(df: DataFrame, keys: KeyColumns, buckets: int, *, skips_null: bool = False) -> Observed:
    """As `observe`, for key columns that were checked; with `skips_null` without rows that have a null in their key.

    An observed aggregate cannot have a FILTER, so the hash of such rows is null, and that null is not read back.
    """
    observation = Observation()
    sketched = SketchedColumns.beside(df.sparkSession, df.columns)
    added = sketched.of(keys)
    if skips_null:
        any_null = reduce(or_, (part.isNull() for part in keys.columns()))
        added = {name: F.when(~any_null, value) for name, value in added.items()}
    counted = df.withColumns(added).observe(observation, *aggregates(sketched, buckets))
    return Observed(counted.drop(*added), keys, buckets, observation, skips_null)
