"""Settings of a Spark session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def setting(spark: SparkSession, name: str) -> str:
    """A setting in lower case, or nothing if it is not set or this Spark does not have it."""
    try:
        return str(spark.conf.get(name, "")).lower()
    except PySparkException:
        return ""
