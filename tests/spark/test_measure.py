"""`measure` against the counts of plain Spark."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from pathlib import Path

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import unskew
from tests.spark.frames import KEYS, Frames, physical_plan
from unskew.core.hashing import buckets_of
from unskew.core.histogram import Histogram
from unskew.spark import measure as measuring
from unskew.spark import sampling
from unskew.spark.keys import key_columns

pytestmark = pytest.mark.connect


def by_hash(histogram: Histogram) -> dict[int, float]:
    return dict(zip(histogram.hashes.tolist(), histogram.tracked.counts.tolist(), strict=True))


@pytest.fixture(scope="module")
def plain_counts(frames: Frames) -> dict[str, dict[int, float]]:
    """The counts of plain Spark; keys of one hash, such as ("a", null) and (null, "a"), count as one key."""
    counts = [
        frames.left.groupBy(*names)
        .count()
        .select(F.lit(kind).alias("kind"), F.xxhash64(*names).alias("h"), "count")
        for kind, names in KEYS.items()
    ]
    by_kind: dict[str, dict[int, float]] = {kind: {} for kind in KEYS}
    for kind, key_hash, n in reduce(DataFrame.unionAll, counts).collect():
        by_kind[kind][key_hash] = by_kind[kind].get(key_hash, 0.0) + n
    return by_kind


@pytest.mark.parametrize("kind", KEYS)
def test_every_count_equals_that_of_plain_spark(
    frames: Frames, plain_counts: dict[str, dict[int, float]], kind: str
) -> None:
    histogram = frames.measured[kind]
    assert by_hash(histogram) == plain_counts[kind]
    assert not histogram.rest.counts.any()
    assert (histogram.records, histogram.sampled, histogram.key_names) == (300.0, 1.0, tuple(KEYS[kind]))
    # The keys themselves are read back, too: hashed here they give the hashes that Spark computed.
    assert histogram.key_type == frames.plans[kind].table.key_type
    again = Histogram.from_arrays(histogram.keys, histogram.tracked.counts, buckets=64)
    assert sorted(again.hashes.tolist()) == sorted(histogram.hashes.tolist())


def test_a_weight_of_any_number_type_and_with_nulls(frames: Frames) -> None:
    cost = F.when(F.col("v") % 3 > 0, F.col("v")).cast("decimal(12,3)")
    df = frames.left.select("string", cost.alias("cost"))
    histogram = unskew.measure(df, "string", sample=None, weight="cost")
    expected = dict(df.groupBy("string").agg(F.coalesce(F.sum("cost"), F.lit(0)).cast("double")).collect())
    assert dict(histogram.top(100)) == expected
    assert by_hash(histogram) == by_hash(frames.measured["string"])


def test_keys_that_are_never_null(spark: SparkSession) -> None:
    part = F.struct(F.lit(1).alias("a"), F.col("id").alias("b"))
    df = spark.range(0, 8, 1, 2).select((F.col("id") % 2).alias("k"), part.alias("s"))
    assert not df.schema["s"].dataType["b"].nullable
    assert unskew.measure(df, "s", "k").distinct == 8


def test_more_keys_than_are_tracked_stay_in_their_buckets(spark: SparkSession) -> None:
    df = spark.range(0, 3000, 1, 2).select(F.expr("if(id < 1000, id % 10, id)").alias("k"))
    whole, few = (unskew.measure(df, "k", buckets=32, sample=None, tracked=n) for n in (10_000, 10))
    assert sorted(few.keys.to_pylist()) == list(range(10))
    assert few.records == whole.records == 3000
    assert few.distinct == whole.distinct == 2010
    folded = whole.trimmed(10)
    np.testing.assert_array_equal(few.rest.counts, folded.rest.counts)
    np.testing.assert_array_equal(few.rest_distinct, folded.rest_distinct)
    none = unskew.measure(df, "k", buckets=32, sample=None, tracked=0)
    assert (len(none.hashes), none.records, none.distinct) == (0, 3000, 2010)


def test_a_share_and_a_number_of_rows_stand_for_all(spark: SparkSession) -> None:
    df = spark.range(0, 20_000, 1, 2).select(F.expr("if(id % 2 = 0, 'hot', cast(id as string))").alias("k"))
    for sample in (0.2, 4000):
        histogram = unskew.measure(df, "k", sample=sample)
        assert histogram.sampled == pytest.approx(0.2)
        assert histogram.records == pytest.approx(20_000, rel=0.1)
        assert histogram.top(1)[0][1] == pytest.approx(10_000, rel=0.1)
    assert unskew.measure(df, "k", sample=10**9).sampled == 1.0


def test_auto_reads_all_of_small_data_and_a_bounded_part_of_big(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    df = spark.range(0, 20_000, 1, 2).select((F.col("id") % 5).alias("k"), F.lit(2).alias("cost"))
    small = unskew.measure(df, "k", weight="cost")
    assert (small.sampled, small.records, small.total) == (1.0, 20_000, 40_000)
    monkeypatch.setattr(measuring, "MOST_BUDGET", 500)
    big = unskew.measure(df, "k", weight="cost")
    assert 0.05 < big.sampled < 0.3
    assert big.records == pytest.approx(20_000, rel=0.2)
    assert [load for _, load in big.top()] == pytest.approx([8_000] * 5, rel=0.35)


def test_a_sample_grows_with_the_logarithm_of_rows_and_partitions(spark: SparkSession) -> None:
    sizes = []
    for rows, partitions in ((100_000, 2), (1_000_000, 2), (1_000_000, 64)):
        df = spark.range(0, rows, 1, partitions).select((F.col("id") % 4).alias("k"))
        sample = sampling.sample_keys(df, [key_columns(df, "k")], budget=1000)
        sizes.append(len(sample.stands_for))
        assert sample.stands_for.sum() == pytest.approx(rows, rel=0.15)
        assert 4000 / rows * 0.5 < sample.share < 4000 / rows * 2
        histogram = sampling.histogram_of_sample(sample, 0, key_columns(df, "k"), 64, 10)
        assert [load / rows for _, load in histogram.top()] == pytest.approx([0.25] * 4, abs=0.05)
    assert sizes[1] < 2 * sizes[0] < sizes[0] + 10_000
    assert sizes[2] < 60_000


def test_long_keys_are_counted_but_not_collected(spark: SparkSession) -> None:
    df = spark.range(100).select(
        F.expr("repeat(cast(id % 2 as string), 5000)").alias("k"), F.lit("x").alias("l")
    )
    histogram = unskew.measure(df, "k")
    assert (histogram.tracked.counts.tolist(), histogram.keys.null_count) == ([50.0, 50.0], 2)
    assert unskew.measure(df, "l").top() == [("x", 100.0)]


@pytest.mark.parametrize("sample", ["auto", None, 0.999999])
def test_a_negative_weight_is_refused_by_name(spark: SparkSession, sample: unskew.Sample) -> None:
    df = spark.range(5).select(F.col("id").alias("k"), (F.col("id") - 2).alias("cost"))
    with pytest.raises(ValueError, match=r"^weight column 'cost' has the value -2.0: .*0 or more"):
        unskew.measure(df, "k", weight="cost", sample=sample)


def test_a_sample_is_not_drawn_by_the_users_own_random_numbers(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measuring, "MOST_BUDGET", 500)
    df = spark.range(0, 20_000, 1, 2).select(F.floor(10 * F.rand(0)).alias("k"))
    histogram = unskew.measure(df, "k", sample="auto")
    assert [load for _, load in histogram.top()] == pytest.approx([2_000] * 10, rel=0.5)


def test_auto_reads_the_rows_once(frames: Frames, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "MOST_BUDGET", 10)
    df = marked(frames.left.repartition(3), tmp_path)
    assert unskew.measure(df, "string", sample="auto").records > 30
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.parametrize("kind", ["composite", "struct", "binary"])
def test_auto_reads_back_keys_that_a_sketch_would_only_hash(frames: Frames, kind: str) -> None:
    histogram = unskew.measure(frames.left, KEYS[kind], buckets=64)
    assert histogram.top(3) == frames.measured[kind].top(3)
    assert histogram.top(1)[0][0] is not None
    assert unskew.diagnose(frames.left, *KEYS[kind], slots=3).heavy[0].key is not None


def test_auto_reads_back_no_more_keys_than_are_tracked(spark: SparkSession) -> None:
    df = spark.range(0, 3000, 1, 2).select(F.expr("if(id < 1000, id % 10, id)").alias("k"))
    histogram = unskew.measure(df, "k", buckets=32, tracked=10)
    assert sorted(histogram.keys.to_pylist()) == list(range(10))
    assert histogram.records == 3000


def marked(df: DataFrame, folder: Path) -> DataFrame:
    """The same rows; every time that a partition is read, a file appears in the folder."""

    def read() -> Callable[..., object]:
        def leave_mark(batches: object) -> object:
            import uuid

            (folder / uuid.uuid4().hex).touch()
            yield from batches  # type: ignore[misc]

        return leave_mark

    return df.mapInPandas(read(), df.schema)


def test_one_measurement_reads_the_rows_once(frames: Frames, tmp_path: Path) -> None:
    df = marked(frames.left.repartition(3), tmp_path)
    assert unskew.measure(df, "string", "int", sample=None).records == 300
    assert len(list(tmp_path.iterdir())) == 3


def test_no_python_sees_a_row(frames: Frames, monkeypatch: pytest.MonkeyPatch) -> None:
    plans = []
    frame = type(frames.left)
    collect = frame.toArrow
    monkeypatch.setattr(frame, "toArrow", lambda df: plans.append(physical_plan(df)) or collect(df))
    unskew.measure(frames.left, "string", weight="w", sample=None)
    assert len(plans) == 1, "one action"
    assert "HashAggregate" in plans[0]
    assert "Python" not in plans[0]
    assert "Pandas" not in plans[0]


def test_columns_of_our_own_names(frames: Frames) -> None:
    ours = ["__n", "__w", "__h", "__k", "k0", "__d"]
    df = frames.left.select(*(F.col("string").alias(name) for name in ours), F.col("w").alias("k1"))
    histogram = unskew.measure(df, ours, weight="k1")
    assert histogram.total == pytest.approx(sum(frames.left_rows["w"].to_pylist()))
    assert len(histogram.hashes) == len(set(frames.left_rows["string"].to_pylist()))


def test_no_rows_give_an_empty_histogram_of_the_right_type(frames: Frames) -> None:
    for kind in ("decimal38", "struct", "composite"):
        histogram = unskew.measure(frames.left.where("v < 0"), KEYS[kind])
        assert (histogram.records, histogram.distinct, len(histogram.hashes)) == (0, 0, 0)
        assert histogram.key_type == frames.plans[kind].table.key_type


def test_a_column_of_nothing_but_null(spark: SparkSession) -> None:
    histogram = unskew.measure(spark.range(5).select(F.lit(None).alias("k")), "k")
    assert histogram.top() == [(None, 5.0)]


def test_bucket_totals_add_up_to_what_the_records_hash_to(frames: Frames) -> None:
    histogram = unskew.measure(frames.left, "double", buckets=7, sample=None, tracked=2)
    hashes = frames.left.select(F.xxhash64("double").alias("h")).toArrow()["h"].to_numpy()
    expected = np.bincount(buckets_of(hashes, 7), minlength=7)
    both = histogram.rest.counts + np.bincount(histogram.key_buckets, histogram.tracked.counts, 7)
    assert both.tolist() == expected.tolist()
