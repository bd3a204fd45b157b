"""Where saved files lie: plain paths, addresses that Arrow knows, and what is said where nothing can be reached."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest
from pyarrow import fs

import unskew
from unskew.core import addresses
from unskew.core.diagnosis import diagnose

HISTOGRAM = unskew.Histogram.from_counts({"a": 5, "b": 4, "c": 1}, buckets=16)
PLAN = unskew.plan(HISTOGRAM, slots=2)


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that Arrow shows as another file system, under every address with `://`."""
    folder = tmp_path / "bucket"
    folder.mkdir()
    arrow = fs.SubTreeFileSystem(str(folder), fs.LocalFileSystem())
    monkeypatch.setattr(addresses, "open_arrow", lambda address: (arrow, address.partition("://")[2]))
    return folder


@pytest.mark.parametrize("form", ["{}", "file:{}", "file://{}"])
def test_a_plan_is_saved_at_a_local_address(tmp_path: Path, form: str) -> None:
    address = form.format(tmp_path / "user.plan")
    PLAN.save(address)
    loaded = unskew.load(address)
    assert isinstance(loaded, unskew.Plan)
    assert loaded.table == PLAN.table
    assert [path.name for path in tmp_path.iterdir()] == ["user.plan"]


def test_everything_that_can_be_saved_goes_to_a_file_system_of_arrow(bucket: Path) -> None:
    pytest.importorskip("altair", reason="reports need unskew[cli]")
    PLAN.save("s3a://team/plans/user.plan")
    HISTOGRAM.save("s3a://team/user.histogram")
    PLAN.table.save("s3a://team/user.table")
    page = unskew.write_report(diagnose(HISTOGRAM, 2), "s3a://team/report.html")
    assert page == "s3a://team/report.html"
    loaded = unskew.load("s3a://team/plans/user.plan")
    assert isinstance(loaded, unskew.Plan)
    assert loaded.table == PLAN.table
    assert unskew.Histogram.load("s3a://team/user.histogram").total == 10
    assert unskew.RoutingTable.load("s3a://team/user.table") == PLAN.table
    assert (bucket / "team" / "report.html").read_text().startswith("<!DOCTYPE html>")
    assert not list(bucket.rglob(".unskew-*"))


def test_a_file_is_replaced_as_a_whole(bucket: Path) -> None:
    addresses.write("gs://b/x", b"long content")
    addresses.write("gs://b/x", b"short")
    assert addresses.read("gs://b/x") == b"short"


def test_hadoops_names_for_s3_are_arrows(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = []

    class Arrow:
        @staticmethod
        def from_uri(uri: str) -> tuple[None, str]:
            opened.append(uri)
            return None, uri

    monkeypatch.setattr(addresses.fs, "FileSystem", Arrow)
    for address in ("s3://b/x", "s3a://b/x", "s3n://b/x", "gs://b/x", "abfs://b/x", "hdfs://h/x"):
        addresses.open_arrow(address)
    assert opened == ["s3://b/x", "s3://b/x", "s3://b/x", "gs://b/x", "abfs://b/x", "hdfs://h/x"]


def test_databricks_paths_are_the_mounted_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    assert addresses.local_path("dbfs:/plans/x") is None
    monkeypatch.setattr(Path, "is_dir", lambda path: str(path) in ("/dbfs", "/Volumes"))
    assert addresses.local_path("dbfs:/plans/x") == Path("/dbfs/plans/x")
    assert addresses.local_path("dbfs:/Volumes/main/x") == Path("/Volumes/main/x")


def test_what_looks_like_a_path_is_a_path() -> None:
    for text in ("user.plan", "/data/user.plan", "a:b.plan", r"C:\plans\x", "C:/plans/x"):
        assert addresses.local_path(text) == Path(text)


def test_a_missing_file_is_named(bucket: Path, tmp_path: Path) -> None:
    for address in ("s3a://b/x", str(tmp_path / "x"), f"file://{tmp_path}/x"):
        name = address.removeprefix("file://")
        with pytest.raises(FileNotFoundError, match=f"^{name}: there is no such file: check the address"):
            unskew.load(address)


def test_what_cannot_be_read_or_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(ValueError, match=r"cannot be read .Is a directory.: check the address"):
        unskew.load(tmp_path)
    with pytest.raises(ValueError, match=r"cannot be read .Not a directory."):
        unskew.load(tmp_path / "file" / "plan")
    with pytest.raises(ValueError, match=r"cannot be written .Is a directory.: choose another"):
        PLAN.save(tmp_path)
    with pytest.raises(ValueError, match=r"cannot be written .Not a directory."):
        PLAN.save(tmp_path / "file" / "plan")
    with pytest.raises(FileNotFoundError, match=f"there is no folder {tmp_path}/nowhere: create it first"):
        PLAN.save(tmp_path / "nowhere" / "plan")
    with pytest.raises(ValueError, match="an address as a Path has lost a slash: pass it as text"):
        PLAN.save(Path("s3a://b/x"))


def test_a_page_is_no_plan(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("<!doctype html><html></html>")
    with pytest.raises(ValueError, match="not a file of unskew"):
        unskew.load(tmp_path / "x")


def test_an_unknown_file_system_without_spark() -> None:
    """In a process of its own: here a session may be active."""
    code = "import unskew; unskew.load('foo://host/x')"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    last = result.stderr.splitlines()[-1]
    assert last.startswith("ValueError: foo://host/x: Arrow cannot reach it (")
    assert "no Spark session is active" in last


def test_updates_of_a_local_file_are_never_lost(tmp_path: Path) -> None:
    path = tmp_path / "count"
    path.write_bytes(b"0")

    def count() -> None:
        for _ in range(20):
            addresses.update(path, lambda data: str(int(data or b"0") + 1).encode())

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert path.read_bytes() == b"80"


def test_updates_by_several_processes_are_never_lost(tmp_path: Path) -> None:
    path = tmp_path / "count"
    path.write_bytes(b"0")
    code = (
        "import sys; from unskew.core import addresses\n"
        "for _ in range(50): addresses.update(sys.argv[1], lambda data: str(int(data) + 1).encode())"
    )
    counters = [subprocess.Popen([sys.executable, "-c", code, str(path)]) for _ in range(3)]
    assert [counter.wait(120) for counter in counters] == [0, 0, 0]
    assert path.read_bytes() == b"150"


def test_an_update_that_changes_nothing_writes_nothing(tmp_path: Path) -> None:
    addresses.update(tmp_path / "x", lambda data: None)
    assert not (tmp_path / "x").exists()
