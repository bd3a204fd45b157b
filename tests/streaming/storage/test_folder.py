"""Files of a checkpoint are whole or absent."""

from __future__ import annotations

import errno
import os
import pickle  # noqa: TID251  # as Spark ships them to its workers
import threading
from concurrent.futures import ThreadPoolExecutor
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


def test_the_first_writer_of_a_created_file_wins(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path))
    assert folder.create("turns/1", b"first")
    assert not folder.create("turns/1", b"second")
    assert folder.read("turns/1") == b"first"
    assert [path.name for path in (tmp_path / "turns").iterdir()] == ["1"]


def test_of_writers_at_one_moment_exactly_one_creates_the_file(tmp_path: Path) -> None:
    writers = 8
    barrier = threading.Barrier(writers)

    def create(number: int, name: str) -> bool:
        barrier.wait()
        return Folder(str(tmp_path)).create(name, str(number).encode())

    with ThreadPoolExecutor(writers) as pool:
        for turn in range(50):
            won = list(pool.map(create, range(writers), [f"turns/{turn}"] * writers))
            assert won.count(True) == 1
            assert Folder(str(tmp_path)).read(f"turns/{turn}") == str(won.index(True)).encode()


def test_a_file_system_without_hard_links_still_creates_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(source: str, target: str) -> None:
        raise PermissionError(errno.EPERM, "no hard links", target)

    monkeypatch.setattr(os, "link", refuse)
    folder = Folder(str(tmp_path))
    assert folder.create("x", b"first")
    assert not folder.create("x", b"second")
    assert folder.read("x") == b"first"


@pytest.mark.parametrize("durable", [True, False])
def test_a_durable_file_is_on_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durable: bool
) -> None:
    events: list[str] = []
    monkeypatch.setattr(
        os, "fsync", lambda _: events.append("named" if (tmp_path / "x").exists() else "aside")
    )
    Folder(str(tmp_path)).write("x", b"1", durable=durable)
    # the file under its temporary name, then the folder that has the new name
    assert events == (["aside", "named"] if durable else [])


def test_half_written_files_are_not_listed(tmp_path: Path) -> None:
    (tmp_path / ".0123.tmp").write_bytes(b"half")
    assert Folder(str(tmp_path)).names("") == []


def test_a_folder_that_another_process_makes_and_removes_is_listed_or_empty(tmp_path: Path) -> None:
    folder, done = Folder(str(tmp_path)), threading.Event()

    def make_and_remove() -> None:
        while not done.is_set():
            (tmp_path / "leases").mkdir()
            (tmp_path / "leases").rmdir()

    with ThreadPoolExecutor(2) as pool:
        makers = pool.submit(make_and_remove)
        try:
            assert all(folder.names("leases") == [] for _ in range(20_000))
        finally:
            done.set()
        makers.result()
