"""Bars: a measured number against its limit.

Every benchmark prints its bars with PASS or FALLS SHORT, writes them as JSON with the commit and the machine, and
exits with 1 if a bar falls short.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from research.papers.provenance import commit, machine

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Bar:
    """A measured number and its limit."""

    name: str
    measured: float
    limit: float
    at_least: bool = False
    unit: str = ""
    note: str = ""

    @property
    def passed(self) -> bool:
        """Whether the measured number meets the limit."""
        return self.measured >= self.limit if self.at_least else self.measured <= self.limit

    def line(self) -> str:
        """The bar in one line."""
        verdict = "PASS       " if self.passed else "FALLS SHORT"
        sign = "≥" if self.at_least else "≤"
        note = f"  ({self.note})" if self.note else ""
        return (
            f"{verdict}  {self.name}: {self.measured:.4g}{self.unit} {sign} {self.limit:.4g}{self.unit}{note}"
        )


def best_of(times: int, run: Callable[[], Any]) -> float:
    """The shortest of several runs, in milliseconds."""
    best = float("inf")
    for _ in range(times):
        started = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - started)
    return best * 1e3


def finish(name: str, bars: list[Bar], details: dict[str, Any] | None = None) -> None:
    """Write the JSON, print the verdict and exit with 1 if a bar falls short."""
    RESULTS.mkdir(exist_ok=True)
    stamp = {"commit": commit(), "machine": machine(), "when": time.strftime("%Y-%m-%d")}
    rows = [{**asdict(bar), "passed": bar.passed} for bar in bars]
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps({**stamp, "bars": rows, **(details or {})}, indent=1, default=float) + "\n")
    short = [bar for bar in bars if not bar.passed]
    print(f"\n{len(bars) - len(short)} of {len(bars)} bars pass; details in benchmarks/results/{path.name}")
    sys.exit(1 if short else 0)
