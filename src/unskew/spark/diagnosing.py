"""`diagnose` for a DataFrame: measure the key, then judge it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from unskew.core.diagnosis import Diagnosis, check_cores
from unskew.core.diagnosis import diagnose as judge
from unskew.core.histogram import DEFAULT_BUCKETS
from unskew.core.routing import check_slots
from unskew.spark.keys import Key, key_columns
from unskew.spark.measure import Sample, measure
from unskew.spark.planned import default_slots

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
    progress: Callable[[str], None] = lambda _: None,
) -> Diagnosis:
    """How skewed the key is, what that costs with N slots, and what each planner would do about it."""
    key_columns(df, key)
    wanted = default_slots(df) if slots is None else slots
    check_slots(wanted, buckets)
    check_cores(cores)
    progress("measuring")
    histogram = measure(df, key, buckets=buckets, weight=weight, sample=sample)
    return judge(histogram, wanted, cores=cores, progress=progress)
