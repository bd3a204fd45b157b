"""One query per checkpoint: a second one is refused before it writes anything."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import uuid
from pathlib import Path
from typing import Any

from unskew.streaming.storage.folder import Folder

# the leases of this process by token, with the query once it runs: one checkpoint may have several addresses
_HELD: dict[str, Any] = {}
_GUARD = threading.Lock()


class Lease:
    """Records in the file `lease` of the checkpoint which process runs a query on it.

    Guards against two queries on one checkpoint: in one process, in two processes of one machine, on two machines.
    A dead process of this machine holds nothing, so a query that was killed can be restarted at once. Whether a
    process of another machine is dead cannot be determined: then the file has to be removed by hand, and the
    error explains how.
    """

    def __init__(self, checkpoint: str) -> None:
        self._folder = Folder(f"{checkpoint.rstrip('/')}/unskew")
        self._token = uuid.uuid4().hex

    def take(self) -> Lease:
        """Hold the checkpoint, or raise a ValueError that names the process that holds it."""
        address = self._folder.address
        with _GUARD:
            holder = self.holder()
            if holder is not None:
                raise ValueError(
                    f"{address}: {_process(holder)} is already running a query on this checkpoint: "
                    f"{_remedy(holder, address)}"
                )
            _HELD[self._token] = None
            content = {
                "host": socket.gethostname(),
                "pid": os.getpid(),
                "born": _born(os.getpid()),
                "token": self._token,
            }
            try:
                is_ours = self._write(json.dumps(content).encode())
            except BaseException:
                del _HELD[self._token]
                raise
            if not is_ours:  # another process wrote it at the same moment
                del _HELD[self._token]
                raise ValueError(f"{address}: another query is starting on this checkpoint right now")
        return self

    def _write(self, data: bytes) -> bool:
        """Write the file; False if another process was faster."""
        if self._folder.find("lease") is not None:
            self._folder.write("lease", data)  # over the lease of a dead process
        elif not self._folder.create("lease", data):
            return False
        return self._folder.find("lease") == data

    def run(self, query: Any) -> None:
        """Hold the checkpoint as long as this query is active."""
        with _GUARD:
            _HELD[self._token] = query

    def release(self) -> None:
        """Release the checkpoint, if this lease holds it."""
        with _GUARD:
            if self._token in _HELD:
                del _HELD[self._token]
                # a lease whose token no process holds is ignored anyway: do not hide the error that ended the query
                with contextlib.suppress(OSError):
                    self._folder.delete("lease")

    def holder(self) -> dict[str, Any] | None:
        """The process that runs a query on the checkpoint (`host`, `pid`), as far as this machine can tell, or None."""
        data = self._folder.find("lease")
        if data is None:
            return None
        try:
            content = json.loads(data)
        except ValueError:
            return None  # half a lease is ignored
        if not isinstance(content, dict):
            return None
        if content.get("host") != socket.gethostname():
            return content
        if content.get("pid") == os.getpid():
            token = str(content.get("token"))
            query = _HELD.get(token)
            has_ended = query is not None and not query.isActive
            return content if token in _HELD and not has_ended else None
        is_alive = content.get("born") is not None and _born(int(content["pid"])) == content["born"]
        return content if is_alive else None


def _process(holder: dict[str, Any]) -> str:
    is_here = holder.get("host") == socket.gethostname()
    return f"process {holder.get('pid')}" + ("" if is_here else f" on {holder.get('host')}")


def _remedy(holder: dict[str, Any], address: str) -> str:
    if holder.get("host") == socket.gethostname():
        return "stop that query first"
    return f"stop it, or if it is dead, remove {address}/lease"


def _born(pid: int) -> str | None:
    """When a process of this machine started, as its kernel counts; None if there is no such process."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        # a zombie is dead, though its parent has not noticed yet
        return None if fields[0] in "ZX" else fields[19]
    except (OSError, IndexError):
        pass
    if Path("/proc/self/stat").exists():
        return None
    try:  # no /proc on this system: the process id alone must do
        os.kill(pid, 0)
    except OSError:
        return None
    return "unknown"
