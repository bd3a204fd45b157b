"""Every everyday job of `make bench-harm`, tiny: unskew gives equal rows, and shuffles no more than plain Spark."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from benchmarks.harm_jobs import JOBS

pytestmark = pytest.mark.usefixtures("own_spark")

_FORM = "keys are accepted by name only"
_CONDITION = "join takes the names of columns, not a condition"
_MEASURING = "measuring takes more than one Spark job per operator"
_BROADCAST = "join shuffles both sides where Spark would broadcast one"
_CHAIN = "rows shuffled by slot are shuffled again for the next operator on the same key"

# Delete an entry once the feature is there. An entry is the fault, then jobs by name, where * stands for anything.
FAILS_TODAY: dict[tuple[str, str], str] = {
    ("raises", "form of the key: *F.col"): _FORM,
    ("raises", "form of the key: *F.lower"): _FORM,
    ("raises", "form of the key: *df.column"): _FORM,
    ("raises", "form of the key: *a field of a struct"): _FORM,
    ("raises", "form of the key: *a name and an expression"): _FORM,
    ("raises", "form of the key: *an aliased name"): _FORM,
    ("raises", "window: window by F.col"): _FORM,
    ("raises", "window: window by an expression"): _FORM,
    ("raises", "window: window by a field"): _FORM,
    ("raises", "join: left.a == right.b"): _CONDITION,
    ("raises", "join: two conditions, one no equality"): _CONDITION,
    ("raises", "join: null-safe equality"): _CONDITION,
    ("raises", "join: int and long keys*"): "join wants keys of one type, and no condition",
    ("raises", "join: self join"): _CONDITION,
    ("raises", "join: equal expressions"): _CONDITION,
    ("exchanges", "join: broadcast by *"): _BROADCAST,
    ("exchanges", "join: a filter makes one side small"): _BROADCAST,
    ("exchanges", "chain: *"): _CHAIN,
    ("exchanges", "input: after a join, window"): _CHAIN,
    ("jobs", "aggregate: *"): _MEASURING,
    ("jobs", "form of the key: *"): _MEASURING,
    ("jobs", "apply: *"): _MEASURING,
    ("jobs", "join: *"): _MEASURING,
    ("jobs", "window: *"): _MEASURING,
    ("jobs", "chain: *"): _MEASURING,
    ("jobs", "input: *"): _MEASURING,
    ("jobs", "output: *"): _MEASURING,
}


def cases(*faults: str) -> list[Any]:
    """Every job; one that has such a fault today, or raises, may fail."""
    marked = []
    for name in JOBS:
        reasons = [
            reason
            for (fault, pattern), reason in FAILS_TODAY.items()
            if fault in (*faults, "raises") and fnmatchcase(name, pattern)
        ]
        marks = [pytest.mark.xfail(reason="; ".join(reasons), strict=False)] if reasons else []
        marked.append(pytest.param(name, marks=marks))
    return marked


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


@pytest.mark.parametrize("job", cases("rows"))
def test_a_changed_job_gives_the_rows_of_the_plain_one(records: dict[str, Any], job: str) -> None:
    assert "rows" not in result(records, job)["faults"]


@pytest.mark.parametrize("job", cases("exchanges"))
def test_a_changed_job_has_no_more_shuffles(records: dict[str, Any], job: str) -> None:
    record = result(records, job)
    assert record["unskew"]["exchanges"] <= record["plain"]["exchanges"]


@pytest.mark.parametrize("job", cases("jobs"))
def test_a_changed_job_starts_at_most_one_spark_job_more(records: dict[str, Any], job: str) -> None:
    record = result(records, job)
    assert record["unskew"]["jobs"] <= record["plain"]["jobs"] + 1


def test_every_entry_of_the_table_of_failures_names_a_job() -> None:
    unused = [pattern for _, pattern in FAILS_TODAY if not any(fnmatchcase(name, pattern) for name in JOBS)]
    assert unused == []
