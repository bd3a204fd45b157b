from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from research.__main__ import app
from research.papers.registry import PAPERS, choose


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [*map(str, arguments)])


def test_a_figure_is_run_once_and_reported(tmp_path: Path) -> None:
    assert "gedik-1" in run("run", "gedik-1", "--quick", "--out", tmp_path).stdout
    again = run("run", "gedik-1", "--quick", "--out", tmp_path)
    assert again.exit_code == 0
    assert again.stderr == "", "nothing is computed, so there is no progress"
    page = tmp_path / "docs" / "reproduction.md"
    reported = run("report", "--out", tmp_path, "--docs", page)
    assert reported.stdout.split() == [str(page), str(tmp_path / "reproduction.html")]
    assert "### gedik-1" in page.read_text("utf-8")


def test_the_list_names_every_entry_of_every_paper() -> None:
    text = run("list").stdout
    for paper in PAPERS:
        assert all(entry.name in text for entry in paper.entries)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("dkg-tabel-1", "did you mean 'dkg-table-1'"),
        ("gedik-2", "a diagram"),
        ("../dkg-2", "there is no experiment"),
    ],
)
def test_a_wrong_name_gives_one_line_with_a_hint(tmp_path: Path, name: str, hint: str) -> None:
    result = run("run", name, "--out", tmp_path)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("error: ")
    assert hint in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_page_that_is_not_markdown_is_refused(tmp_path: Path) -> None:
    result = run("report", "--out", tmp_path, "--docs", tmp_path)
    assert (result.exit_code, result.stdout) == (2, "")
    assert ".md" in result.stderr


def test_a_papers_name_stands_for_all_its_figures() -> None:
    assert [e.name for e in choose(["dkg"])] == [e.name for e in choose([]) if e.name.startswith("dkg-")]
    assert [e.name for e in choose(["dkg-3", "dkg-2", "dkg-3"])] == ["dkg-3", "dkg-2"]
