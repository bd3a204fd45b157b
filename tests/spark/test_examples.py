"""Every example runs, and agrees with the plain PySpark version that it starts from."""

from __future__ import annotations

import json
import re
from importlib import import_module
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from examples import refresh_story
from tests.cases import mostly_thorough

FOLDER = Path(__file__).parents[2] / "examples"
NAMES = [
    "crawl_rounds",
    "entity_windows",
    "fraud_scores",
    "regions_hashtags",
    "sessions",
    "word_count",
]


@pytest.mark.parametrize("name", mostly_thorough(NAMES, ("crawl_rounds", "sessions", "word_count")))
def test_an_example_agrees_with_plain_spark(
    spark: SparkSession, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    import_module(f"examples.{name}").main(spark)
    assert capsys.readouterr().out


def test_every_example_is_run_and_listed() -> None:
    files = {file.stem for file in FOLDER.glob("*.py")} - {"__init__", "local", "refresh_story"}
    assert files == set(NAMES)
    listed = set(re.findall(r"\((\w+)\.py\)", (FOLDER / "README.md").read_text()))
    assert listed == set(NAMES)


@pytest.mark.notebook
def test_the_story_runs_from_its_first_cell_to_its_last(spark: SparkSession) -> None:
    notebook = json.loads(refresh_story.STORY.read_text("utf-8"))
    outputs = refresh_story.run(notebook)
    assert [[output["output_type"] for output in cell] for cell in outputs] == [
        [output["output_type"] for output in cell["outputs"]] for cell in refresh_story.code_cells(notebook)
    ]
    assert "the same rows: True" in json.dumps(outputs)
