"""A task that runs again, since its executor was lost, sends every row where it sent it before."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark.test_local_cluster import cluster_home

pytestmark = [pytest.mark.usefixtures("own_spark"), pytest.mark.faults]


def test_an_executor_is_killed_while_the_shuffle_is_read(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    ours = {
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join([str(root / "src"), str(root)]),
        "SPARK_HOME": str(cluster_home(tmp_path)),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    settings = (
        "spark.master=local-cluster[2,1,1024]",
        "spark.driver.bindAddress=127.0.0.1",
        "spark.driver.host=127.0.0.1",
        "spark.executor.memory=1g",
    )
    job = subprocess.run(
        [sys.executable, "-m", "tests.spark.rerun_job", *settings],
        cwd=tmp_path,
        env={**os.environ, **ours},
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )
    assert job.returncode == 0, job.stderr[-3000:]
    assert json.loads(job.stdout.splitlines()[-1]) == [{"killed": True, "right": True}] * 2
