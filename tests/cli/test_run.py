"""`unskew run`, from the command line to files on disk, and how signals stop it."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest
from click.testing import Result
from pyspark.sql import SparkSession
from typer.testing import CliRunner

import unskew
from unskew.cli import app
from unskew.streaming.storage.lease import Lease

USERS = ["ann"] * 60 + ["bob"] * 30 + ["cid", "dan"] * 5
STREAM = """
mode = "stream"
checkpoint = "checkpoint"
trigger = "availableNow"

[source]
format = "json"
path = "in"
schema = "user string, amount long"
options = { maxFilesPerTrigger = 1 }

[operator]
key = "user"
aggregates = { n = "count", total = { sum = "amount" } }

[sink]
format = "parquet"
path = "out"

[plan]
slots = 2
"""
BATCH = """
mode = "batch"

[source]
format = "csv"
path = "rows.csv"

[operator]
key = "user"
apply = "scores_of_a_job:score"
output = "user string, score long"

[sink]
format = "parquet"
path = "out"

[plan]
slots = 3
planner = "keel"
"""
SCORES = """
import pandas as pd

def same(rows):
    return rows

def number(key, rows, state):
    n = (state or {"n": 0})["n"] + len(rows)
    return rows.assign(n=n)[["user", "amount", "n"]], {"n": n}

def fail(rows):
    raise ValueError("this row is bad")

def fail_each(key, rows, state):
    raise ValueError("this row is bad")

def score(rows):
    return pd.DataFrame({"user": rows["user"].iloc[:1], "score": [rows["amount"].sum()]})
"""
RATE = """
mode = "stream"
checkpoint = "checkpoint"

[source]
format = "rate"
columns = { user = "value % 7" }
options = { rowsPerSecond = 20 }

[operator]
key = "user"
aggregates = { n = "count" }

[sink]
format = "parquet"
path = "out"

