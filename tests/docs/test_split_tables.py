"""The tables of split hot keys are those of the committed records."""

from __future__ import annotations

import pytest

from benchmarks.split_docs import DOCS, PAGES, rendered


@pytest.mark.parametrize("part", PAGES)
def test_the_page_shows_the_record(part: str) -> None:
    assert (DOCS / PAGES[part]).read_text("utf-8") == rendered(part), "run `make docs-split`"
