"""One query per checkpoint: a second one is refused before it writes anything, and one that lost its lease stops."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from unskew.streaming.storage.folder import Folder
from unskew.streaming.storage.machine import born, is_this_machine, this_process

BEAT_SECONDS = 5.0
"""Seconds between two signs of life of a holder."""

LEASE_SECONDS = 30.0
"""Seconds without a sign of life after which a holder on another machine has lost its lease."""

KEPT_LEASES = 8
"""Leases before the newest whose files are kept, so that no slow process can take a number for the second time."""

# the leases of this process by token, with the query once it runs: one checkpoint may have several addresses
_HELD: dict[str, Any] = {}
_GUARD = threading.Lock()


class LeaseLostError(RuntimeError):
    """Another process holds the checkpoint now: this one must not publish anything more."""


@dataclass(frozen=True)
class Fence:
    """Lets the holder of a lease pass, and nobody else; `check` is called before and after a batch is published.

    A process that was suspended and wakes up after another one took over is stopped here. One that is suspended
    between its last check and Spark's commit of the batch is not: its state would then belong to another run of the
    batch than the turn, which the slots notice (`Turn.imports`).
    """

    address: str
    token: str

    def check(self) -> None:
        """Raise a LeaseLostError unless the lease is the newest."""
        folder = Folder(self.address)
        number = max(_numbers(folder), default=0)
        holder = _content(folder, f"leases/{number}")
        if holder is None or holder.get("released") or holder.get("token") != self.token:
            who = "nobody" if holder is None or holder.get("released") else _process(holder)
            raise LeaseLostError(
                f"{self.address}: this query lost its checkpoint, now held by {who}: it gave no sign of life for "
                f"{LEASE_SECONDS:.0f} s, or the files of leases were removed; it stops here and publishes nothing"
            )


class Lease:
    """Records in `leases/N` of the checkpoint which process runs a query on it; the largest N counts.

    Guards against two queries on one checkpoint: in one process, in two processes of one machine, on two machines.
    A lease is a new file that only one process can create, so of several that start at once one succeeds. (Arrow has
    no conditional put, so on an object store two may both get that far; the fence then stops all but the last.)

    A dead process of this machine holds nothing, so a query that was killed can be restarted at once. A process of
    another machine is dead if `leases/N-beat` has not changed for LEASE_SECONDS of this machine's clock; `take` waits
    for that long. If it was not dead after all, its fence stops it.
    """

    def __init__(self, checkpoint: str) -> None:
        self._folder = Folder(f"{checkpoint.rstrip('/')}/unskew")
        self._token = uuid.uuid4().hex
        self._number = 0
        self._ended = threading.Event()

    @property
    def fence(self) -> Fence:
        """What a batch must pass."""
        return Fence(self._folder.address, self._token)

    def take(self, wait: Callable[[float], Any] = time.sleep) -> Lease:
        """Hold the checkpoint, or raise a ValueError that names the process that holds it."""
        address = self._folder.address
        # listed first: who takes the checkpoint after this line takes the number that we try to take
        newest = max(_numbers(self._folder), default=0)
        holder = self.holder()
        if holder is not None and (is_this_machine(holder) or not self._is_silent(holder, newest, wait)):
            raise ValueError(
                f"{address}: {_process(holder)} is already running a query on this checkpoint: "
                f"{_remedy(holder, address)}"
            )
        self._number = newest + 1
        self.run(None)
        content = json.dumps({**this_process(), "token": self._token}).encode()
        is_ours = False
        try:
            is_ours = self._folder.create(f"leases/{self._number}", content)
            is_ours = is_ours and self._folder.find(f"leases/{self._number}") == content
        finally:
            if not is_ours:
                with _GUARD:
                    del _HELD[self._token]
        if not is_ours:  # another process took it at the same moment
            raise ValueError(
                f"{address}: another query is starting on this checkpoint right now: use another"
            )
        self._beat(0)
        threading.Thread(target=self._keep_beating, name="unskew-lease", daemon=True).start()
        with contextlib.suppress(OSError):
            self._folder.delete("lease")  # of an older unskew, whose process is dead
            for number in _numbers(self._folder):
                if number < self._number - KEPT_LEASES:
                    self._folder.delete(f"leases/{number}")
                    self._folder.delete(f"leases/{number}-beat")
        return self

    def run(self, query: Any) -> None:
        """Hold the checkpoint as long as this query is active."""
        with _GUARD:
            _HELD[self._token] = query

    def release(self) -> None:
        """Release the checkpoint, if this lease holds it."""
        self._ended.set()
        with _GUARD:
            if self._token in _HELD:
                del _HELD[self._token]
                # a lease whose token no process holds is ignored anyway: do not hide the error that ended the query
                with contextlib.suppress(OSError):
                    content = {"released": True, "token": self._token}
                    self._folder.write(f"leases/{self._number}", json.dumps(content).encode())
                    self._folder.delete(f"leases/{self._number}-beat")

    def holder(self) -> dict[str, Any] | None:
        """The process that runs a query on the checkpoint (`host`, `pid`), as far as this machine can tell, or None."""
        number = max(_numbers(self._folder), default=0)
        content = _content(self._folder, f"leases/{number}" if number else "lease")
        if content is None or content.get("released"):
            return None
        if not is_this_machine(content):
            return content
        if content.get("pid") == os.getpid():
            token = str(content.get("token"))
            query = _HELD.get(token)
            has_ended = query is not None and not query.isActive
            return content if token in _HELD and not has_ended else None
        is_alive = content.get("born") is not None and born(int(content["pid"])) == content["born"]
        return content if is_alive else None

    def _is_silent(self, holder: dict[str, Any], number: int, wait: Callable[[float], Any]) -> bool:
        """Whether a holder on another machine gives no sign of life for as long as a lease lasts."""
        if not number:
            return False  # an older unskew gives none, dead or alive
        name = f"leases/{number}-beat"
        before, waited = self._folder.find(name), 0.0
        while waited < LEASE_SECONDS:
            wait(BEAT_SECONDS / 2)
            waited += BEAT_SECONDS / 2
            if not self._is_held(holder, number):
                return True
            beat = self._folder.find(name)
            if beat != before:
                # a release writes the lease, then deletes the beat: both may have happened since the lease was read
                return beat is None and not self._is_held(holder, number)
        return True

    def _is_held(self, holder: dict[str, Any], number: int) -> bool:
        """Whether that lease is still the holder's, and not released."""
        content = _content(self._folder, f"leases/{number}")
        return (
            content is not None
            and not content.get("released")
            and content.get("token") == holder.get("token")
        )

    def _keep_beating(self) -> None:
        count = 0
        while not self._ended.wait(BEAT_SECONDS):
            count += 1
            try:
                query = _HELD.get(self._token)
                if query is not None and not query.isActive:
                    self.release()
                    return
            except Exception:  # noqa: BLE001 Spark is gone, in whatever way it reports that
                return
            with contextlib.suppress(OSError):  # the next one may succeed
                self._beat(count)

    def _beat(self, count: int) -> None:
        self._folder.write(f"leases/{self._number}-beat", json.dumps({"beat": count}).encode())


def _numbers(folder: Folder) -> list[int]:
    return [int(name) for name in folder.names("leases") if name.isdigit()]


def _content(folder: Folder, name: str) -> dict[str, Any] | None:
    """A lease; None if there is none, or if it is not one."""
    try:
        content = json.loads(folder.find(name) or b"")
    except ValueError:
        return None
    return content if isinstance(content, dict) else None


def _process(holder: dict[str, Any]) -> str:
    where = "" if is_this_machine(holder) else f" on {holder.get('host')}"
    return f"process {holder.get('pid')}{where}"


def _remedy(holder: dict[str, Any], address: str) -> str:
    if is_this_machine(holder) or "machine" in holder:
        return "stop that query first"
    return f"stop it, or if it is dead, remove {address}/lease"
