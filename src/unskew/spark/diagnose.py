"""`diagnose` for a DataFrame: measure the key, then judge it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from unskew.core.diagnosis import Diagnosis, NextKey, check_cores
from unskew.core.diagnosis import diagnose as judge
from unskew.core.histogram import DEFAULT_BUCKETS
from unskew.core.routing import check_slots
from unskew.spark.chain import plan_chain
from unskew.spark.join_inputs import join_type
from unskew.spark.keys import Key, Part, check_batch, key_columns, key_parts
from unskew.spark.measure import Sample, measure
from unskew.spark.parallelism import default_slots
from unskew.spark.plan_join import compare_ways

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def diagnose(
    df: DataFrame,
    key: Key,
    *more: Part,
    slots: int | None = None,
    cores: int | None = None,
    weight: str | None = None,
    sample: Sample = "auto",
    buckets: int = DEFAULT_BUCKETS,
    then: Key | None = None,
    join: DataFrame | None = None,
    how: str | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> Diagnosis:
    """How skewed the key is, what that costs with N slots, and what each planner would do about it.

    `sample` is that of `unskew.measure`. `then` is a key by which the records are grouped next: the diagnosis then also
    says what `thenBy` would gain.

    `join` is a DataFrame that is joined next by the key, which has the same names there; `how` is the type of the join.
    The diagnosis then has a `join`, which compares plain Spark, whole keys and split keys: `print(diagnosis.join)`.

    >>> clicks = spark.range(1000).selectExpr("IF(id < 600, 'ann', CAST(id AS string)) AS user")
    >>> diagnosis = unskew.diagnose(clicks, "user", slots=4)
    >>> [(key.key, key.share) for key in diagnosis.heavy[:1]]
    [('ann', 0.6)]
    >>> "unskew.groupBy(df, 'user')" in diagnosis.advice
    True
    """
    check_batch(df)
    parts = key_parts(key, *more)
    key_columns(df, parts)
    if then is not None:
        key_columns(df, then)
        if weight is not None:
            raise ValueError("what a second key gains is counted in records: leave weight or then out")
    join_names = None if join is None else _join_names(parts)
    if join is not None:
        check_batch(join)
        join_type(how)
    slots = default_slots(df.sparkSession) if slots is None else slots
    check_slots(slots, buckets)
    check_cores(cores)
    progress("measuring")
    histogram = measure(df, parts, buckets=buckets, weight=weight, sample=sample)
    diagnosis = judge(histogram, slots, cores=cores, progress=progress)
    if join is not None and join_names is not None:
        progress("joining")
        choice = compare_ways(
            df, join, join_names, how, slots=slots, sample=sample, weight=weight, buckets=buckets
        )
        diagnosis = replace(diagnosis, join=choice)
    if then is None:
        return diagnosis
    progress("locality")
    chain = plan_chain(df, [parts, then], slots=slots, sample=sample, buckets=buckets)
    return replace(diagnosis, then=NextKey.of(chain))


def _join_names(parts: Sequence[Part]) -> list[str]:
    names = [part for part in parts if isinstance(part, str)]
    if len(names) < len(parts):
        raise ValueError("a join is diagnosed by the names of its key columns: name them, or leave join out")
    return names
