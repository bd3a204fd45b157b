"""Files that only Spark reaches, tried on local folders: Spark reads and writes all file systems alike."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import unskew
from tests.spark.frames import Frames
from unskew.core import addresses
from unskew.spark import address_files

pytestmark = pytest.mark.connect


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Local addresses as if only Spark reached them."""

    def unknown(address: str) -> None:
        raise ValueError(f"Unrecognized filesystem type in URI: {address}")

    monkeypatch.setattr(addresses, "local_path", lambda address: None)
    monkeypatch.setattr(addresses, "open_arrow", unknown)


def test_a_plan_goes_through_spark(frames: Frames, elsewhere: None, tmp_path: Path) -> None:
    address = f"file:{tmp_path}/a [plan]*"
    for kind in ("int", "string"):
        frames.plans[kind].save(address)
        loaded = unskew.load(address)
        assert isinstance(loaded, unskew.Plan)
        assert loaded.table == frames.plans[kind].table
    assert len(list(tmp_path.glob("*/part-*"))) == 1


def test_a_file_that_something_else_put_there(frames: Frames, elsewhere: None, tmp_path: Path) -> None:
    (tmp_path / "plan").write_bytes(frames.plans["string"].to_bytes())
    loaded = unskew.load(f"file:{tmp_path}/plan")
    assert isinstance(loaded, unskew.Plan)
    assert loaded.table == frames.plans["string"].table


def test_of_two_files_the_newer_one_counts(spark: SparkSession, tmp_path: Path) -> None:
    address = f"file:{tmp_path}/x"
    address_files.write(address, b"older", spark)
    (older,) = (tmp_path / "x").glob("part-*")
    content = older.read_bytes()
    address_files.write(address, b"newer", spark)
    import os

    late = tmp_path / "x" / "part-late.txt"
    late.write_bytes(content)
    os.utime(late, (0, 0))
    assert address_files.read(address, spark) == b"newer"


def test_a_page_stays_a_page(spark: SparkSession, tmp_path: Path) -> None:
    page = "<!doctype html>\n<p>Füße</p>\n".encode()
    address_files.write(f"file:{tmp_path}/page", page, spark)
    (part,) = (tmp_path / "page").glob("part-*")
    assert part.read_bytes().rstrip() == page.rstrip()
    assert address_files.read(f"file:{tmp_path}/page", spark).rstrip() == page.rstrip()


def test_what_is_not_there_or_not_a_plan(spark: SparkSession, elsewhere: None, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="x: there is no such file"):
        unskew.load(f"file:{tmp_path}/x")
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match="empty: there is no such file"):
        unskew.load(f"file:{tmp_path}/empty")
    (tmp_path / "page").write_text("<html></html>")
    with pytest.raises(ValueError, match="not a file of unskew"):
        unskew.load(f"file:{tmp_path}/page")


def test_a_file_system_that_spark_does_not_know(frames: Frames) -> None:
    with pytest.raises(ValueError, match=r"^foo://h/x: cannot be read by Spark .*foo.*; Arrow says: "):
        unskew.load("foo://h/x")
    with pytest.raises(
        ValueError, match=r"^foo://h/x: cannot be written by Spark .*foo.*; Arrow says: "
    ) as error:
        frames.plans["int"].save("foo://h/x")
    assert "\n" not in str(error.value)


def test_a_kept_plan_through_spark(frames: Frames, elsewhere: None, tmp_path: Path) -> None:
    kept = unskew.Kept(f"file:{tmp_path}/plan")
    for _ in range(2):
        unskew.groupBy(frames.left, "string", plan=kept, planner="keel").count().toArrow()
        kept.refresh()
    assert [review.decision for review in kept.journal()] == ["made", "kept"]
