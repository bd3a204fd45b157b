"""Types that not every version of PySpark has."""

from __future__ import annotations

from pyspark.sql import types as T


def is_variant(data_type: T.DataType) -> bool:
    """Whether it is a `VariantType`: since 4.0."""
    return type(data_type).__name__ == "VariantType"


def is_calendar_interval(data_type: T.DataType) -> bool:
    """Whether it is a `CalendarIntervalType`: since 4.0."""
    return type(data_type).__name__ == "CalendarIntervalType"
