"""The tables that are generated from the code say what the code says."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.aggregate_table import PAGES, rendered


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_page_lists_the_aggregates_of_the_registry(page: Path) -> None:
    assert page.read_text("utf-8") == rendered(page), "run `make docs-aggregates`"
