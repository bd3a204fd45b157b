"""`diagnose` for a DataFrame."""

from __future__ import annotations

import json

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import unskew
from tests.spark.frames import KEYS, Frames

pytestmark = pytest.mark.connect


def test_a_skewed_key_is_reported_with_its_cost_and_the_remedy(spark: SparkSession) -> None:
    df = spark.range(0, 2000, 1, 2).select(
        F.expr("if(id % 4 = 0, 'hot', cast(id % 90 as string))").alias("k")
    )
    steps: list[str] = []
    diagnosis = unskew.diagnose(df, "k", slots=8, progress=steps.append)
    assert diagnosis.bound == 2.0
    assert diagnosis.heavy[0].key == "hot"
    assert diagnosis.heavy[0].share == 0.25
    assert diagnosis.verdict("auto").imbalance == pytest.approx(2.0, rel=0.01)
    assert diagnosis.verdict("hash").imbalance > 2.0
    assert diagnosis.speedup > 1
    assert "25.0% of the load" in diagnosis.advice
    assert steps[0] == "measuring"
    assert {"hash", "keel", "auto"} <= set(steps)


@pytest.mark.parametrize("kind", ["double", "binary", "struct", "timestamp", "wide composite"])
def test_any_key_can_be_written_as_json(frames: Frames, kind: str) -> None:
    diagnosis = unskew.diagnose(frames.left, KEYS[kind], slots=3, buckets=64)
    text = json.dumps(diagnosis.to_dict(), allow_nan=False)
    assert json.loads(text)["records"] == 300


def test_no_rows(frames: Frames) -> None:
    diagnosis = unskew.diagnose(frames.left.where("v < 0"), "string", slots=3)
    assert diagnosis.advice == "Nothing was measured: the data is empty."
    assert diagnosis.heavy == ()
    json.dumps(diagnosis.to_dict(), allow_nan=False)


def test_a_second_key_is_judged_as_well(spark: SparkSession) -> None:
    df = spark.range(0, 2000, 1, 2).select((F.col("id") % 40).alias("a"), (F.col("id") % 40 * 7).alias("b"))
    diagnosis = unskew.diagnose(df, "a", slots=4, then="b")
    assert diagnosis.then is not None
    assert diagnosis.then.planned == 1.0
    assert diagnosis.then.hashed < 0.5
    assert diagnosis.then.advice.startswith("Grouped by b next, 100% of the records stay")
    assert json.loads(json.dumps(diagnosis.to_dict()))["then"]["pairs"][0]["share"] == 0.025
    constant = unskew.diagnose(df.withColumn("c", F.lit(1)), "a", slots=4, then="c")
    assert constant.then is not None
    assert "not related" in constant.then.advice
    with pytest.raises(ValueError, match="there is no column 'x'"):
        unskew.diagnose(df, "a", then="x")
