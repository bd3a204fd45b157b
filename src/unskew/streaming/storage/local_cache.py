"""Runs on the local disk of an executor, mapped into memory: no worker reads its state twice."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import time
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
import xxhash

UNUSED_SECONDS = 3600.0
"""Seconds after which an unused run is deleted: its query stopped, or runs elsewhere."""

USED_SECONDS = 600.0
"""Seconds after which a run that is still used is marked as such again."""

CHECKSUM = 16
"""Bytes of the checksum at the end of a file."""

_Identity: TypeAlias = tuple[int, int, int, int]
"""Tells whether a file was written to since: its inode, its size, and when it last changed in any way."""

_CHECKED: dict[Path, tuple[_Identity, pa.Table]] = {}
"""The runs that this process has mapped and checked. A worker lives for many batches, and most runs for many, too."""


class LocalCache:
    """The runs of one query on this machine, by name.

    Guards: a file is either whole or absent (written aside, then renamed), a run's name is never reused, and the file
    ends with a checksum of its name and content, so `get` returns what was written. A process checks a file when it
    first maps it, and again if the file has changed since: checking takes about 0.1 ms per MB, which a batch that
    touches few keys of much state would notice. Losing the folder, or having no space for it, costs only time.
    """

    def __init__(self, checkpoint: str) -> None:
        name = hashlib.sha256(checkpoint.encode()).hexdigest()[:16]
        self._folder = Path(tempfile.gettempdir()) / f"unskew-{os.getuid()}" / name
        self._usable = _own(self._folder.parent) and _own(self._folder)
        # what another process has removed must not stay on the disk because it is mapped here
        for path in [path for path in _CHECKED if not path.exists()]:
            del _CHECKED[path]

    def get(self, run: str) -> pa.Table | None:
        """The run, if it is cached here."""
        if not self._usable:
            return None
        path = self._folder / run
        try:
            identity = _identity(path)
            checked = _CHECKED.get(path)
            if checked is not None and checked[0] == identity:
                return checked[1]
            with pa.memory_map(str(path)) as source:
                content = source.read_buffer()
            data, checksum = (
                content.slice(0, max(0, content.size - CHECKSUM)),
                content.slice(max(0, content.size - CHECKSUM)),
            )
            if content.size <= CHECKSUM or checksum.to_pybytes() != _checksum(run, data):
                return None
            table = pa.ipc.open_file(data).read_all()
            _CHECKED[path] = (identity, table)
            return table
        except (OSError, pa.ArrowInvalid):
            return None

    def put(self, run: str, table: pa.Table) -> None:
        """Store a run."""
        if not self._usable:
            return
        temporary = self._folder / f".{run}-{os.getpid()}"
        try:
            with pa.OSFile(str(temporary), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
                writer.write_table(table)
            with pa.memory_map(str(temporary)) as source:
                checksum = _checksum(run, source.read_buffer())
            with temporary.open("ab") as file:
                file.write(checksum)
            temporary.rename(self._folder / run)
        except OSError:
            with contextlib.suppress(OSError):
                temporary.unlink()

    def remove(self, run: str) -> None:
        """Delete a run."""
        if self._usable:
            _CHECKED.pop(self._folder / run, None)
            with contextlib.suppress(OSError):
                (self._folder / run).unlink()

    def tidy(self) -> None:
        """Delete what queries that ended left behind."""
        if not self._usable:
            return
        for path in self._folder.parent.glob("*/*"):
            with contextlib.suppress(OSError):
                if time.time() - path.stat().st_mtime > UNUSED_SECONDS:
                    path.unlink()


def _identity(path: Path) -> _Identity:
    """The identity of a file that is about to be used; OSError if there is none."""
    stat = path.stat()
    if time.time() - stat.st_mtime > USED_SECONDS:
        os.utime(path)
        stat = path.stat()
    return stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns


def _checksum(run: str, data: pa.Buffer) -> bytes:
    checksum = xxhash.xxh3_128(run.encode())
    checksum.update(memoryview(data))
    return checksum.digest()


def _own(folder: Path) -> bool:
    """Create the folder for this user alone; False if another user can enter it."""
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        stat = folder.lstat()
    except OSError:
        return False
    return stat.st_uid == os.getuid() and not folder.is_symlink() and stat.st_mode & 0o077 == 0
