"""A plan that was saved under one version of Spark routes the same under every other."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tests.spark.versions.golden_plan import wrong_routes


def test_a_saved_plan_routes_the_same_on_every_version(spark: SparkSession) -> None:
    assert wrong_routes(spark) == {"Python": 0, "Spark": 0, "partition": 0}
