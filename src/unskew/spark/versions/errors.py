"""Errors of PySpark, on every version."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.errors import PySparkException


def condition_of(error: PySparkException) -> str | None:
    """The name that Spark gives to an error: `getCondition` since 4.0, `getErrorClass` before."""
    if hasattr(error, "getCondition"):
        return error.getCondition()
    return error.getErrorClass()
