"""Every Python block of the README and the docs runs; the blocks of a page share their names, in order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.cases import mostly_thorough
from tests.docs.given import names
from tests.docs.pages import PAGES, blocks, name
from tests.docs.running import run

# recipes and notebooks have tests of their own
WITH_PYTHON = [
    page
    for page in PAGES
    if page.name != "recipes.md"
    and page.parent.name != "tutorials"
    and any(block.language == "python" for block in blocks(page))
]
QUICK = [
    page
    for page in WITH_PYTHON
    if page.name in ("README.md", "quickstart.md") or page.name.startswith("hot-keys")
]


@pytest.fixture
def no_query_is_left(spark: SparkSession) -> Iterator[None]:
    """Stop the queries that a page leaves running."""
    yield
    for query in spark.streams.active:
        query.stop()


@pytest.mark.usefixtures("no_query_is_left")
@pytest.mark.parametrize("page", mostly_thorough(WITH_PYTHON, QUICK), ids=name)
def test_a_page_runs(
    page: Path, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    space = names(spark, tmp_path / "data")
    for block in blocks(page):
        if block.language == "python" and block.reason is None:
            run(block, page, space, tmp_path)


def test_few_blocks_are_left_out_and_each_says_why() -> None:
    left_out = [block for page in PAGES for block in blocks(page) if block.reason is not None]
    assert len(left_out) <= 3
