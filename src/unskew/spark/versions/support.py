"""What unskew does on a version of Spark, in a sentence for `unskew doctor`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unskew.spark.versions.grouped import streams_partitions
from unskew.spark.versions.running import NEWEST, OLDEST, Version, version_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def support(spark: SparkSession) -> str:
    """What works on the Spark of this session, what does not, and what is slower."""
    version = version_of(spark)
    remarks = [f"{version}: batch operators {_and_streams(version)}"]
    if not version.is_known:
        remarks.append(f"tested are {Version(*OLDEST)} to {Version(*NEWEST)}")
    if not version.has_partition_ids:
        remarks.append("rows are placed by hashing a number searched for each slot")
    if not version.has_top_k:
        remarks.append("observed jobs are measured by a sample")
    if not version.has_grouped_arrow:
        remarks.append("applyInArrow runs without merge= and not on cogroups")
    if not streams_partitions(spark):
        remarks.append("functions on many small groups are slower")
    return "; ".join(remarks)


def _and_streams(version: Version) -> str:
    if not version.has_python_state:
        return "work; streams need Spark 4.0"
    return (
        "and streams work"
        if version.has_connect_state
        else "and streams work; streams on Connect need Spark 4.1"
    )
