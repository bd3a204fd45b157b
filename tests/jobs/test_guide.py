"""The guide and the settings agree: every setting is in its table, and its job files are sound."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from unskew import Budget, LoadRange, Policy, Utilisation
from unskew.jobs.job import Job, SparkSettings, parse_job
from unskew.jobs.operator import OperatorSettings
from unskew.jobs.placement import PlacementSettings
from unskew.jobs.settings import settings_of
from unskew.jobs.sink import SinkSettings
from unskew.jobs.source import SourceSettings
from unskew.jobs.toml import parsed
from unskew.streaming.operators.aggregates import AGGREGATES

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "run.md").read_text("utf-8")
TABLES = {
    "source": SourceSettings,
    "operator": OperatorSettings,
    "sink": SinkSettings,
    "plan": PlacementSettings,
    "spark": SparkSettings,
}


def test_every_setting_is_listed() -> None:
    listed = {
        name for row in re.findall(r"^\| (`.+?) \|", GUIDE, re.M) for name in re.findall("`(.+?)`", row)
    }
    settings = {f"[{table}] {name}" for table, cls in TABLES.items() for name in settings_of(cls)}
    settings |= {
        name
        for name in settings_of(Job)
        if name not in TABLES and name not in ("policy", "budget", "scaling")
    }
    assert listed == settings | {"[policy]", "[budget]", "[scaling]"}


@pytest.mark.parametrize(
    ("row", "names"),
    [
        ("[policy]", [field.name for field in fields(Policy)]),
        ("[budget]", [field.name for field in fields(Budget)]),
        ("[scaling]", [field.name for cls in (LoadRange, Utilisation) for field in fields(cls)]),
        ("[operator] aggregates", list(AGGREGATES)),
    ],
)
def test_every_figure_is_listed(row: str, names: list[str]) -> None:
    line = next(line for line in GUIDE.splitlines() if line.startswith(f"| `{row}`"))
    assert [name for name in names if f"`{name}" not in line] == []


@pytest.mark.parametrize("text", re.findall(r"```toml\n(.+?)```", GUIDE, re.S))
def test_the_job_files_of_the_guide_are_sound(text: str) -> None:
    assert parse_job(parsed(text)).operator


@pytest.mark.parametrize(
    "file", sorted((ROOT / "examples" / "jobs").glob("*.toml")), ids=lambda file: file.name
)
def test_the_example_jobs_are_sound(file: Path) -> None:
    assert parse_job(parsed(file.read_text("utf-8"))).operator
