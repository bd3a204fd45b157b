from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import Result
from pyspark.sql import SparkSession
from typer.testing import CliRunner

import unskew
from tests.report.html_facts import assert_self_contained, read
from unskew.cli import app


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One skewed table as a Parquet, a CSV and a JSON file."""
    data = tmp_path_factory.mktemp("data")
    random = np.random.default_rng(0)
    shares = 1 / np.arange(1, 201)
    users = random.choice(200, size=5000, p=shares / shares.sum())
    rows = pd.DataFrame({"user": [f"u{i}" for i in users], "day": users % 3, "cost": users / 10})
    rows.to_parquet(data / "rows.parquet")
    rows.to_csv(data / "rows.csv", index=False)
    rows.to_json(data / "rows.json", orient="records", lines=True)
    return data


@pytest.fixture(autouse=True)
def in_folder(folder: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def figures(*arguments: str | Path) -> dict[str, Any]:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.stderr
    return dict(json.loads(result.stdout))


def complaint(*arguments: str | Path) -> str:
    """The error line of a command that was called wrongly."""
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    lines = [line for line in result.stderr.splitlines() if not line.endswith("…")]
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("error: ")
    return str(lines[0])


def test_json_holds_the_figures_of_the_api(spark: SparkSession, folder: Path) -> None:
    df = spark.read.parquet(str(folder / "rows.parquet"))
    diagnosis = unskew.diagnose(df, "user", slots=8, cores=4, weight="cost", buckets=512)
    options = ("--slots", "8", "--cores", "4", "--weight", "cost", "--buckets", "512")
    assert figures("diagnose", "rows.parquet", "--key", "user", *options) == diagnosis.to_dict()


@pytest.mark.parametrize("name", ["rows.csv", "rows.json"])
def test_every_format_gives_the_same_figures(name: str) -> None:
    same = ("--key", "user", "--key", "day", "--slots", "4")
    expected, actual = figures("diagnose", "rows.parquet", *same), figures("diagnose", name, *same)
    # JSON and CSV types are inferred, so day has another type, and therefore another hash
    for field in ("records", "distinct_keys", "key", "bound"):
        assert actual[field] == expected[field]
    assert {tuple(h["key"]) for h in actual["heavy"][:5]} == {tuple(h["key"]) for h in expected["heavy"][:5]}


def test_a_folder_with_an_odd_name_is_read(folder: Path) -> None:
    odd = folder / "odd [1] {a}*?"
    odd.mkdir()
    for name in ("rows.csv", "_ignored.json"):
        (odd / name).write_bytes((folder / "rows.csv").read_bytes())
    assert figures("diagnose", odd.name, "--key", "user", "--slots", "2")["records"] == 5000


def test_a_table_is_read(spark: SparkSession, folder: Path) -> None:
    spark.read.parquet(str(folder / "rows.parquet")).createOrReplaceTempView("rows_of_test_cli")
    assert figures("diagnose", "--table", "rows_of_test_cli", "--key", "user")["records"] == 5000


def test_a_sample_is_reported_as_one() -> None:
    diagnosis = figures("diagnose", "rows.parquet", "--key", "user", "--slots", "4", "--sample", "0.5")
    assert diagnosis["sampled"] == 0.5
    assert diagnosis["records"] == pytest.approx(5000, rel=0.1)


def test_the_terminal_view_and_the_page(tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    result = run("diagnose", "rows.parquet", "--key", "user", "--slots", "8", "--html", out)
    assert result.exit_code == 0
    for word in ("How skewed is user?", "Predicted speedup", "keel", "u0", f"Report: {out}\n"):
        assert word in result.stdout
    assert "counting records by user" in result.stderr  # progress
    page = read(out.read_text("utf-8"))
    assert_self_contained(page)
    assert "rows.parquet" in page.text


def test_hostile_keys_are_inert_everywhere(spark: SparkSession, tmp_path: Path) -> None:
    keys = ["[red]a[/red]", "\x1b[2J", "</script><img src=x onerror=alert(1)>", None, "\x00"]
    name = "k</b>[bold]"
    rows = [(key,) for i, key in enumerate(keys) for _ in range(i + 1)]
    spark.createDataFrame(rows, f"`{name}` string").write.parquet(str(tmp_path / "hostile.parquet"))
    out = tmp_path / "report.html"
    result = run("diagnose", tmp_path / "hostile.parquet", "--key", name, "--slots", "2", "--html", out)
    assert result.exit_code == 0
    assert "[red]a[/red]" in result.stdout
    assert "\\x1b[2J" in result.stdout
    assert "\x1b" not in result.output
    page = read(out.read_text("utf-8"))
    assert_self_contained(page)
    assert "img" not in page.tags
    diagnosis = figures("diagnose", tmp_path / "hostile.parquet", "--key", name, "--slots", "2")
    assert {heavy["key"] for heavy in diagnosis["heavy"]} == set(keys)


def test_empty_data_is_not_an_error() -> None:
    Path("header.csv").write_text("user,n\n")
    assert "the data is empty" in run("diagnose", "header.csv", "--key", "user", "--slots", "4").stdout
    assert figures("diagnose", "header.csv", "--key", "user", "--slots", "4")["speedup"] == 1.0


def test_a_plan_is_saved_and_updated(spark: SparkSession, folder: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first.plan", tmp_path / "second.plan"
    result = run("plan", "rows.parquet", "--key", "user", "--slots", "8", "--planner", "keel", "--out", first)
    assert result.exit_code == 0
    assert "keel" in result.stdout
    plan = unskew.load(first)
    df = spark.read.parquet(str(folder / "rows.parquet"))
    same = unskew.plan(unskew.measure(df, "user"), 8, "keel")
    assert plan.table.same_routes(same.table)
    assert {row.slot for row in df.transform(plan.apply).select("slot").distinct().collect()} == set(range(8))
    updated = figures("plan", "rows.parquet", "--key", "user", "--previous", first, "--out", second)
    assert updated["slots"] == 8
    assert updated["version"] == 2
    assert updated["moved_state"] == 0.0
    assert unskew.load(second).imbalance == updated["imbalance"]


def test_the_planners_are_listed_with_their_papers() -> None:
    result = CliRunner(env={"COLUMNS": "200"}).invoke(app, ["planners"])
    for name in unskew.planners():
        assert f" {name} " in result.stdout
    for author in ("Rivetti", "Gedik", "Guo and Zhou", "Zvara", "Nasir", "Karger"):
        assert author in result.stdout


def test_the_version() -> None:
    assert run("--version").stdout == f"unskew {unskew.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.parquet", "--key", "user"], "nowhere.parquet: there is no such file"),
        (["rows.parquet"], "--key COLUMN"),
        (["--key", "user"], "either a PATH or --table"),
        (["rows.parquet", "--table", "t", "--key", "user"], "either a PATH or --table"),
        (["rows.parquet", "--key", "usr"], "did you mean 'user'?"),
        (["rows.parquet", "--key", "user", "--slots", "0"], "at least one slot"),
        (["rows.parquet", "--key", "user", "--slots", "5000"], "only 4096 buckets"),
        (["rows.parquet", "--key", "user", "--buckets", "0"], "--buckets 0"),
        (["rows.parquet", "--key", "user", "--cores", "0"], "cores is at least 1"),
        (["rows.parquet", "--key", "user", "--sample", "most"], "--sample most"),
        (["rows.parquet", "--key", "user", "--sample", "0"], "sample"),
        (["rows.parquet", "--key", "user", "--weight", "user"], "not a number"),
        (["rows.parquet", "--key", "user", "--html", "."], "that is a folder"),
        (["rows.parquet", "--key", "user", "--conf", "x"], "NAME=VALUE"),
        (["--table", "no_such_table", "--key", "user"], "no_such_table"),
    ],
)
def test_mistakes_are_one_line(arguments: list[str], message: str) -> None:
    assert message in complaint("diagnose", *arguments)


def test_unreadable_data_is_one_line(spark: SparkSession, tmp_path: Path) -> None:
    bad, pretty, empty = tmp_path / "bad.parquet", tmp_path / "pretty.json", tmp_path / "empty.csv"
    bad.write_bytes(b"this is not a Parquet file")
    pretty.write_text('[\n{"user":\n1}\n]')
    empty.write_text("")
    (tmp_path / "unknown.bin").write_text("")
    assert "bad.parquet" in complaint("diagnose", bad, "--key", "user")
    assert "one object per line" in complaint("diagnose", pretty, "--key", "user")
    assert "empty" in complaint("diagnose", empty, "--key", "user")
    assert "--format" in complaint("diagnose", tmp_path / "unknown.bin", "--key", "user")
    assert "several formats" in complaint("diagnose", tmp_path, "--key", "user")
    maps = tmp_path / "map.parquet"
    spark.sql("select map(1, 2) as user").write.parquet(str(maps))
    assert "cannot be a key" in complaint("diagnose", maps, "--key", "user")


def test_a_plan_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    key, out = ("rows.parquet", "--key", "user"), ("--out", tmp_path / "x.plan")
    damaged, good = tmp_path / "damaged.plan", tmp_path / "good.plan"
    assert run("plan", *key, "--slots", "4", "--out", good).exit_code == 0
    data = bytearray(good.read_bytes())
    data[-1] ^= 1
    damaged.write_bytes(data)
    assert "damaged.plan: damaged" in complaint("plan", *key, *out, "--previous", damaged)
    assert "gone.plan" in complaint("plan", *key, *out, "--previous", tmp_path / "gone.plan")
    assert "no planner 'kipp'" in complaint("plan", *key, *out, "--planner", "kipp")
    assert "--out FILE" in complaint("plan", *key)
    assert "no folder" in complaint("plan", *key, "--out", tmp_path / "no" / "x.plan")
    assert "measure and plan again" in complaint(
        "plan", "rows.parquet", "--key", "day", *out, "--previous", good
    )
    assert not (tmp_path / "x.plan").exists()


def test_a_separate_process_prints_json_and_nothing_else(folder: Path) -> None:
    command = [sys.executable, "-m", "unskew", "diagnose", "rows.csv", "--key", "user"]
    settings = {**os.environ, "PYTHONWARNINGS": "default"}
    process = subprocess.run(
        [*command, "--slots", "4", "--json", "--master", "local[1]"],
        cwd=folder,
        env=settings,
        capture_output=True,
        text=True,
        check=True,
        timeout=800,
    )
    assert json.loads(process.stdout)["records"] == 5000
    assert all(line.startswith("unskew: ") for line in process.stderr.splitlines()), process.stderr
    assert not (folder / "spark-warehouse").exists()


def test_a_missing_java_is_reported(folder: Path) -> None:
    process = subprocess.run(
        [sys.executable, "-m", "unskew", "diagnose", "rows.csv", "--key", "user"],
        cwd=folder,
        env={**os.environ, "JAVA_HOME": "/nowhere"},
        capture_output=True,
        text=True,
        check=False,
        timeout=800,
    )
    assert process.returncode == 2
    assert "there is no Java" in process.stderr
    assert "Traceback" not in process.stderr
