"""`diagnose` for a DataFrame: measure the key, then judge it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from unskew.core.diagnosis import Diagnosis, NextKey, check_cores
from unskew.core.diagnosis import diagnose as judge
from unskew.core.histogram import DEFAULT_BUCKETS
from unskew.core.routing import check_slots
from unskew.spark.chain import plan_chain
from unskew.spark.keys import Key, Part, check_batch, key_columns, key_parts
from unskew.spark.measure import Sample, measure
from unskew.spark.parallelism import default_slots

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
    progress: Callable[[str], None] = lambda _: None,
) -> Diagnosis:
    """How skewed the key is, what that costs with N slots, and what each planner would do about it.

    `sample` is that of `unskew.measure`. `then` is a key by which the records are grouped next: the diagnosis then also
    says what `thenBy` would gain.
    """
    check_batch(df)
    parts = key_parts(key, *more)
    key_columns(df, parts)
    if then is not None:
        key_columns(df, then)
        if weight is not None:
            raise ValueError("what a second key gains is counted in records: leave weight or then out")
    slots = default_slots(df.sparkSession) if slots is None else slots
    check_slots(slots, buckets)
    check_cores(cores)
    progress("measuring")
    histogram = measure(df, parts, buckets=buckets, weight=weight, sample=sample)
    diagnosis = judge(histogram, slots, cores=cores, progress=progress)
    if then is None:
        return diagnosis
    progress("locality")
    chain = plan_chain(df, [parts, then], slots=slots, sample=sample, buckets=buckets)
    return replace(diagnosis, then=NextKey.of(chain))
