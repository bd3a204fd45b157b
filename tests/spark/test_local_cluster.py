"""One job end to end on a cluster of two executor processes, from the pip package."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

pytestmark = pytest.mark.usefixtures("own_spark")


def cluster_home(folder: Path) -> Path:
    """A home for Spark: a cluster writes its executors' files there, so it must not be the installed package."""
    home = folder / "spark"
    home.mkdir()
    for part in Path(pyspark.__file__).parent.iterdir():
        (home / part.name).symlink_to(part)
    return home


def test_two_executor_processes(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    ours = {
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(root),
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
        [sys.executable, "-m", "tests.spark.cluster_job", *settings],
        cwd=tmp_path,
        env={**os.environ, **ours},
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )
    assert job.returncode == 0, job.stderr[-3000:]
    findings = json.loads(job.stdout.splitlines()[-1])
    assert findings == {
        "cores": 2,
        "measured": True,
        "groups": True,
        "join": True,
        "rows": [78, 6001],
        "processes": 2,
    }
