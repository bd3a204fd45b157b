"""Files of a checkpoint are whole or absent."""

from __future__ import annotations

import pickle  # noqa: TID251  # as Spark ships them to its workers
from pathlib import Path

import pytest

from unskew.streaming.storage.folder import Folder


def test_files_are_read_back_listed_and_deleted(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path / "new"))
    assert folder.names("a") == []
    assert folder.find("a/b") is None
    folder.write("a/b", b"1")
    folder.write("a/b", b"2")
    folder.write("a/c/d", b"")
    assert (folder.read("a/b"), folder.find("a/c/d")) == (b"2", b"")
    assert folder.names("a") == ["b", "c"]
    folder.delete("a/c")
    folder.delete("a/b")
    folder.delete("a/never")
    assert folder.names("a") == []
    with pytest.raises(FileNotFoundError):
        folder.read("a/b")


@pytest.mark.parametrize("prefix", ["", "file:", "file://"])
def test_addresses_of_local_files(tmp_path: Path, prefix: str) -> None:
    folder = pickle.loads(pickle.dumps(Folder(f"{prefix}{tmp_path}")))
    folder.write("x", b"y")
    assert (tmp_path / "x").read_bytes() == b"y"


def test_a_write_that_fails_leaves_nothing(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path))
    (tmp_path / "taken" / "by" / "a folder").mkdir(parents=True)
    with pytest.raises(OSError, match="taken"):
        folder.write("taken", b"x")
    assert [p.name for p in tmp_path.iterdir()] == ["taken"]


def test_half_written_files_are_not_listed(tmp_path: Path) -> None:
    (tmp_path / ".0123.tmp").write_bytes(b"half")
    assert Folder(str(tmp_path)).names("") == []
