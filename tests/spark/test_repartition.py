"""Tables partitioned by a skewed column: the files that a write makes, and the rows in them."""

from __future__ import annotations

from collections import Counter, defaultdict
from math import ceil
from pathlib import Path
from urllib.parse import unquote

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import unskew
from unskew.core.splitting.files import expected_rows
from unskew.spark.explained import explained

LIMIT = 2000


@pytest.fixture
def visits(spark: SparkSession) -> DataFrame:
    """Three quarters of 20 000 rows are of one country; one row in 40 has none, in one of two ways."""
    country = (
        "case when id % 80 = 1 then null when id % 80 = 41 then '' when id % 4 > 0 then 'DE' "
        "else 'c/' || id % 160 end as country"
    )
    return spark.range(0, 20_000, 1, 4).selectExpr("id", country, "id % 3 as v")


def files_of(path: Path) -> dict[str, list[int]]:
    """The number of rows of each file, by folder."""
    files = defaultdict(list)
    for file in path.rglob("*.parquet"):
        files[unquote(file.parent.name)].append(pq.read_metadata(file).num_rows)
    return files


@pytest.mark.classic
@pytest.mark.connect
def test_no_file_exceeds_the_limit_and_small_values_are_one_file_each(
    visits: DataFrame, spark: SparkSession, tmp_path: Path
) -> None:
    rows = unskew.repartition(visits, "country", rows_per_file=LIMIT)
    assert rows.columns == visits.columns
    assert rows.schema == visits.schema
    rows.write.partitionBy("country").parquet(str(tmp_path / "ours"))
    files = files_of(tmp_path / "ours")
    counts = Counter(
        f"country={value or '__HIVE_DEFAULT_PARTITION__'}"
        for value in visits.select("country").toArrow()["country"].to_pylist()
    )
    assert {folder: sum(sizes) for folder, sizes in files.items()} == counts
    hot = files.pop("country=DE")
    assert max(hot) <= LIMIT
    assert len(hot) == ceil(sum(hot) / expected_rows(LIMIT))
    assert all(len(sizes) == 1 for sizes in files.values())

    visits.repartition("country").write.partitionBy("country").parquet(str(tmp_path / "plain"))
    assert len(files_of(tmp_path / "plain")["country=DE"]) == 1
    ours = spark.read.parquet(str(tmp_path / "ours"))
    assert ours.exceptAll(spark.read.parquet(str(tmp_path / "plain"))).isEmpty()


def test_tasks_of_full_files_are_even(visits: DataFrame) -> None:
    rows = unskew.repartition(visits, "country", rows_per_file=LIMIT)
    counts = rows.groupBy(F.spark_partition_id().alias("p")).count().toArrow()["count"].to_pylist()
    assert len(counts) == ceil(20_000 / expected_rows(LIMIT))
    assert max(counts) <= 1.15 * 20_000 / len(counts)


def test_without_a_limit_tasks_are_even(visits: DataFrame) -> None:
    rows = unskew.repartition(visits.repartition(3, "id"), "country", slots=5)
    by_task = rows.groupBy(F.spark_partition_id().alias("p")).agg(
        F.count(F.lit(1)).alias("n"), F.countDistinct("country").alias("values")
    )
    tasks = by_task.toArrow()
    assert len(tasks) == 5
    assert max(tasks["n"].to_pylist()) <= 1.1 * 20_000 / 5


def test_a_write_shuffles_once(visits: DataFrame) -> None:
    plan = explained(unskew.repartition(visits, "country", rows_per_file=LIMIT))
    assert plan is not None
    assert plan.physical.count("Exchange") == 1
    assert plan.physical.count("Sort") == 0


def test_several_columns_and_nothing_to_count(visits: DataFrame) -> None:
    assert unskew.repartition(visits, "country", "v", rows_per_file=500).count() == 20_000
    assert unskew.repartition(visits.limit(0), ["v"]).isEmpty()


def test_measuring_is_off(visits: DataFrame) -> None:
    with (
        unskew.no_measure(),
        pytest.warns(UserWarning, match=r"runs as DataFrame\.repartition: measuring is off"),
    ):
        rows = unskew.repartition(visits, "country", rows_per_file=LIMIT)
    plan = explained(rows)
    assert plan is not None
    assert "REPARTITION_BY_COL" in plan.physical.below(("Project",)).text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rows_per_file": 0}, "rows_per_file is a whole number of rows, 1 or more, not 0"),
        ({"rows_per_file": -5}, "not -5"),
        ({"rows_per_file": 1.5}, r"not 1\.5"),
        ({"rows_per_file": True}, "not True"),
        ({"slots": 0}, "at least one slot, not 0"),
        ({"slots": "4"}, "slots is a whole number, not '4'"),
        ({"slots": 100_000}, "number of tasks, 20000 at most, not 100000"),
    ],
)
def test_options_that_make_no_sense(doomed: DataFrame, options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        unskew.repartition(doomed, "string", **options)  # type: ignore[arg-type]


def test_inputs_that_make_no_sense(doomed: DataFrame, spark: SparkSession) -> None:
    with pytest.raises(ValueError, match="did you mean 'string'"):
        unskew.repartition(doomed, "strin", rows_per_file=10)
    with pytest.raises(ValueError, match="a key column is named twice"):
        unskew.repartition(doomed, "string", "string")
    with pytest.raises(ValueError, match="the DataFrame is a stream"):
        unskew.repartition(spark.readStream.format("rate").load(), "value")
    with pytest.raises(ValueError, match="a Spark DataFrame is needed"):
        unskew.repartition([1, 2], "value")  # type: ignore[arg-type]
