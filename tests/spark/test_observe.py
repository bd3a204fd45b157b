"""`watch` against `measure`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import unskew
from tests.spark.frames import KEYS, Frames, physical_plan, rows_of
from tests.spark.test_measure import by_hash, marked
from unskew.spark.observe import Watched

pytestmark = pytest.mark.connect


@pytest.fixture(scope="module")
def watches(frames: Frames) -> dict[str, Watched]:
    """A watch on each kind of key, all in one job."""
    df, watches = frames.left, {}
    for kind, names in KEYS.items():
        watches[kind] = unskew.watch(df, *names, buckets=64)
        df = watches[kind].df
    assert df.schema == frames.left.schema
    assert df.select("v").toArrow().num_rows == 300
    return watches


@pytest.mark.parametrize("kind", KEYS)
def test_what_the_job_read_is_what_measure_counts(
    frames: Frames, watches: dict[str, Watched], kind: str
) -> None:
    seen, counted = watches[kind].histogram, frames.measured[kind]
    assert by_hash(seen) == by_hash(counted)
    assert seen.rest.counts.tolist() == counted.rest.counts.tolist()
    assert (seen.key_type, seen.key_names) == (counted.key_type, counted.key_names)
    one, other = (unskew.plan(h, 3, "keel").table for h in (seen, counted))
    assert one.slot_of_hashes(counted.hashes).tolist() == other.slot_of_hashes(counted.hashes).tolist()


def test_bucket_totals_are_exact_with_more_keys_than_the_sketch_holds(spark: SparkSession) -> None:
    df = spark.range(0, 30_000, 1, 2).select(F.expr("if(id % 3 = 0, -1, id)").alias("k"))
    watched = unskew.watch(df, "k", buckets=256)
    watched.df.write.format("noop").mode("overwrite").save()
    seen = watched.histogram
    assert seen.records == pytest.approx(30_000, rel=0.001)
    assert seen.top(1) == [(-1, 10_000.0)]
    assert seen.distinct == pytest.approx(20_001, rel=0.1)
    expected = unskew.measure(df, "k", buckets=256, tracked=0).rest.counts
    both = seen.rest.counts + np.bincount(seen.key_buckets, seen.tracked.counts, 256)
    np.testing.assert_allclose(both, expected)


def test_the_users_job_is_the_only_one(frames: Frames, tmp_path: Path) -> None:
    df = marked(frames.left.select("v", "string").repartition(3), tmp_path)
    plan = frames.plans["string"]
    watched = unskew.watch(df, "string", buckets=64)

    def size(rows: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame({"string": rows["string"][:1], "n": [len(rows)]})

    result = unskew.groupBy(watched.df, "string", plan=plan).applyInPandas(size, "string string, n long")
    found = rows_of(result)
    assert len(list(tmp_path.iterdir())) == 3
    counts = dict(
        zip(watched.histogram.keys.to_pylist(), watched.histogram.tracked.counts.astype(int), strict=True)
    )
    assert found == sorted(repr([key, int(n)]) for key, n in counts.items())


def test_nothing_is_computed_in_python(frames: Frames) -> None:
    watched = unskew.watch(frames.left, "string", "int")
    assert "Python" not in physical_plan(watched.df)


def test_a_job_that_reads_nothing(frames: Frames) -> None:
    for df in (frames.left.where("v < 0"), frames.spark.createDataFrame([], "string string")):
        watched = unskew.watch(df, "string")
        assert watched.df.count() == 0
        assert watched.histogram.records == 0


def test_several_columns_may_be_one_list_and_names_are_checked(doomed: DataFrame) -> None:
    assert unskew.watch(doomed, ["string", "int"]).keys.names == ("string", "int")
    with pytest.raises(ValueError, match="did you mean 'string'"):
        unskew.watch(doomed, "strin")
    for buckets in (0, 500_001):
        with pytest.raises(ValueError, match=f"buckets is between 1 and 500000 here, not {buckets}"):
            unskew.watch(doomed, "string", buckets=buckets)
