"""Settings of a Spark session."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def setting(spark: SparkSession, name: str) -> str:
    """A setting in lower case, or nothing if nobody has set it, whatever its default, or if this Spark lacks it."""
    try:
        # None and no text: Spark would check that the default fits the setting, and fail where it does not
        value = spark.conf.get(name, None)
    except PySparkException:
        return ""
    return "" if value is None else str(value).lower()


_UNITS = {"": 0, "b": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}

DEFAULT_PARTITIONS = 200
"""Spark's default of `spark.sql.shuffle.partitions`."""


def shuffle_partitions(spark: SparkSession) -> int:
    """How many partitions Spark's own shuffle has, before AQE merges small ones.

    Spark's default where the setting is no number, such as `auto` on Databricks.
    """
    return whole_number(setting(spark, "spark.sql.shuffle.partitions"), DEFAULT_PARTITIONS)


def whole_number(text: str, default: int) -> int:
    """The number that the text is, else the default.

    >>> whole_number("8", 200), whole_number("auto", 200), whole_number("", 200)
    (8, 200, 200)
    """
    return int(text) if text.isdecimal() else default


def parsed_bytes(text: str, default: float) -> float:
    """A size as Spark's settings write it.

    >>> parsed_bytes("256mb", 0), parsed_bytes("1", 0), parsed_bytes("", 7)
    (268435456.0, 1.0, 7)
    """
    match = re.fullmatch(r"(\d+)\s*([kmgtp]?)i?b?", text.lower())
    return float(match[1]) * 1024.0 ** _UNITS[match[2]] if match else default
