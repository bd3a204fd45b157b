"""Every measured number of the README and the docs is that of a committed record; the page of benchmarks shows all."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scripts import benchmark_page
from scripts.recorded_numbers import MARK, PAGES, ROOT, figure, rendered

GENERATED = {"benchmarks.md", "reproduction.md", "tournament.md", "scale.md"}
"""Pages that are written from records as a whole."""
ABOUT_OTHERS = {"readings.md", "changelog.md", "contributing.md"}
"""What papers say, and what was true of older versions."""

NOT_MEASURED = {
    # limits of `make bench-harm`, of the planners and of settings
    "batch.md": {"1.05 ×", "0.3 s", "4 GB", "8 MB"},
    "comparison.md": {"256 MB"},
    "concepts.md": {"1 ms"},
    "event-logs.md": {"32 MB", "64 MB"},
    "hot-keys-joins.md": {"8 ×"},  # a grid of 8 × 1
    "locality.md": {"12 kB"},
    "operations.md": {"10 s"},
    "recipes.md": {"10 MB"},
}
"""Numbers that were chosen, not measured: thresholds, settings, sizes in an example."""

_AMOUNT = re.compile(r"(?<![\w.=])\d[\d.,]*\s?(?:×|ms|s|MB|GB|kB|MB/s)(?![\w/])")
_NOT_PROSE = re.compile(
    r"^```.*?^```$|^ {4}[^\n]*$|`[^`\n]+`|<!-- begin .*?<!-- end [\w ]+ -->|\$[^$\n]+\$", re.M | re.S
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_numbers_of_a_page_are_those_of_the_records(page: Path) -> None:
    assert page.read_text("utf-8") == rendered(page), "run `make docs-numbers`"


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.name not in GENERATED | ABOUT_OTHERS], ids=lambda page: page.name
)
def test_a_page_has_no_measured_number_without_a_record(page: Path) -> None:
    text = MARK.sub("", _NOT_PROSE.sub("", page.read_text("utf-8")))
    loose = {re.sub(r"\s", " ", match[0]) for match in _AMOUNT.finditer(text)}
    assert loose <= NOT_MEASURED.get(page.name, set()), "mark them: see scripts/recorded_numbers.py"


def test_some_numbers_are_marked() -> None:
    assert sum(len(MARK.findall(page.read_text("utf-8"))) for page in PAGES) > 10


@pytest.mark.parametrize(
    ("way", "message"),
    [
        ("gone.json > bars", "there is no such record"),
        ("batch.json > bars > no such bar", "the record has no 'no such bar' there"),
        ("batch.json > machine", "not at a number"),
    ],
)
def test_a_mark_that_leads_nowhere_is_an_error(way: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        figure(way)


def test_the_page_of_benchmarks_shows_the_committed_records() -> None:
    assert benchmark_page.PAGE.read_text("utf-8") == benchmark_page.page(), "run `make docs-benchmarks`"
    images = ROOT / "docs" / "images"
    drawn = benchmark_page.pictures()
    assert {file.name for file in images.glob("bench-*.svg")} == set(drawn)
    assert [name for name, text in drawn.items() if (images / name).read_text("utf-8") != text] == []


def test_every_record_with_bars_is_on_the_page() -> None:
    text = benchmark_page.page()
    names = {record.name for record in benchmark_page.records()}
    assert {"batch", "core", "harm", "stream", "locality"} <= names
    assert [name for name in names if f"benchmarks/results/{name}.json" not in text] == []
