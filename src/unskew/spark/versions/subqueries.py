"""Subqueries that read columns of the row outside of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unskew.spark.versions.running import version_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def allowed(spark: SparkSession) -> bool:
    """Whether there are `Column.outer` and `DataFrame.scalar`: since 4.0."""
    return version_of(spark).has_outer_columns
