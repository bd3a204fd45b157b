"""Runs on the local disk of an executor, mapped into memory: no worker reads its state twice."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import time
from pathlib import Path

import pyarrow as pa

FORGOTTEN = 3600.0
"""Seconds after which a run that nobody removed or used is dead: its query stopped or moved elsewhere."""


class LocalCache:
    """The runs of one query on this machine, by name.

    Guards: a file is either whole or absent (written aside, then renamed), and a run's name is never used
    twice, so what is found is what was written. Losing the folder, or having no room for it, costs time only.
    """

    def __init__(self, checkpoint: str) -> None:
        name = hashlib.sha256(checkpoint.encode()).hexdigest()[:16]
        self._folder = Path(tempfile.gettempdir()) / f"unskew-{os.getuid()}" / name
        self._usable = _own(self._folder.parent) and _own(self._folder)

    def get(self, run: str) -> pa.Table | None:
        """The run, if it is here."""
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
        """Keep a run."""
        if not self._usable:
            return
        aside = self._folder / f".{run}-{os.getpid()}"
        try:
            with pa.OSFile(str(aside), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
                writer.write_table(table)
            aside.rename(self._folder / run)
        except OSError:
            with contextlib.suppress(OSError):
                aside.unlink()

    def remove(self, run: str) -> None:
        """Forget a run."""
        if self._usable:
            with contextlib.suppress(OSError):
                (self._folder / run).unlink()

    def tidy(self) -> None:
        """Remove what a query that is gone left behind."""
        if not self._usable:
            return
        for path in self._folder.parent.glob("*/*"):
            with contextlib.suppress(OSError):
                if time.time() - path.stat().st_mtime > FORGOTTEN:
                    path.unlink()


def _own(folder: Path) -> bool:
    """Make the folder ours alone; false where another user has it."""
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        about = folder.lstat()
    except OSError:
        return False
    return about.st_uid == os.getuid() and not folder.is_symlink() and about.st_mode & 0o077 == 0
