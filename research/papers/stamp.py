"""What a measurement was made with: the commit and the machine, without naming the machine."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path
from typing import Any


def commit() -> str:
    """The commit of this unskew, `-dirty` if it was changed since; "unknown" outside its git tree."""
    here = Path(__file__)
    # an installed copy may lie in a git tree of somebody else's, which does not track it
    tracked = _git("ls-files", "--error-unmatch", here.name, folder=here.parent)
    return _git("describe", "--always", "--dirty", folder=here.parent) if tracked else "unknown"


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
    """What git prints; nothing where there is no git or it fails."""
    try:
        done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
