"""Every example runs, and agrees with the plain PySpark version that it starts from."""

from __future__ import annotations

import json
import re
from importlib import import_module
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from examples import notebooks
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
    files = {file.stem for file in FOLDER.glob("*.py")} - {"__init__", "local", "notebooks"}
    assert files == set(NAMES)
    listed = set(re.findall(r"\((\w+)\.py\)", (FOLDER / "README.md").read_text()))
    assert listed == set(NAMES)


@pytest.mark.notebook
@pytest.mark.parametrize("name", notebooks.NAMES)
def test_a_notebook_runs_from_its_first_cell_to_its_last(name: str, spark: SparkSession) -> None:
    outputs = notebooks.run(name)
    assert [[output["output_type"] for output in cell] for cell in outputs] == [
        [output["output_type"] for output in cell["outputs"]]
        for cell in notebooks.code_cells(notebooks.read(name))
    ]
    assert "the same rows: True" in json.dumps(outputs) or name == "event_log"
    assert "the same rows: False" not in json.dumps(outputs)
    assert "data skew" in json.dumps(outputs) or name != "event_log"


def test_every_notebook_is_run_and_listed() -> None:
    assert sorted(file.stem for file in FOLDER.glob("*.ipynb")) == sorted(notebooks.NAMES)
    text = (FOLDER / "README.md").read_text("utf-8")
    assert [name for name in notebooks.NAMES if f"({name}.ipynb)" not in text] == []


@pytest.mark.parametrize("name", notebooks.NAMES)
def test_the_page_of_a_notebook_shows_it_as_it_was_saved(name: str) -> None:
    text, pictures = notebooks.page(name)
    assert (notebooks.PAGES / f"{name}.md").read_text("utf-8") == text, "run `python -m examples.notebooks`"
    assert pictures
    assert {file.name: file.read_bytes() for file in notebooks.PAGES.glob(f"{name}-*.png")} == pictures
