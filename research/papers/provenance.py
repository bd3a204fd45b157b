"""The commit and the machine that a measurement comes from, without the machine's name."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path
from typing import Any

CODE = ("src", "research", "requirements.lock")
"""What a measurement depends on; records that a run has just written do not make the next one dirty."""


def commit() -> str:
    """The commit of this unskew, with `-dirty` if its code has changed since; "unknown" outside its git tree."""
    module = Path(__file__)
    # a copy of this file may lie in an unrelated git tree, which does not track it
    if not _git("ls-files", "--error-unmatch", module.name, folder=module.parent):
        return "unknown"
    name = _git("describe", "--always", folder=module.parent)
    changed = _git("status", "--porcelain", "--", *CODE, folder=module.parents[2])
    return f"{name}-dirty" if changed else name


def machine() -> dict[str, Any]:
    """Processor, cores, system and Python."""
    model = platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        model = names[0].split(":", 1)[1].strip() if names else model
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }


def _git(*arguments: str, folder: Path) -> str:
    """What git prints; an empty string if there is no git or it fails."""
    try:
        result = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    return result.stdout.strip() if result.returncode == 0 else ""
