"""A job on a cluster of two executor processes on this machine, from the pip package."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyspark

_SETTINGS = (
    "spark.master=local-cluster[2,1,1024]",
    "spark.driver.bindAddress=127.0.0.1",
    "spark.driver.host=127.0.0.1",
    "spark.executor.memory=1g",
)


def run_on_cluster(module: str, folder: Path) -> Any:
    """Run `python -m module` with the settings of the cluster as arguments; what its last line says, as JSON."""
    root = Path(__file__).parents[2]
    variables = {
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join([str(root / "src"), str(root)]),
        "SPARK_HOME": str(_home(folder)),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    job = subprocess.run(
        [sys.executable, "-m", module, *_SETTINGS],
        cwd=folder,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )
    assert job.returncode == 0, job.stderr[-3000:]
    return json.loads(job.stdout.splitlines()[-1])


def _home(folder: Path) -> Path:
    """A home for Spark: a cluster writes its executors' files there, so it must not be the installed package."""
    home = folder / "spark"
    home.mkdir()
    for part in Path(pyspark.__file__).parent.iterdir():
        (home / part.name).symlink_to(part)
    return home
