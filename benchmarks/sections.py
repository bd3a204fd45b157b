"""A benchmark in sections, each in its own process, since it needs its own Spark."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from benchmarks.bars import RESULTS, Bar, finish
from research.papers.provenance import commit


def run(benchmark: str, sections: Mapping[str, str]) -> None:
    """Run the sections named on the command line (default: all) and judge everything measured so far.

    `sections` maps the name of a section to the module that has the function of that name.
    """
    names = sys.argv[1:] or list(sections)
    for name in names:
        if name not in sections:
            sys.exit(f"there is no section {name!r}: choose from {', '.join(sections)}")
    for name in names:
        print(f"\n== {name}", flush=True)
        code = f"from benchmarks.{sections[name]} import {name}; {name}()"
        subprocess.run([sys.executable, "-c", code], check=True)
    bars: list[Bar] = []
    details: dict[str, Any] = {}
    commits: dict[str, str] = {}
    for name in sections:
        part = RESULTS / f"{benchmark}-{name}.json"
        if part.exists():
            saved = json.loads(part.read_text())
            bars += [Bar(**bar) for bar in saved["bars"]]
            details[name] = saved["details"]
            commits[name] = saved.get("commit", "unknown")
    finish(benchmark, bars, {"commits": commits, **details})


def save(benchmark: str, section: str, bars: list[Bar], details: Any) -> None:
    """Print the bars of a section, and save them with its details and the commit that measured them."""
    RESULTS.mkdir(exist_ok=True)
    for bar in bars:
        print(bar.line(), flush=True)
    part = {"commit": commit(), "bars": [asdict(bar) for bar in bars], "details": details}
    (RESULTS / f"{benchmark}-{section}.json").write_text(json.dumps(part, indent=1, default=float) + "\n")


def saved(benchmark: str, section: str) -> dict[str, Any]:
    """The details of a section that were saved before; none if it was never run."""
    part = RESULTS / f"{benchmark}-{section}.json"
    details: dict[str, Any] = json.loads(part.read_text())["details"] if part.exists() else {}
    return details
