"""Which process is this, and is another process of this machine still alive?"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any


def this_process() -> dict[str, Any]:
    """What tells this process from all others."""
    pid = os.getpid()
    return {"host": socket.gethostname(), "machine": machine(), "pid": pid, "born": born(pid)}


def is_this_machine(process: Mapping[str, Any]) -> bool:
    """Whether a process, as `this_process` described it, runs or ran where this one can see whether it lives."""
    if process.get("host") != socket.gethostname():
        return False
    return bool(process.get("machine", machine()) == machine())


@cache
def machine() -> str:
    """Tells apart machines, and containers on one machine, that have the same name; it changes with each boot."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return "unknown"


def born(pid: int) -> str | None:
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
