"""The sample that comes with unskew."""

from __future__ import annotations

from importlib.resources import files

from pyspark.sql import SparkSession

import unskew


def test_it_is_small_real_and_skewed() -> None:
    assert files("unskew.samples").joinpath("flights.parquet").read_bytes().__len__() < 300_000
    table = unskew.samples.flights_table()
    assert table.num_rows > 50_000
    counts = table.group_by("dest").aggregate([("dest", "count")]).sort_by([("dest_count", "descending")])
    assert counts["dest_count"][0].as_py() > 4 * table.num_rows / counts.num_rows, "the busiest is a hub"


def test_spark_has_the_same_rows(spark: SparkSession) -> None:
    df = unskew.samples.flights(spark)
    table = unskew.samples.flights_table()
    assert df.columns == table.column_names
    assert df.count() == table.num_rows
    assert df.where("tailnum is null").count() == table["tailnum"].null_count > 0
