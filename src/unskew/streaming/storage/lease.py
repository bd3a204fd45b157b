"""One query a checkpoint: the second is refused before it writes anything."""

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

_HELD: dict[str, tuple[str, Any]] = {}  # by address: the token, and the query once it runs
_GUARD = threading.Lock()


class Lock:
    """Says in the file `lock` of the checkpoint which process runs a query on it.

    Guards against two queries on one checkpoint, in one process, in two on one machine, and on two machines.
    A process of this machine that is dead holds nothing, so a query that was killed starts again at once. Of
    another machine nobody here can tell: then the file has to be removed by hand, and the error says so.
    """

    def __init__(self, checkpoint: str) -> None:
        self._folder = Folder(f"{checkpoint.rstrip('/')}/unskew")
        self._token = uuid.uuid4().hex

    def take(self) -> Lock:
        """Hold the checkpoint, or raise a ValueError that says who holds it."""
        with _GUARD:
            held = self.holder()
            if held is not None:
                here = held.get("host") == socket.gethostname()
                who = f"process {held.get('pid')}" + ("" if here else f" on {held.get('host')}")
                remedy = (
                    "stop that query first"
                    if here
                    else f"stop it, or if it is dead remove {self._folder.address}/lock"
                )
                raise ValueError(
                    f"{self._folder.address}: a query of {who} runs on this checkpoint: {remedy}"
                )
            _HELD[self._folder.address] = (self._token, None)
            about = {
                "host": socket.gethostname(),
                "pid": os.getpid(),
                "born": _born(os.getpid()),
                "token": self._token,
            }
            try:
                self._folder.write("lock", json.dumps(about).encode())
                won = json.loads(self._folder.read("lock")).get("token") == self._token
            except BaseException:
                del _HELD[self._folder.address]
                raise
            if not won:  # another process wrote it at the same moment
                del _HELD[self._folder.address]
                raise ValueError(f"{self._folder.address}: another query starts on this checkpoint right now")
        return self

    def run(self, query: Any) -> None:
        """Hold it as long as this query is active."""
        with _GUARD:
            _HELD[self._folder.address] = (self._token, query)

    def release(self) -> None:
        """Let go, if it is held."""
        with _GUARD:
            if _HELD.get(self._folder.address, ("",))[0] == self._token:
                del _HELD[self._folder.address]
                # a lock whose token nobody holds is nobody's: what ended the query is worth more than this error
                with contextlib.suppress(OSError):
                    self._folder.delete("lock")

    def holder(self) -> dict[str, Any] | None:
        """Which process runs a query on the checkpoint (`host`, `pid`), as far as can be told from here, or None."""
        data = self._folder.find("lock")
        if data is None:
            return None
        try:
            about = json.loads(data)
        except ValueError:
            return None  # half a lock is nobody's
        if not isinstance(about, dict):
            return None
        if about.get("host") != socket.gethostname():
            return about
        if about.get("pid") == os.getpid():
            token, query = _HELD.get(self._folder.address, ("", None))
            ended = query is not None and not query.isActive
            return about if token == about.get("token") and not ended else None
        alive = about.get("born") is not None and _born(int(about["pid"])) == about["born"]
        return about if alive else None


def _born(pid: int) -> str | None:
    """When a process of this machine started, as its kernel counts; None if there is no such process."""
    try:
        about = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return None if about[0] in "ZX" else about[19]  # dead, though its parent has not asked yet
    except (OSError, IndexError):
        pass
    if Path("/proc/self/stat").exists():
        return None
    try:  # no /proc here: the number alone must do
        os.kill(pid, 0)
    except OSError:
        return None
    return "unknown"
