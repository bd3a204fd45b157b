"""A killed driver holds nothing, even before its parent has noticed; and a release never hides why a query ended."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.streaming.storage.test_lease import TAKE
from unskew.streaming.storage.folder import Folder
from unskew.streaming.storage.lease import Lease


def test_a_killed_process_whose_parent_has_not_noticed(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", TAKE, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        holder.kill()
        os.waitid(os.P_PID, holder.pid, os.WEXITED | os.WNOWAIT)  # it is dead, but remains a zombie
        Lease(str(tmp_path)).take().release()


def test_a_lease_whose_file_cannot_be_deleted_is_released_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = Lease(str(tmp_path)).take()
    with monkeypatch.context() as patched:

        def refuse(self: Folder, name: str, data: bytes) -> None:
            raise OSError("read-only file system")

        patched.setattr(Folder, "write", refuse)
        lease.release()
    Lease(str(tmp_path)).take().release()
