"""How many slots and buckets a plan gets by default, on clusters of any size."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.spark.frames import setting
from unskew.core.histogram import Histogram
from unskew.core.plan import Plan
from unskew.spark import parallelism
from unskew.spark.parallelism import PlainShuffle, buckets_for, cores_of, default_slots

pytestmark = pytest.mark.connect


@pytest.fixture
def default_partitions(spark: SparkSession) -> Iterator[None]:
    """The session as if nobody had set spark.sql.shuffle.partitions."""
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "200")
    yield
    spark.conf.set("spark.sql.shuffle.partitions", before)


def test_the_cores_of_a_local_spark(spark: SparkSession) -> None:
    assert cores_of(spark) == 2


def test_the_users_partitions_come_first(spark: SparkSession) -> None:
    assert default_slots(spark) == 4
    assert default_slots(spark, size=2.0**40) == 4


def test_little_data_gets_fewer_slots_than_the_users_partitions_if_spark_may_merge_them_too(
    spark: SparkSession,
) -> None:
    with setting(spark, shuffle_partitions="32"):
        assert [default_slots(spark, size=2.0**20 * size) for size in (1, 17, 100, 1000)] == [2, 4, 14, 32]
        with setting(spark, adaptive_coalescePartitions_enabled="false"):
            assert default_slots(spark, size=1.0) == 32
        with setting(spark, adaptive_enabled="false"):
            assert default_slots(spark, size=1.0) == 32


@pytest.mark.filterwarnings("ignore:The SQL config")  # minPartitionNum is deprecated; Connect says so
def test_what_adaptive_execution_merges(spark: SparkSession) -> None:
    rules = "adaptive_coalescePartitions"
    with setting(spark, shuffle_partitions="32"):
        # two cores: half of everything, or 64 MB, but not less than 1 MB
        assert PlainShuffle.of(spark) == PlainShuffle(32, 1 / 2)
        sizes = [2.0**20 * size for size in (0.5, 1.5, 16, 640)]
        assert [PlainShuffle.of(spark, size).merged_share for size in sizes] == [1, 1 / 1.5, 1 / 2, 1 / 10]
        with setting(spark, **{f"{rules}_initialPartitionNum": "500"}):
            assert PlainShuffle.of(spark).partitions == 500
        with setting(spark, **{f"{rules}_minPartitionNum": "16"}):
            assert PlainShuffle.of(spark, sizes[2]).merged_share == 1 / 16
        with setting(spark, **{f"{rules}_parallelismFirst": "false"}):
            assert PlainShuffle.of(spark, sizes[2]).merged_share == 1
        with setting(spark, adaptive_advisoryPartitionSizeInBytes="4MB"):
            assert PlainShuffle.of(spark, sizes[2]).merged_share == 1 / 4
        for switch in (f"{rules}_enabled", "adaptive_enabled"):
            with setting(spark, **{switch: "false"}):
                assert PlainShuffle.of(spark, sizes[2]) == PlainShuffle(32, 0)


@pytest.mark.usefixtures("default_partitions")
def test_three_slots_per_core_more_for_much_data_and_fewer_for_little(spark: SparkSession) -> None:
    assert default_slots(spark) == 6
    assert default_slots(spark, size=100 * 2**30) == 400
    assert [default_slots(spark, size=2.0**20 * size) for size in (1, 20, 100)] == [2, 4, 6]
    # Spark multiplies the unknown sizes of joined inputs
    assert default_slots(spark, size=float("inf")) == default_slots(spark, size=2.0**60)


@pytest.mark.usefixtures("default_partitions")
def test_dynamic_allocation_counts_the_executors_there_may_be(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    grows = {"spark.dynamicAllocation.enabled": "true", "spark.executor.cores": "4"}
    limited = {**grows, "spark.dynamicAllocation.maxExecutors": "50"}
    monkeypatch.setattr(parallelism, "setting", lambda _, name: limited.get(name, ""))
    assert (cores_of(spark), default_slots(spark)) == (200, 600)
    # the cores of a local Connect server are in its settings, which are replaced here
    monkeypatch.setattr(parallelism, "setting", lambda _, name: grows.get(name, ""))
    assert default_slots(spark) == 200


@pytest.mark.usefixtures("default_partitions")
@pytest.mark.parametrize("cores", [1, 7, 1365, 1366, 5000, 100_000])
def test_any_number_of_cores_gets_a_plan(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, cores: int
) -> None:
    monkeypatch.setattr(parallelism, "cores_of", lambda _: cores)
    slots = default_slots(spark)
    assert cores <= slots <= max(2, 3 * cores)
    histogram = Histogram.from_counts({"a": 100, "b": 50, "c": 1}, buckets=buckets_for(slots))
    assert Plan.make(histogram, slots, "keel").slots == slots
