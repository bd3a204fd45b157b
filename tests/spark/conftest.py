"""One Spark session for all Spark tests: classic, or Spark Connect where UNSKEW_TEST_REMOTE is set."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.spark.frames import Frames, keyed

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = make_session()
    yield session
    session.stop()


@pytest.fixture(scope="session")
def frames(spark: SparkSession) -> Frames:
    """Random rows with a key column of every type, and a smaller set of rows to join them with."""
    return Frames(spark, keyed(300, seed=1), keyed(60, seed=2))


@pytest.fixture
def doomed(frames: Frames) -> DataFrame:
    """Rows that cannot be read: a job over them fails, so what passes with them has started none."""
    return frames.left.where(F.when(F.col("v") >= 0, F.raise_error(F.lit("a job ran"))).isNull())


def make_session() -> SparkSession:
    """A local Spark of two cores whose workers run this Python."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    # workers import the examples, also those of a Connect server, which does not know where the tests run
    known = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(filter(None, [str(ROOT), *known])))
    remote = bool(os.environ.get("UNSKEW_TEST_REMOTE"))
    builder = SparkSession.builder
    builder = builder.remote("local[2]") if remote else builder.master("local[2]")
    builder = (
        builder.appName("unskew tests")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
    )
    with warnings.catch_warnings():
        # Connect starts its server with the settings, then warns that it cannot set them on the running one.
        warnings.filterwarnings("ignore", "Failed to set")
        session: SparkSession = builder.getOrCreate()
    return session
