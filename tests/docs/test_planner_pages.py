from pathlib import Path

import pytest

from scripts.planner_docs import PAGES, rendered


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_page_lists_the_planners_as_they_are_declared(page: Path) -> None:
    assert page.read_text("utf-8") == rendered(page), "run `make docs-planners`"
