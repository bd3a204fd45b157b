"""`make bench-batch`: the batch operators against stock Spark, side by side in one run.

Each section runs in a process of its own (it needs its own Spark) and may be run alone:
`python -m benchmarks.batch routing`. Warm-up runs are discarded, contenders take turns, answers are checked equal,
and times are medians. Measuring and planning count as part of unskew's time.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict
from typing import Any

from benchmarks.bars import RESULTS, Bar, finish

SECTIONS = {
    "routing": "batch_shuffle",
    "measure": "batch_shuffle",
    "cpu": "batch_cpu",
    "wait": "batch_wait",
    "text": "batch_cpu",
    "flights": "batch_cpu",
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
        part = RESULTS / f"batch-{name}.json"
        if part.exists():
            found = json.loads(part.read_text())
            bars += [Bar(**bar) for bar in found["bars"]]
            details[name] = found["details"]
    finish("batch", bars, details)


def save(section: str, bars: list[Bar], details: Any) -> None:
    """Keep what one section measured."""
    RESULTS.mkdir(exist_ok=True)
    for bar in bars:
        print(bar.line(), flush=True)
    part = {"bars": [asdict(bar) for bar in bars], "details": details}
    (RESULTS / f"batch-{section}.json").write_text(json.dumps(part, indent=1, default=float) + "\n")


if __name__ == "__main__":
    main()
