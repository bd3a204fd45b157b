"""Runs on the local disk of an executor, mapped into memory: no worker reads its state twice."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import time
from pathlib import Path

import pyarrow as pa

UNUSED_SECONDS = 3600.0
"""Seconds after which an unused run is deleted: its query stopped, or runs elsewhere."""


class LocalCache:
    """The runs of one query on this machine, by name.

    Guards: a file is either whole or absent (written aside, then renamed), and a run's name is never reused, so
    `get` returns what was written. Losing the folder, or having no space for it, costs only time.
    """

    def __init__(self, checkpoint: str) -> None:
        name = hashlib.sha256(checkpoint.encode()).hexdigest()[:16]
        self._folder = Path(tempfile.gettempdir()) / f"unskew-{os.getuid()}" / name
        self._usable = _own(self._folder.parent) and _own(self._folder)

    def get(self, run: str) -> pa.Table | None:
        """The run, if it is cached here."""
        if not self._usable:
            return None
        path = self._folder / run
        try:
            os.utime(path)
            with pa.memory_map(str(path)) as source:
                return pa.ipc.open_file(source).read_all()
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
            temporary.rename(self._folder / run)
        except OSError:
            with contextlib.suppress(OSError):
                temporary.unlink()

    def remove(self, run: str) -> None:
        """Delete a run."""
        if self._usable:
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


def _own(folder: Path) -> bool:
    """Create the folder for this user alone; False if another user can enter it."""
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        stat = folder.lstat()
    except OSError:
        return False
    return stat.st_uid == os.getuid() and not folder.is_symlink() and stat.st_mode & 0o077 == 0
