"""`make bench-stream`: the live operator against Spark's own stateful operators, side by side in one run.

Each section runs in a process of its own and may be run alone: `python -m benchmarks.stream speed`. Times are medians
of the batches after a warm-up, as Spark reports them (`batchDuration`), and answers are checked.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict
from typing import Any

from benchmarks.bars import RESULTS, Bar, finish

SECTIONS = {
    "speed": "stream_speed",
    "large": "stream_speed",
    "moving": "stream_moving",
    "steady": "stream_moving",
    "balance": "stream_balance",
    "waiting": "stream_balance",
    "guo": "stream_balance",
}


def main() -> None:
    """Run the sections asked for (default: all) and judge everything measured so far."""
    wanted = sys.argv[1:] or list(SECTIONS)
    for name in wanted:
        if name not in SECTIONS:
            sys.exit(f"there is no section {name!r}: choose from {', '.join(SECTIONS)}")
    for name in wanted:
        print(f"\n== {name}", flush=True)
        code = f"from benchmarks.{SECTIONS[name]} import {name}; {name}()"
        subprocess.run([sys.executable, "-c", code], check=True)
    bars: list[Bar] = []
    details: dict[str, Any] = {}
    for name in SECTIONS:
        part = RESULTS / f"stream-{name}.json"
        if part.exists():
            found = json.loads(part.read_text())
            bars += [Bar(**bar) for bar in found["bars"]]
            details[name] = found["details"]
    finish("stream", bars, details)


def save(section: str, bars: list[Bar], details: Any) -> None:
    """Keep what one section measured."""
    RESULTS.mkdir(exist_ok=True)
    for bar in bars:
        print(bar.line(), flush=True)
    part = {"bars": [asdict(bar) for bar in bars], "details": details}
    (RESULTS / f"stream-{section}.json").write_text(json.dumps(part, indent=1, default=float) + "\n")


if __name__ == "__main__":
    main()
