"""Every everyday job of `make bench-harm`, tiny: unskew gives equal rows, and shuffles no more than plain Spark."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.harm_jobs import JOBS

pytestmark = [pytest.mark.usefixtures("own_spark"), pytest.mark.everyday]


@pytest.fixture(scope="module")
def records(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The record of every job that a selected test asks for, from one run of the benchmark that times nothing.

    In another process, since costs are read from the event log, which must be configured before Spark starts.
    """
    folder = tmp_path_factory.mktemp("harm")
    wanted = {
        item.callspec.params["job"]
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.path == request.path and hasattr(item, "callspec")
    }
    root = Path(__file__).parents[2]
    command = ["-m", "benchmarks.harm", *sorted(wanted), "--scale", "0.002", "--turns", "0", "--measure-only"]
    run = subprocess.run(
        [sys.executable, *command, "--results", str(folder)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])},
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    jobs: dict[str, Any] = json.loads((folder / "harm-classic.json").read_text())["jobs"]
    return jobs


def result(records: dict[str, Any], job: str) -> dict[str, Any]:
    record: dict[str, Any] = records[job]
    assert "error" not in record, record["error"]
    return record


@pytest.mark.parametrize("job", JOBS)
def test_a_changed_job_gives_the_rows_of_the_plain_one(records: dict[str, Any], job: str) -> None:
    assert "rows" not in result(records, job)["faults"]


@pytest.mark.parametrize("job", JOBS)
def test_a_changed_job_has_no_more_shuffles(records: dict[str, Any], job: str) -> None:
    record = result(records, job)
    assert record["unskew"]["exchanges"] <= record["plain"]["exchanges"]


@pytest.mark.parametrize("job", JOBS)
def test_a_changed_job_starts_at_most_one_spark_job_more(records: dict[str, Any], job: str) -> None:
    record = result(records, job)
    assert record["unskew"]["jobs"] <= record["plain"]["jobs"] + 1
