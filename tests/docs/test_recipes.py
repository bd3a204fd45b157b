"""Every recipe runs alone, its commands included, and has the rows of the plain Spark that it starts from."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from typer.testing import CliRunner

from tests.cases import mostly_thorough
from tests.docs.given import names
from tests.docs.pages import ROOT, Block, blocks
from tests.docs.running import run
from tests.eventlog.logs import REAL
from unskew.cli import app

PAGE = ROOT / "docs" / "recipes.md"
QUICK = (
    "A join with one hot key",
    "Aggregates per key",
    "Which stage of a finished job was slow, and why?",
    "A job in a file",
)


@dataclass(frozen=True)
class Recipe:
    """A section of the page."""

    title: str
    blocks: tuple[Block, ...]


def recipes() -> Iterator[Recipe]:
    """The sections of the page, each with its blocks."""
    text = PAGE.read_text("utf-8")
    titles = [
        (text.count("\n", 0, match.start()) + 1, match[1]) for match in re.finditer(r"^### (.+)$", text, re.M)
    ]
    ends = [line for line, _ in titles[1:]] + [text.count("\n") + 1]
    for (start, title), end in zip(titles, ends, strict=True):
        yield Recipe(title, tuple(block for block in blocks(PAGE) if start < block.line < end))


ALL = {recipe.title: recipe for recipe in recipes()}


@pytest.fixture(scope="module")
def data(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The folder that stands for /data, with what the page takes for granted."""
    folder = tmp_path_factory.mktemp("recipes")
    space = names(spark, folder / "data")
    (folder / "data" / "spark-events").mkdir()
    shutil.copy(REAL, folder / "data" / "spark-events" / "app-20260115-0001")
    return folder, space


@pytest.mark.parametrize("title", mostly_thorough(ALL, QUICK))
def test_a_recipe_runs_and_has_the_rows_of_plain_spark(
    title: str, spark: SparkSession, data: tuple[Path, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, given = data
    monkeypatch.chdir(folder)
    space = dict(given)
    try:
        for block in ALL[title].blocks:
            follow(block, space, folder)
    finally:
        for query in spark.streams.active:
            query.stop()
    assert ("before" in space) == ("after" in space)
    if "before" in space:
        assert space["after"].columns == space["before"].columns
        assert rows(space["after"]) == rows(space["before"])


def follow(block: Block, space: dict[str, Any], folder: Path) -> None:
    """Run a block of Python or commands; save a job file."""
    if block.language == "python":
        run(block, PAGE, space, folder)
    elif block.language == "toml":
        (folder / "job.toml").write_text(in_folder(block.text, folder), "utf-8")
    elif block.language == "sh":
        for line in block.text.splitlines():
            program, *words = shlex.split(in_folder(line, folder))
            assert program == "unskew"
            result = CliRunner().invoke(app, words)
            assert result.exit_code == 0, result.output
    else:
        raise AssertionError(f"line {block.line}: nothing runs a block of {block.language}")


def in_folder(text: str, folder: Path) -> str:
    """The text with /data moved into the test's folder."""
    return text.replace("/data/", f"{folder}/data/")


def rows(df: DataFrame) -> list[str]:
    """The rows in an order of their own; doubles without the last digits, which depend on the order of sums."""
    return sorted(repr([plain(value) for value in row]) for row in df.collect())


def plain(value: object) -> object:
    if isinstance(value, float) and isfinite(value):
        return float(f"{value:.9g}")
    return sorted(value) if isinstance(value, list) else value


def test_there_are_twenty_recipes_and_most_have_plain_spark_beside_them() -> None:
    compared = [
        recipe for recipe in ALL.values() if any("before = " in block.text for block in recipe.blocks)
    ]
    assert len(ALL) >= 20
    assert len(compared) >= 20
    assert all(recipe.blocks for recipe in ALL.values())
    assert set(QUICK) <= set(ALL)
