"""Every Python block of the README and the docs runs; the blocks of a page share their names, in order."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.cases import mostly_thorough
from tests.docs.given import carry_out, names
from tests.docs.pages import PAGES, Block, blocks, name

WITH_PYTHON = [page for page in PAGES if any(block.language == "python" for block in blocks(page))]
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


def run(block: Block, page: Path, space: dict[str, Any], folder: Path) -> None:
    """Run a block with /data moved into the test's folder, and compute what it describes."""
    text = block.text.replace("/data/", f"{folder}/data/")
    before = dict(space)
    for statement in ast.parse("\n" * (block.line - 1) + text, name(page)).body:
        if isinstance(statement, ast.Expr):
            code = compile(ast.Expression(statement.value), name(page), "eval")
            carry_out(eval(code, space), folder)
        else:
            exec(compile(ast.Module([statement], []), name(page), "exec"), space)
    for key, value in space.items():
        if before.get(key) is not value:
            carry_out(value, folder)


def test_few_blocks_are_left_out_and_each_says_why() -> None:
    left_out = [block for page in PAGES for block in blocks(page) if block.reason is not None]
    assert len(left_out) <= 3
