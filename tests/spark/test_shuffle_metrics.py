"""Bytes read from shuffles, as the driver's UI reports them; for reads over the network see `test_cluster`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.shuffle_job import ROWS, WIDTH
from unskew.spark.shuffle_metrics import ShuffleMetrics, ShuffleRead


def test_without_a_ui_every_answer_is_none(spark: SparkSession) -> None:
    metrics = ShuffleMetrics(spark)
    spark.range(10).repartition(2).collect()
    metrics.mark()
    assert metrics.read() is None
    assert metrics.by_stage() is None


@pytest.mark.thorough
@pytest.mark.usefixtures("own_spark")
def test_one_process_reads_its_shuffles_locally(tmp_path: Path) -> None:
    settings = ("spark.master=local[2]", "spark.driver.host=127.0.0.1", "spark.driver.bindAddress=127.0.0.1")
    root = Path(__file__).parents[2]
    env = {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": f"{root / 'src'}{os.pathsep}{root}"}
    job = subprocess.run(
        [sys.executable, "-m", "tests.spark.shuffle_job", *settings],
        cwd=tmp_path,
        env={**os.environ, **env},
        input=f"{tmp_path}\n",
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )
    assert job.returncode == 0, job.stderr[-3000:]
    twice, once_since_the_mark = (json.loads(line) for line in job.stdout.splitlines())
    assert (twice["stages"], once_since_the_mark["stages"]) == (2, 1)
    assert twice["remote"] == once_since_the_mark["remote"] == 0
    assert ROWS * WIDTH < once_since_the_mark["local"] < 1.1 * ROWS * WIDTH
    assert twice["local"] == 2 * once_since_the_mark["local"]


def test_locality_is_the_share_read_locally() -> None:
    assert (ShuffleRead(10, 20) + ShuffleRead(5, 25)).locality == 0.25
    assert ShuffleRead(0, 0).locality == 1