[plan]
slots = 2
"""


POLICY = ", ".join(f"{name} {value}" for name, value in vars(unskew.Policy()).items())


@pytest.fixture
def folder(tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two jobs and their input; modules that a job imports are found in its folder only while a test runs."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    rows = pd.DataFrame({"user": USERS, "amount": range(len(USERS))})
    rows.to_csv(tmp_path / "rows.csv", index=False)
    (tmp_path / "in").mkdir()
    for i in range(2):
        rows[i::2].to_json(tmp_path / "in" / f"{i}.json", orient="records", lines=True)
    for name, text in (("stream.toml", STREAM), ("batch.toml", BATCH), ("scores_of_a_job.py", SCORES)):
        (tmp_path / name).write_text(text)
    return tmp_path


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["run", *map(str, arguments)])


def test_a_stream_counts_and_can_be_run_again(folder: Path) -> None:
    done = run(folder / "stream.toml")
    assert done.exit_code == 0, done.output
    assert "unskew: done, batch 1: 50 rows" in done.stderr
    state = unskew.state(str(folder / "checkpoint")).collect()
    assert {row["user"]: row["n"] for row in state} == Counter(USERS)
    assert sum(row["total"] for row in state) == sum(range(len(USERS)))
    assert len(list((folder / "out").glob("batch=*"))) == 2

    (folder / "in" / "2.json").write_text(json.dumps({"user": "eve", "amount": 1}))
    again = run(folder / "stream.toml")
    assert again.exit_code == 0, again.output
    assert "batch 2: 1 rows" in again.stderr
    assert pq.read_table(folder / "out" / "batch=2").to_pylist() == [{"user": "eve", "n": 1, "total": 1}]


def test_a_batch_job_calls_the_function_beside_it(folder: Path) -> None:
    done = run(folder / "batch.toml")
    assert done.exit_code == 0, done.output
    assert "unskew: done, Plan(keel, 3 slots" in done.stderr
    totals: Counter[str] = Counter()
    for amount, user in enumerate(USERS):
        totals[user] += amount
    assert {row["user"]: row["score"] for row in pq.read_table(folder / "out").to_pylist()} == totals


@pytest.mark.thorough
def test_a_stream_of_chained_operators(folder: Path) -> None:
    job = folder / "stream.toml"
    first = 'update_each = "scores_of_a_job:number"\noutput = "user string, amount long, n long"\nstate = "n long"'
    last = '[[operator]]\nkey = "amount"\naggregates = { most = { max = "n" } }'
    chained = STREAM.replace("[operator]", "[[operator]]")
    job.write_text(re.sub("aggregates = .*", f"{first}\n{last}", chained))
    done = run(job)
    assert done.exit_code == 0, done.output
    state = unskew.state(str(folder / "checkpoint"), operator=1).collect()
    assert {row["amount"] for row in state} == set(range(len(USERS)))
    assert max(row["most"] for row in state) == Counter(USERS)["ann"]


def test_a_batch_job_of_chained_operators(folder: Path) -> None:
    job = folder / "batch.toml"
    first = 'apply = "scores_of_a_job:same"\noutput = "user string, amount int"'
    last = '[[operator]]\nkey = "amount"\naggregates = { user = { first = "user", by = "user" } }'
    chained = BATCH.replace("[operator]", "[[operator]]").replace('planner = "keel"', "")
    job.write_text(re.sub("apply = .*\noutput = .*", f"{first}\n{last}", chained))
    done = run(job)
    assert done.exit_code == 0, done.output
    assert {r["amount"]: r["user"] for r in pq.read_table(folder / "out").to_pylist()} == dict(
        enumerate(USERS)
    )


def test_a_check_prints_what_will_run_and_runs_nothing(folder: Path) -> None:
    check = run(folder / "stream.toml", "--check")
    assert check.exit_code == 0, check.output
    for words in ("is in order", "json files in in, as a stream", "by user: n = count(), total = sum(amount)",
                  "parquet files in out", "2 slots, planner keel", POLICY, "availableNow",
                  "struct<user:string,n:bigint,total:bigint>"):  # fmt: skip
        assert words in " ".join(check.stdout.split())
    assert not (folder / "checkpoint").exists()
    check = run(folder / "batch.toml", "--check", "--measure")
    assert check.exit_code == 0, check.output
    assert "Plan(keel, 3 slots, 4 heavy keys, imbalance 1.800, bound 1.800)" in " ".join(check.stdout.split())
    assert not (folder / "out").exists()


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("stream.toml", 'key = "user"', 'key = "usr"', "[operator] there is no column 'usr'"),
        ("stream.toml", 'sum = "amount"', 'sum = "user"', "[operator] "),
        ("stream.toml", "user string", "user strin", "[source] "),
        ("stream.toml", "slots = 2", "slots = 100_000_000", "100000000 slots but only 4096 buckets"),
        ("stream.toml", '"checkpoint"', '"stream.toml/x"', "stream.toml is not a folder: choose another one"),
        ("stream.toml", '"checkpoint"', '"nofs://host/x"', "checkpoint 'nofs://host/x' cannot be reached"),
        ("batch.toml", ":score", ":skore", "did you mean 'score'?"),
        ("batch.toml", "rows.csv", "gone.csv", "[source] "),
        (
            "batch.toml",
            "slots = 3",
            "slot = 3",
            "[plan] slot: there is no such setting: did you mean 'slots'?",
        ),
    ],
)
def test_mistakes_are_one_line_that_names_the_file(
    folder: Path, file: str, old: str, new: str, message: str
) -> None:
    job = folder / file
    job.write_text(job.read_text().replace(old, new))
    check = run(job, "--check")
    assert check.exit_code == 2, check.output
    assert check.stdout == ""
    lines = [line for line in check.stderr.splitlines() if not line.endswith("…")]
    assert len(lines) == 1, check.stderr
    assert lines[0].startswith(f"error: {job}: ")
    assert message in lines[0]


def test_what_a_function_raises_is_reported(folder: Path) -> None:
    batch, stream = folder / "batch.toml", folder / "stream.toml"
    batch.write_text(BATCH.replace(":score", ":fail"))
    failing = 'update_each = "scores_of_a_job:fail_each"\noutput = "user string"\nstate = "n long"'
    stream.write_text(re.sub("aggregates = .*", failing, STREAM))
    for job in (batch, stream):
        failed = run(job)
        assert failed.exit_code == 2, failed.output
        assert "this row is bad" in failed.stderr.splitlines()[-1]


def test_only_a_batch_job_can_be_measured(folder: Path) -> None:
    assert (
        "--measure goes with --check of a batch job"
        in run(folder / "stream.toml", "--check", "--measure").stderr
    )


@pytest.mark.thorough
@pytest.mark.timeout(600)  # two Sparks start, one after the other
@pytest.mark.usefixtures("own_spark")
def test_a_signal_stops_a_stream_and_the_next_run_resumes_it(tmp_path: Path) -> None:
    (tmp_path / "rate.toml").write_text(RATE)
    command = [sys.executable, "-m", "unskew", "run", str(tmp_path / "rate.toml"), "--master", "local[1]"]
    batches = 0
    for number in (signal.SIGTERM, signal.SIGINT):
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            try:
                _wait_for_batch(process, tmp_path, batches + 1)  # then the batch before is in the journal
                process.send_signal(number)
                _, stderr = process.communicate(timeout=400)
            finally:
                process.kill()
        assert process.returncode == 128 + number, stderr
        assert f"unskew: stopped by {number.name}, batch" in stderr
        assert "Traceback" not in stderr
        assert Lease(str(tmp_path / "checkpoint")).holder() is None
        batches = len(unskew.journal(str(tmp_path / "checkpoint")))


def _wait_for_batch(process: subprocess.Popen[str], folder: Path, batch: int) -> None:
    deadline = time.monotonic() + 400
    while not (folder / "out" / f"batch={batch}" / "_SUCCESS").exists():
        assert process.poll() is None, "it ended before the signal"
        assert time.monotonic() < deadline, "there was no batch"
        time.sleep(0.2)
