"""When measuring cannot pay, and what says so before any job runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import unskew
from unskew.spark import worth
from unskew.spark.explained import explained
from unskew.spark.worth import Kind, reason_to_step_aside

pytestmark = pytest.mark.connect


def reason(plain: DataFrame, kind: Kind, *measured: DataFrame) -> str | None:
    return reason_to_step_aside(explained(plain), kind, plain.sparkSession, lambda: measured)


@pytest.fixture
def keyed(spark: SparkSession) -> DataFrame:
    return spark.range(1000).select((F.col("id") % 7).alias("k"), "id")


def collected(df: DataFrame) -> DataFrame:
    return df.groupBy("k").agg(F.collect_list("id"))


def same(df: DataFrame) -> DataFrame:
    return df.groupBy("k").applyInPandas(lambda rows: rows, df.schema)


def test_a_short_job_of_sparks_own_is_not_measured(keyed: DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    assert reason(collected(keyed), "aggregate") == "it takes about 0.0 s, too short for measuring to pay"
    monkeypatch.setattr(worth, "SHORTEST", 0.0)
    assert reason(collected(keyed), "aggregate") is None


def test_a_function_may_take_any_time_so_it_is_measured(keyed: DataFrame) -> None:
    assert reason(same(keyed), "function") is None


def test_rows_that_are_already_partitioned_by_the_key(keyed: DataFrame) -> None:
    assert reason(same(keyed.repartition(3, "k")), "function") == "Spark does not shuffle for it"
    assert (
        reason(same(keyed.repartition(3, "id")), "function") == "measuring would run Exchange a second time"
    )


def test_an_input_that_would_be_computed_twice(keyed: DataFrame) -> None:
    counted = keyed.groupBy("id").agg(F.max("k").alias("k"))
    assert reason(same(counted), "function") == "measuring would run SortAggregate a second time"


def test_only_what_measuring_needs_counts(keyed: DataFrame) -> None:
    slow = F.udf(lambda value: value, "long")
    with_udf = keyed.withColumn("x", slow("id"))
    assert reason(same(with_udf), "function") == "measuring would run ArrowEvalPython a second time"
    assert reason(same(with_udf), "function", with_udf.select("k")) is None


def test_a_cached_input_is_cheap_to_read(keyed: DataFrame) -> None:
    cached = keyed.groupBy("id").agg(F.max("k").alias("k")).cache()
    try:
        assert reason(same(cached), "function") is None
    finally:
        cached.unpersist()


def test_big_text_files_are_not_parsed_twice(
    keyed: DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keyed.write.csv(str(tmp_path / "rows"))
    read = keyed.sparkSession.read.schema("k long, id long").csv(str(tmp_path / "rows"))
    assert reason(same(read), "function") is None
    monkeypatch.setattr(worth, "_PARSING", 0.0)
    assert reason(same(read), "function") == "measuring would parse the csv files a second time"


def test_a_setting_that_would_shuffle_placed_rows_again(keyed: DataFrame, spark: SparkSession) -> None:
    name = "spark.sql.requireAllClusterKeysForDistribution"
    spark.conf.set(name, "true")
    try:
        assert str(reason(same(keyed), "function")).startswith(f"{name} is true")
    finally:
        spark.conf.set(name, "false")


def test_the_reason_is_logged(keyed: DataFrame, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", "unskew"):
        unskew.groupBy(keyed, "k").agg(F.collect_list("id"))
    assert caplog.messages == [
        "plain Spark does this aggregate: it takes about 0.0 s, too short for measuring to pay"
    ]
