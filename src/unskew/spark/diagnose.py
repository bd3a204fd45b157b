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
from unskew.spark.keys import Key, key_columns
from unskew.spark.measure import Sample, measure
from unskew.spark.options import default_slots

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def diagnose(
    df: DataFrame,
    key: Key,
    *,
    slots: int | None = None,
    cores: int | None = None,
    weight: str | None = None,
    sample: Sample = None,
    buckets: int = DEFAULT_BUCKETS,
    then: Key | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> Diagnosis:
    """How skewed the key is, what that costs with N slots, and what each planner would do about it.

    `then` is a key by which the records are grouped next: what `thenBy` would gain is judged as well.
    """
    key_columns(df, key)
    if then is not None:
        key_columns(df, then)
        if weight is not None:
            raise ValueError("what a second key gains is counted in records: leave weight or then out")
    wanted = default_slots(df) if slots is None else slots
    check_slots(wanted, buckets)
    check_cores(cores)
    progress("measuring")
    histogram = measure(df, key, buckets=buckets, weight=weight, sample=sample)
    found = judge(histogram, wanted, cores=cores, progress=progress)
    if then is None:
        return found
    progress("locality")
    return replace(
        found, then=NextKey.of(plan_chain(df, [key, then], slots=wanted, sample=sample, buckets=buckets))
    )
