from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from tests.report.watch.journals import begin, fill, hostile_line, line
from unskew.report.watch.journal import JournalReader
from unskew.report.watch.terminal import watch_in_terminal


def printed(folder: Path, *, width: int = 140, encoding: str = "utf-8") -> str:
    """What `--tui` prints if the output is not a terminal."""
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding, newline="\n")
    watch_in_terminal(JournalReader(str(folder)), Console(file=out, width=width, color_system=None))
    out.flush()
    return raw.getvalue().decode(encoding)


def test_the_facts_of_the_page_are_there(tmp_path: Path) -> None:
    fill(begin(tmp_path), 14)
    text = printed(tmp_path)
    for fact in (
        "stopped, last batch",
        "1,000 records",
        "2.200",  # imbalance
        "least 1.200",
        "0.51 s",
        "of at most 8",
        "50 keys",
        "6,000 B",
        "version 2",
        "batch 13",  # the last migration
        "7 keys, 840 B",
        "because of 12",
        "alice",
        "30.0%",
        "own row",
    ):
        assert fact in text, fact


@pytest.mark.parametrize("width", [60, 100, 200])
def test_it_fits_the_width(tmp_path: Path, width: int) -> None:
    fill(begin(tmp_path), 500)
    assert max(map(len, printed(tmp_path, width=width).splitlines())) <= width


def test_hostile_keys_do_nothing_to_the_terminal(tmp_path: Path) -> None:
    begin(tmp_path).write_line(hostile_line(0))
    text = printed(tmp_path)
    assert "\\x1b[31mred\\x07\\x00" in text
    assert "[bold]marked[/bold]" in text
    assert not set(text) & set("\x1b\x07\x00\u202e\u2028")


def test_a_terminal_without_unicode_blocks_gets_plain_ones(tmp_path: Path) -> None:
    begin(tmp_path).write_line(line(0, decision=None))
    text = printed(tmp_path, encoding="cp1252")
    assert "####" in text


def test_of_many_slots_the_fullest_are_listed_and_the_rest_counted(tmp_path: Path) -> None:
    begin(tmp_path).write_line(line(0, slots=40, loads=list(range(40)), state={}))
    assert "24 more slots have less" in printed(tmp_path)


def test_no_batch_yet(tmp_path: Path) -> None:
    begin(tmp_path)
    assert "no batch yet, and no query runs" in printed(tmp_path)


def test_lines_that_lack_everything_are_shown(tmp_path: Path) -> None:
    begin(tmp_path).write_line({"batch": 0})
    assert "stopped" in printed(tmp_path)
