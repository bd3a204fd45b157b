"""A task that runs again, since its executor was lost, sends every row where it sent it before."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spark.local_cluster import run_on_cluster

pytestmark = [pytest.mark.usefixtures("own_spark"), pytest.mark.faults]


def test_an_executor_is_killed_while_the_shuffle_is_read(tmp_path: Path) -> None:
    outcome = run_on_cluster("tests.spark.rerun_job", tmp_path)
    killed_and_right = [True, True]
    assert outcome == [dict.fromkeys(("join", "over", "merge"), killed_and_right)] * 2
