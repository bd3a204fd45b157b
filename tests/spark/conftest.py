"""Rows that several tests of batch operators share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.spark.frames import Frames, keyed, setting
from unskew.spark import join_worth, options, worth


@pytest.fixture(scope="session")
def frames(spark: SparkSession) -> Frames:
    """Random rows with a key column of every type, and a smaller set of rows to join them with."""
    return Frames(spark, keyed(300, seed=1), keyed(60, seed=2))


@pytest.fixture
def doomed(frames: Frames) -> DataFrame:
    """Rows that cannot be read: a job over them fails, so what passes with them has started none."""
    # the sample is all rows; without it Spark would filter these few rows while it plans
    return frames.left.sample(1.0).where(F.when(F.col("v") >= 0, F.raise_error(F.lit("a job ran"))).isNull())


@pytest.fixture
def eager(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """`auto` measures and routes small jobs on any input, too, as it does with large ones."""
    monkeypatch.setattr(worth, "SHORTEST", 0.0)
    monkeypatch.setattr(worth, "SHORTEST_CUT", 0.0)
    monkeypatch.setattr(worth, "_expensive", lambda inputs: "")
    monkeypatch.setattr(options, "LEAST_GAIN", dict.fromkeys(options.LEAST_GAIN, 0.02))
    monkeypatch.setattr(join_worth, "ROUTED_COST", 1.02)
    monkeypatch.setattr(join_worth, "ROUTED_COST_OF_NUMBERS", 1.02)
    with setting(spark, autoBroadcastJoinThreshold="-1"):
        yield
