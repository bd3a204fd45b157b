from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from tests.report.html_facts import assert_self_contained, read
from tests.report.watch.journals import begin, fill
from unskew.cli import app
from unskew.streaming.storage.ledger import Ledger


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    fill(begin(tmp_path / "checkpoint"), 3)
    return tmp_path / "checkpoint"


def run(*arguments: str | Path) -> Result:
    return CliRunner(env={"COLUMNS": "160"}).invoke(app, ["watch", *map(str, arguments)])


def complaint(*arguments: str | Path) -> str:
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert len(result.stderr.splitlines()) == 1
    return str(result.stderr)


def test_a_run_is_exported_into_a_new_folder(checkpoint: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / "run.html"
    result = run(checkpoint, "--export", out)
    assert result.exit_code == 0
    assert result.stdout == f"Page: {out}\n"
    assert_self_contained(read(out.read_text("utf-8")))


def test_the_terminal_view(checkpoint: Path) -> None:
    result = run(checkpoint, "--tui")
    assert result.exit_code == 0
    assert "because of 2" in result.stdout


def test_each_of_several_operators_can_be_watched(checkpoint: Path) -> None:
    first = Ledger(str(checkpoint), "one")
    first.write_operator({"checkpoint_id": "one", "max_slots": 8, "operators": 2})
    second = Ledger(str(checkpoint), "one", number=1)
    second.write_operator({"checkpoint_id": "one", "max_slots": 8, "operators": 2})
    fill(second, 2)
    result = run(checkpoint, "--tui", "--operator", "1")
    assert "operator 1 of 2" in result.stdout
    assert "because of 1" in result.stdout
    assert "because of 2" not in result.stdout
    assert "because of 2" in run(checkpoint, "--tui").stdout
    assert "has 2 operators, numbered from 0, and no operator 2" in complaint(checkpoint, "--operator", "2")


def test_mistakes_are_one_line(checkpoint: Path, tmp_path: Path) -> None:
    assert "is not a checkpoint of unskew.stream" in complaint(tmp_path / "nowhere")
    assert "choose one of --tui and --export" in complaint(checkpoint, "--tui", "--export", "x.html")
    assert "directory" in complaint(checkpoint, "--export", tmp_path)
    (checkpoint / "unskew" / "operator").write_bytes(b"damaged")
    assert "operator" in complaint(checkpoint)


def test_the_page_is_served_until_it_is_interrupted(checkpoint: Path) -> None:
    command = [sys.executable, "-m", "unskew", "watch", str(checkpoint), "--no-open"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        address = re.search(r"http://127\.0\.0\.1:\d+/", process.stdout.readline())
        assert address is not None
        with urllib.request.urlopen(address[0], timeout=120) as response:
            assert b"unskew watch" in response.read()
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(120) == 0
        assert process.stderr.read() == ""
