"""Named places where a test makes the process die or a write fail; in production each costs one dict look-up."""

from __future__ import annotations

import errno
import os
import signal
import time
from pathlib import Path

NAMES = (
    "begun",  # a new checkpoint has its operator file, but no turn yet
    "packed",  # a map task has packed its records
    "imported",  # a slot has read its handoffs, nothing is stored yet
    "handled",  # a slot has handled its records
    "exported",  # a slot has written its handoffs, but not its state
    "stored",  # a slot has stored its state, but not acknowledged
    "acknowledged",  # a slot has acknowledged, but its task has not ended
    "sink",  # before the user's sink
    "written",  # the sink is done, nothing is published
    "planned",  # the next turn is decided, but not published
    "published",  # the next turn is published, the journal is not written
    "journaled",  # everything is written, Spark has not committed the batch
)

VARIABLE = "UNSKEW_FAILPOINT"
"""`name@batch=what`, several joined by commas. `what` is kill (the process `UNSKEW_VICTIM`, by SIGKILL), die
(this process), executor (the JVM that this Python worker serves), raise, full (as if the disk were full), or dawdle
(sleep, then go on). Each happens once: the folder `UNSKEW_FAILED` remembers it across restarts."""

DAWDLE_SECONDS = 4.0


def failpoint(name: str, batch: int) -> None:
    """Fail here if the environment says so."""
    failures = os.environ.get(VARIABLE)
    if not failures:
        return
    for failure in failures.split(","):
        where, _, what = failure.partition("=")
        if where in (f"{name}@{batch}", f"{name}@any") and _is_first_time(failure):
            _fail(what, where)


def _is_first_time(failure: str) -> bool:
    try:
        (Path(os.environ["UNSKEW_FAILED"]) / failure).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def _fail(what: str, where: str) -> None:
    if what == "kill":
        os.kill(int(os.environ["UNSKEW_VICTIM"]), signal.SIGKILL)
        time.sleep(60)  # it dies, and this process with it
    if what == "executor":  # the parent of the daemon that forked this worker
        daemon = Path(f"/proc/{os.getppid()}/stat").read_text()
        os.kill(int(daemon.rpartition(")")[2].split()[1]), signal.SIGKILL)
        time.sleep(60)
    if what == "dawdle":
        time.sleep(DAWDLE_SECONDS)
        return
    if what == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if what == "full":
        raise OSError(errno.ENOSPC, f"no space left (failpoint {where})")
    raise RuntimeError(f"failpoint {where}")
