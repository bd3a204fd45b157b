"""One job end to end on a cluster of two executor processes, from the pip package."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spark.local_cluster import run_on_cluster

pytestmark = pytest.mark.usefixtures("own_spark")


@pytest.mark.thorough
def test_two_executor_processes(tmp_path: Path) -> None:
    assert run_on_cluster("tests.spark.cluster_job", tmp_path) == {
        "cores": 2,
        "measured": True,
        "groups": True,
        "join": True,
        "rows": [78, 6001],
        "processes": 2,
    }
