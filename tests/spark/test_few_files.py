"""Measuring reads a few files of a table of many, if these have the same keys as the others."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import unskew
from tests.spark.frames import setting
from unskew.core.hashing import hash_keys
from unskew.spark.few_files import FewFiles, clustering
from unskew.spark.keys import key_columns
from unskew.spark.sampling import KeySample, sample_inputs

pytestmark = pytest.mark.connect

FILES, ROWS, BUDGET = 64, 64_000, 200


@pytest.fixture(scope="module")
def folder(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables of 64 files: a third of the rows has one key."""
    place = tmp_path_factory.mktemp("files")
    key = F.when(F.xxhash64("id") % 3 == 0, "hot").otherwise(F.concat(F.lit("k"), F.xxhash64("id") % 500))
    rows = spark.range(0, ROWS, 1, FILES).select("id", key.alias("k"), F.lit("x").alias("v"))
    rows.write.parquet(str(place / "mixed"))
    rows.repartitionByRange(FILES, "k").write.parquet(str(place / "sorted"))
    by_day = rows.withColumn("day", F.concat(F.lit("a b%"), F.col("id") % FILES))
    by_day.repartition(1).write.partitionBy("day").parquet(str(place / "one name"))
    return place


def table(spark: SparkSession, folder: Path, name: str) -> DataFrame:
    return spark.read.parquet(str(folder / name))


def sample_of(df: DataFrame) -> KeySample:
    return sample_inputs([(df, key_columns(df, "k"), None)], BUDGET)[0]


def hot_share(sample: KeySample) -> float:
    values = np.array(sample.values[0].to_pylist())
    return float(sample.stands_for[values == "hot"].sum() / sample.stands_for.sum())


