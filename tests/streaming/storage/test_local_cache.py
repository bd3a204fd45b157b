"""The local cache returns what was put, or nothing; damage to it costs only time."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pyarrow as pa
import pytest

from unskew.streaming.storage import local_cache
from unskew.streaming.storage.local_cache import UNUSED_SECONDS, LocalCache

TABLE = pa.table({"id": [1, 2, 3], "text": ["a", None, "c"]})


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def runs(folder: Path) -> list[Path]:
    return sorted(folder.glob("*/*/*"))


def test_every_worker_of_a_query_gets_a_run_until_it_is_removed() -> None:
    LocalCache("here").put("run", TABLE)
    run = LocalCache("here").get("run")
    assert run is not None
    assert run.equals(TABLE)
    assert LocalCache("elsewhere").get("run") is None
    LocalCache("here").remove("run")
    assert LocalCache("here").get("run") is None
    assert run.equals(TABLE), "a run in use survives the removal of its file"


def test_a_damaged_run_is_not_found(folder: Path) -> None:
    cache = LocalCache("here")
    cache.put("run", TABLE)
    content = runs(folder)[0].read_bytes()
    for damaged in (b"", content[:10], content[:100], content[:-1]):
        runs(folder)[0].write_bytes(damaged)
        assert cache.get("run") is None


def test_an_altered_value_or_a_run_under_another_name_is_not_found(folder: Path) -> None:
    cache = LocalCache("here")
    cache.put("run", TABLE)
    path = runs(folder)[0]
    content = bytearray(path.read_bytes())
    at = content.index((3).to_bytes(8, "little"))  # the last id
    content[at] ^= 1
    path.write_bytes(content)
    assert cache.get("run") is None
    cache.put("run", TABLE)
    path.rename(path.with_name("other"))
    assert cache.get("other") is None


def test_a_folder_that_others_can_enter_is_not_used(folder: Path) -> None:
    theirs = folder / f"unskew-{os.getuid()}"
    theirs.mkdir()
    theirs.chmod(0o777)
    cache = LocalCache("here")
    cache.put("run", TABLE)
    cache.remove("run")
    cache.tidy()
    assert cache.get("run") is None
    assert list(theirs.iterdir()) == []


def test_a_link_in_its_place_is_not_followed(folder: Path) -> None:
    theirs = folder / "theirs"
    theirs.mkdir(mode=0o700)
    (folder / f"unskew-{os.getuid()}").symlink_to(theirs)
    LocalCache("here").put("run", TABLE)
    assert list(theirs.iterdir()) == []


def test_a_lost_folder_does_not_stop_the_query(folder: Path) -> None:
    cache = LocalCache("here")
    cache.put("run", TABLE)
    runs(folder)[0].unlink()
    runs_folder = next(folder.glob("*/*"))
    runs_folder.rmdir()
    cache.put("run", TABLE)
    assert cache.get("run") is None


def test_what_was_not_used_for_long_is_removed(folder: Path) -> None:
    cache = LocalCache("ended")
    for name in ("old", "used", "new"):
        cache.put(name, TABLE)
    for name in ("old", "used"):
        path = next(p for p in runs(folder) if p.name == name)
        past = path.stat().st_mtime - UNUSED_SECONDS - 60
        os.utime(path, (past, past))
    cache.get("used")
    LocalCache("other").tidy()
    assert [p.name for p in runs(folder)] == ["new", "used"]


def test_a_run_that_changed_after_it_was_checked_is_checked_again(folder: Path) -> None:
    cache = LocalCache("here")
    cache.put("run", TABLE)
    assert cache.get("run") is not None
    path = runs(folder)[0]
    content = bytearray(path.read_bytes())
    content[content.index((3).to_bytes(8, "little"))] ^= 1
    path.write_bytes(content)
    moment = path.stat().st_mtime + 1  # a write within the same tick of the clock would not show
    os.utime(path, (moment, moment))
    assert cache.get("run") is None


def test_a_run_is_checked_once_and_not_kept_after_its_removal_elsewhere(folder: Path) -> None:
    LocalCache("here").put("run", TABLE)
    first = LocalCache("here").get("run")
    assert LocalCache("here").get("run") is first, "mapped once per process"
    runs(folder)[0].unlink()  # as another worker of the query does
    assert LocalCache("here").get("run") is None
    assert not [path for path in local_cache._CHECKED if folder in path.parents]
