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
def test_both_acts_run_and_are_on_a_page_that_needs_no_network(tmp_path: Path) -> None:
    tiny = ["demo", "--pages", "300", "--wait", "0.0001", "--batches", "4", "--cores", "2"]
    process = subprocess.run(
        [sys.executable, "-W", "error", "-m", "unskew", *tiny],
        cwd=tmp_path,
        env=os.environ,
        check=True,
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    assert "The same crawl on local Spark: plain" in process.stdout
    assert "A live stream with drifting hot keys" in process.stdout
    last = process.stdout.splitlines()[-1]
    assert Path(last) == Path("unskew-demo.html")
    page = read((tmp_path / last).read_text("utf-8"))
    assert_self_contained(page)
    assert len(page.data) == 3
    assert "A job on Spark, before and after" in page.text
    assert "Both runs gave the same result" in page.text


def test_a_page_that_cannot_be_written_is_refused_at_once(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["demo", "--out", str(tmp_path)])
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: --out {tmp_path}: that is a folder")


def test_two_batches_are_refused() -> None:
    result = CliRunner().invoke(app, ["demo", "--batches", "2"])
    assert result.exit_code == 2
    assert "--batches" in result.stderr
