"""Settings of a Spark session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def setting(spark: SparkSession, name: str) -> str:
    """A setting in lower case, or nothing if nobody has set it, whatever its default, or if this Spark lacks it."""
    try:
        return str(spark.conf.get(name, "")).lower()
    except PySparkException:
        return ""
