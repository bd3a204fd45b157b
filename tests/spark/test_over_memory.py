"""The memory of a task is that of a piece, not of its key."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.thorough
@pytest.mark.usefixtures("own_spark")
def test_pieces_fit_where_plain_spark_spills_the_key(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    paths = [str(root / "src"), str(root), os.environ.get("PYTHONPATH", "")]
    job = subprocess.run(
        [sys.executable, "-m", "tests.spark.over_memory_job", str(tmp_path)],
        cwd=root,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )
    assert job.returncode == 0, job.stderr[-3000:]
    found = json.loads(job.stdout.splitlines()[-1])
    assert found["cut"]["answer"] == found["plain"]["answer"]
    assert found["plain"]["spilled"] > 0
    assert found["cut"]["spilled"] == 0
    assert found["cut"]["memory"] < 0.6 * found["plain"]["memory"]
