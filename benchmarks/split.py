"""`make bench-split`: hot keys split in joins, windows and aggregates, against every other way, side by side.

`python -m benchmarks.split [joins] [windows] [aggregates] [real] [wait] [--scale S] [--turns N]` runs all parts, or
those named. Times on 16 and 64 cores are modelled from the measured times of all tasks (`split_tasks.py` says how),
those on two cores are measured. Each case is saved when it ends, with the commit that ran it: a stopped run continues;
`--again` begins anew. At another scale than 1 nothing is judged or recorded: the figures go to `build`.
"""

from __future__ import annotations

import argparse
import importlib
import json
from pathlib import Path
from typing import Any

from benchmarks.bars import RESULTS, Bar, finish
from benchmarks.split_runs import limit_memory, say
from research.papers.provenance import commit

PARTS = ("joins", "windows", "aggregates", "real", "wait")


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.split", description=__doc__.split("\n")[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)} (default: all)")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the rows of the full size")
    parser.add_argument("--turns", type=int, default=2, help="runs per contender; the shortest counts")
    parser.add_argument("--memory", help="memory of the Java process, such as 600m")
    parser.add_argument("--again", action="store_true", help="measure again what is in the record already")
    options = parser.parse_args()
    unknown = [part for part in options.parts if part not in PARTS]
    if unknown:
        parser.error(f"there is no part {unknown[0]!r}: choose from {', '.join(PARTS)}")
    if options.memory:
        limit_memory(options.memory)
    full = options.scale == 1.0 and not options.memory
    folder = RESULTS if full else Path("build")
    folder.mkdir(exist_ok=True)
    bars: list[Bar] = []
    for part in options.parts or PARTS:
        bars += _measure(part, folder / f"split-{part}.json", options, keep=full and not options.again)
    for bar in bars:
        print(bar.line())
    if full:
        finish("split", bars)


def _measure(part: str, path: Path, options: argparse.Namespace, *, keep: bool) -> list[Bar]:
    """Run the cases of a part that the record lacks, saving each; the bars of all."""
    module = importlib.import_module(f"benchmarks.split_{part}")
    record: dict[str, Any] = json.loads(path.read_text("utf-8")) if keep and path.exists() else {}
    for name, figures in module.run(options.scale, options.turns, record):
        record[name] = {"commit": commit(), "figures": figures}
        say(name, figures)
        path.write_text(json.dumps(record, indent=1, default=float) + "\n", "utf-8")
    bars: list[Bar] = module.bars({name: each["figures"] for name, each in record.items()})
    return bars


if __name__ == "__main__":
    main()
