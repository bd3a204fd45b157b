"""`unskew demo`, with less data."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.report.html_facts import assert_self_contained, read
from unskew.cli import app


@pytest.mark.timeout(900)  # it starts its own Spark, slow on a busy machine
@pytest.mark.usefixtures("own_spark")
def test_the_acts_run_and_are_on_a_page_that_needs_no_network(tmp_path: Path) -> None:
    tiny = ["demo", "--scale", "0.02", "--batches", "3", "--cores", "2"]
    process = subprocess.run(
        [sys.executable, "-W", "error", "-m", "unskew", *tiny],
        cwd=tmp_path,
        env=os.environ,
        check=True,
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    lines = process.stdout.splitlines()
    assert process.stderr == "", "no line that is not ours"
    assert len(lines) < 40
    titles = [
        "1. A join with one hot key",
        "2. A function per group",
        "3. A live stream whose hot keys change",
    ]
    assert [title for title in titles if any(line.startswith(title) for line in lines)] == titles
    assert sum("Spark as it comes" in line and "task" in line for line in lines) == 2
    log = Path(lines[-2].removeprefix("What Spark printed: "))
    assert log.stat().st_size > 0
    log.unlink()
    assert Path(lines[-1]) == Path("unskew-demo.html")
    page = read((tmp_path / lines[-1]).read_text("utf-8"))
    assert_self_contained(page)
    assert len(page.data) == 4
    assert "A join with one hot key" in page.text
    assert "All give the same results" in page.text


def test_a_page_that_cannot_be_written_is_refused_at_once(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["demo", "--out", str(tmp_path)])
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: --out {tmp_path}: that is a folder")


def test_two_batches_are_refused() -> None:
    result = CliRunner().invoke(app, ["demo", "--batches", "2"])
    assert result.exit_code == 2
    assert "--batches" in result.stderr
