"""The version of Spark is looked at in one package only."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest

import unskew
from unskew.spark.versions import running
from unskew.spark.versions.running import NEWEST, OLDEST, Version, version_of

ROOT = Path(unskew.__file__).parent
_CHECK = re.compile(
    r"pyspark\.__version__|version_of\(|has_[a-z_]+\b(?=.*Version)|spark\.version\b|\bVersion\("
)


def test_no_other_module_looks_at_the_version() -> None:
    """But for the commands that print it."""
    uses = {
        str(path.relative_to(ROOT)): path.read_text("utf-8")
        for path in ROOT.rglob("*.py")
        if "versions" not in path.relative_to(ROOT).parts and path.name not in ("doctor.py", "machine.py")
    }
    assert len(uses) > 100
    assert [name for name, text in uses.items() if _CHECK.search(text)] == []


class Session:
    """A session that has nothing but a version."""

    def __init__(self, version: str) -> None:
        self.version = version


@pytest.mark.parametrize(
    ("text", "expected"), [("3.5.9", (3, 5)), ("4.1.0-amzn-2", (4, 1)), ("4.10.0.dev1", (4, 10))]
)
def test_a_version_is_read(text: str, expected: tuple[int, int]) -> None:
    version = version_of(Session(text))  # type: ignore[arg-type]
    assert (version.major, version.minor) == expected


def test_an_old_spark_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"needs Spark 3\.5 or newer, and this session runs 3\.4"):
        version_of(Session("3.4.1"))  # type: ignore[arg-type]


def test_a_newer_spark_is_said_once_and_has_what_the_newest_has(caplog: pytest.LogCaptureFixture) -> None:
    running._say_unknown.cache_clear()
    with caplog.at_level(logging.WARNING, "unskew"):
        for _ in range(2):
            version = version_of(Session("9.9.0"))  # type: ignore[arg-type]
    assert [record.name for record in caplog.records] == ["unskew"]
    assert version.has_partition_ids
    assert not version.is_known


def test_what_is_supported() -> None:
    assert Version(*OLDEST).is_known
    assert Version(*NEWEST).is_known
