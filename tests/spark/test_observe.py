"""`observe` against `measure`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import unskew
from tests.cases import mostly_thorough
from tests.spark.frames import KEYS, QUICK_KEYS, Frames, physical_plan, rows_of
from tests.spark.test_measure import by_hash, marked

pytestmark = pytest.mark.connect


@pytest.fixture(scope="module")
def observed(frames: Frames) -> dict[str, unskew.Observed]:
    """Every kind of key observed, all in one job."""
    df, observed = frames.left, {}
    for kind, names in KEYS.items():
        observed[kind] = unskew.observe(df, *names, buckets=64)
        df = observed[kind].df
    assert df.schema == frames.left.schema
    assert df.select("v").toArrow().num_rows == 300
    return observed


@pytest.mark.parametrize("kind", mostly_thorough(KEYS, QUICK_KEYS))
def test_what_the_job_read_is_what_measure_counts(
    frames: Frames, observed: dict[str, unskew.Observed], kind: str
) -> None:
    histogram, counted = observed[kind].histogram, frames.measured[kind]
    assert by_hash(histogram) == by_hash(counted)
    assert histogram.rest.counts.tolist() == counted.rest.counts.tolist()
    assert (histogram.key_type, histogram.key_names) == (counted.key_type, counted.key_names)
    slots = [unskew.plan(h, 3, "keel").table.slot_of_hashes(counted.hashes) for h in (histogram, counted)]
    assert slots[0].tolist() == slots[1].tolist()


@pytest.mark.since("4.1", "sketches of heavy keys")
def test_bucket_totals_are_exact_with_more_keys_than_the_sketch_holds(spark: SparkSession) -> None:
    df = spark.range(0, 30_000, 1, 2).select(F.expr("if(id % 3 = 0, -1, id)").alias("k"))
    observed = unskew.observe(df, "k", buckets=256)
    observed.df.write.format("noop").mode("overwrite").save()
    histogram = observed.histogram
    assert histogram.records == pytest.approx(30_000, rel=0.001)
    assert histogram.top(1) == [(-1, 10_000.0)]
    assert histogram.distinct == pytest.approx(20_001, rel=0.1)
    expected = unskew.measure(df, "k", buckets=256, sample=None, tracked=0).rest.counts
    both = histogram.rest.counts + np.bincount(histogram.key_buckets, histogram.tracked.counts, 256)
    np.testing.assert_allclose(both, expected)


def test_the_users_job_is_the_only_one(frames: Frames, tmp_path: Path) -> None:
    df = marked(frames.left.select("v", "string").repartition(3), tmp_path)
    plan = frames.plans["string"]
    observed = unskew.observe(df, "string", buckets=64)

    def size(rows: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame({"string": rows["string"][:1], "n": [len(rows)]})

    result = unskew.groupBy(observed.df, "string", plan=plan).applyInPandas(size, "string string, n long")
    rows = rows_of(result)
    assert len(list(tmp_path.iterdir())) == 3
    histogram = observed.histogram
    counts = dict(zip(histogram.keys.to_pylist(), histogram.tracked.counts.astype(int), strict=True))
    assert rows == sorted(repr([key, int(n)]) for key, n in counts.items())


def test_nothing_is_computed_in_python(frames: Frames) -> None:
    observed = unskew.observe(frames.left, "string", "int")
    assert "Python" not in physical_plan(observed.df)


def test_a_job_that_reads_nothing(frames: Frames) -> None:
    for df in (frames.left.where("v < 0"), frames.spark.createDataFrame([], "string string")):
        observed = unskew.observe(df, "string")
        assert observed.df.count() == 0
        assert observed.histogram.records == 0


def test_names_and_buckets_are_checked(doomed: DataFrame) -> None:
    with pytest.raises(ValueError, match="did you mean 'string'"):
        unskew.observe(doomed, "strin")
    for buckets in (0, 500_001):
        with pytest.raises(ValueError, match=f"buckets is between 1 and 500000 here, not {buckets}"):
            unskew.observe(doomed, "string", buckets=buckets)
