from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from tests.eventlog.logs import REAL
from tests.report.html_facts import assert_self_contained, read
from unskew.cli import app
from unskew.eventlog.findings import diagnose_log


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["diagnose", *map(str, arguments)])


def test_json_holds_the_figures_and_nothing_else() -> None:
    result = run("--event-log", REAL, "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout) == diagnose_log(REAL).to_dict()


def test_the_terminal_view_and_the_page(tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    result = run("--event-log", REAL, "--html", out)
    assert result.exit_code == 0
    assert "data skew" in result.stdout
    assert result.stdout.endswith(f"Report: {out}\n")
    assert f"reading {REAL.name}" in result.stderr
    assert_self_contained(read(out.read_text("utf-8")))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--event-log", "gone"], "gone: there is no such file"),
        (["--event-log", REAL, "--key", "user"], "--key does not go with --event-log"),
        (["rows.parquet", "--event-log", REAL], "path does not go with --event-log"),
        (["--event-log", REAL, "--slots", "4"], "--slots does not go with --event-log"),
        (["--event-log", __file__], "not an event log of Spark"),
        (["--event-log", REAL, "--html", "."], "that is a folder"),
    ],
)
def test_mistakes_are_one_line(arguments: list[str | Path], message: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    (line,) = [line for line in result.stderr.splitlines() if not line.endswith("…")]
    assert line.startswith("error: ")
    assert message in line