def test_an_eighth_of_many_files_stands_for_all(spark: SparkSession, folder: Path) -> None:
    df = table(spark, folder, "mixed")
    few = FewFiles.of(df, BUDGET)
    assert few is not None
    assert len(few.hashes) == FILES // 8
    assert few.rows(df).count() == pytest.approx(ROWS // 8, abs=1)
    sample = sample_of(df)
    assert sample.stands_for.sum() == pytest.approx(ROWS, rel=0.1)
    assert hot_share(sample) == pytest.approx(1 / 3, abs=0.06)


@pytest.mark.parametrize(
    ("bytes_of_table", "scale"),
    [(6400.0, 4.0), (8000.0, 5.0), (640.0, 4.0), (None, 4.0)],
    ids=["even sizes", "larger files left out", "a size of long ago", "unknown"],
)
def test_rows_stand_for_those_of_the_files_left_out(bytes_of_table: float | None, scale: float) -> None:
    few = FewFiles(np.arange(16), 15, 64, bytes_of_table)
    assert few.scale(np.arange(16).repeat(3), np.full(48, 100)) == scale


def test_the_other_files_are_not_opened(spark: SparkSession, folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "mixed", tmp_path / "mixed")
    df = table(spark, tmp_path, "mixed")
    few = FewFiles.of(df, BUDGET)
    assert few is not None
    for file in (tmp_path / "mixed").glob("part-*"):
        if hash_keys([file.name])[0] > few.highest:
            file.unlink()
    assert sample_of(df).stands_for.sum() == pytest.approx(ROWS, rel=0.1)


def test_rows_may_be_filtered_and_computed_from(spark: SparkSession, folder: Path) -> None:
    df = table(spark, folder, "mixed").where("id % 2 = 0").select(F.upper("k").alias("k"))
    assert FewFiles.of(df, BUDGET) is not None
    assert sample_of(df).stands_for.sum() == pytest.approx(ROWS / 2, rel=0.15)


def test_files_with_keys_of_their_own_are_all_read(spark: SparkSession, folder: Path) -> None:
    df = table(spark, folder, "sorted")
    few = FewFiles.of(df, BUDGET)
    assert few is not None
    sample = sample_of(df)
    assert sample.stands_for.sum() == pytest.approx(ROWS, rel=0.05)
    assert hot_share(sample) == pytest.approx(1 / 3, abs=0.06)


def test_what_is_not_one_table_of_many_files_is_read_whole(spark: SparkSession, folder: Path) -> None:
    df = table(spark, folder, "mixed")
    assert FewFiles.of(df.limit(50_000), BUDGET) is None
    assert FewFiles.of(df.union(df), BUDGET) is None
    assert FewFiles.of(df.groupBy("k").count(), BUDGET) is None
    assert FewFiles.of(spark.range(10), BUDGET) is None
    # too few rows in too few files
    assert FewFiles.of(df, 1_000_000) is None
    cached = df.select("k").cache()
    assert FewFiles.of(cached, BUDGET) is None
    cached.unpersist()


def test_a_column_that_hides_the_names_of_files(spark: SparkSession, folder: Path) -> None:
    df = table(spark, folder, "mixed").withColumn("_metadata", F.lit(1))
    assert FewFiles.of(df, BUDGET) is None
    assert unskew.measure(df, "k").total == pytest.approx(ROWS, rel=0.05)


def test_files_of_one_name_in_folders_with_odd_names(spark: SparkSession, folder: Path) -> None:
    df = table(spark, folder, "one name")
    assert FewFiles.of(df, BUDGET) is None
    assert sample_of(df).stands_for.sum() == pytest.approx(ROWS, rel=0.05)


def test_files_cannot_be_told_behind_a_view_or_beside_a_column_of_that_name(
    spark: SparkSession, folder: Path, tmp_path: Path
) -> None:
    df = table(spark, folder, "mixed")
    df.createOrReplaceTempView("seen")
    try:
        view = spark.table("seen")
        # Spark's optimizer leaves nothing of the view, nor of the empty half of a union
        assert FewFiles.of(view, BUDGET) is None
        assert sample_of(spark.sql("select * from (select k from seen where id >= 0) t")).stands_for.sum() > 0
        assert unskew.measure(view, "k").total == pytest.approx(ROWS, rel=0.05)
    finally:
        spark.catalog.dropTempView("seen")
    assert sample_of(df.union(df.limit(0))).stands_for.sum() == pytest.approx(ROWS, rel=0.1)
    df.withColumn("_metadata", F.lit(1)).write.parquet(str(tmp_path / "own"))
    own = spark.read.parquet(str(tmp_path / "own")).select("k")
    assert FewFiles.of(own, BUDGET) is None


def test_of_a_table_that_is_read_in_part_all_files_are_read(
    spark: SparkSession, folder: Path, tmp_path: Path
) -> None:
    rows = table(spark, folder, "mixed").withColumn("d", F.expr("id % 4"))
    rows.repartition(16).write.partitionBy("d").parquet(str(tmp_path / "days"))
    days = table(spark, tmp_path, "days")
    assert FewFiles.of(days, BUDGET) is not None
    assert FewFiles.of(days.where("d in (1, 2)"), BUDGET) is None
    assert sample_of(days.where("d = 1")).stands_for.sum() == pytest.approx(ROWS / 4, rel=0.1)


def test_a_filter_that_leaves_rows_in_few_files_has_all_files_read(spark: SparkSession, folder: Path) -> None:
    # `mixed` has consecutive ids in every file
    df = table(spark, folder, "mixed").where(F.col("id") < ROWS // 8)
    assert sample_of(df).stands_for.sum() == pytest.approx(ROWS // 8, rel=0.05)


def test_sizes_that_a_setting_multiplies_are_not_believed(spark: SparkSession, folder: Path) -> None:
    with setting(spark, sources_fileCompressionFactor="1.8"):
        assert sample_of(table(spark, folder, "mixed")).stands_for.sum() == pytest.approx(ROWS, rel=0.1)


def test_one_row_of_each_file_cannot_be_compared() -> None:
    keys = np.random.default_rng(0).integers(1000, size=5000)
    assert clustering(np.arange(5000), keys) == np.inf
