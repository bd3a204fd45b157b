"""Rows that several tests of batch operators share."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.spark.frames import Frames, keyed


@pytest.fixture(scope="session")
def frames(spark: SparkSession) -> Frames:
    """Random rows with a key column of every type, and a smaller set of rows to join them with."""
    return Frames(spark, keyed(300, seed=1), keyed(60, seed=2))


@pytest.fixture
def doomed(frames: Frames) -> DataFrame:
    """Rows that cannot be read: a job over them fails, so what passes with them has started none."""
    return frames.left.where(F.when(F.col("v") >= 0, F.raise_error(F.lit("a job ran"))).isNull())
