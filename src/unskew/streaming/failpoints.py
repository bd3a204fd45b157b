"""Named places where a test makes the process die or a write fail; in production each is one look at a dict."""

from __future__ import annotations

import errno
import os
import signal
import time
from pathlib import Path

NAMES = (
    "begun",  # a new checkpoint says what its operator is, but has no turn yet
    "packed",  # a map task has packed its records
    "imported",  # a slot has read its handoffs, nothing is stored yet
    "handled",  # a slot has handled its records
    "exported",  # a slot has written its handoffs, but not its state
    "stored",  # a slot has put its state, but not acknowledged
    "acknowledged",  # a slot has acknowledged, but its task has not ended
    "sink",  # before the user's sink
    "written",  # the sink is done, nothing is published
    "planned",  # the next turn is made, but not published
    "published",  # the next turn is published, the journal is not written
    "journaled",  # all is written, Spark has not committed the batch
)

VARIABLE = "UNSKEW_FAILPOINT"
"""`name@batch=what`, several joined by commas; `what` is kill (the process `UNSKEW_VICTIM`, by SIGKILL), die
(this process), executor (the JVM that this Python worker serves), raise, full (as if the disk were), or dawdle
(take long, then go on). Each happens once: the folder `UNSKEW_FAILED` remembers it across restarts."""

DAWDLE = 4.0
"""Seconds."""


def failpoint(name: str, batch: int) -> None:
    """Fail here if the environment says so."""
    wanted = os.environ.get(VARIABLE)
    if not wanted:
        return
    for one in wanted.split(","):
        where, _, what = one.partition("=")
        if where in (f"{name}@{batch}", f"{name}@any") and _first(one):
            _fail(what, where)


def _first(one: str) -> bool:
    try:
        (Path(os.environ["UNSKEW_FAILED"]) / one).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def _fail(what: str, where: str) -> None:
    if what == "kill":
        os.kill(int(os.environ["UNSKEW_VICTIM"]), signal.SIGKILL)
        time.sleep(60)  # it dies, and this process with it
    if what == "executor":  # parent of the daemon that forked this worker
        daemon = Path(f"/proc/{os.getppid()}/stat").read_text()
        os.kill(int(daemon.rpartition(")")[2].split()[1]), signal.SIGKILL)
        time.sleep(60)
    if what == "dawdle":
        time.sleep(DAWDLE)
        return
    if what == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if what == "full":
        raise OSError(errno.ENOSPC, f"no space left (failpoint {where})")
    raise RuntimeError(f"failpoint {where}")
