"""`make bench-split`: hot keys split in joins, windows and aggregates, against every other way, side by side.

`python -m benchmarks.split [joins] [windows] [aggregates] [--scale S] [--turns N]` runs all parts, or those named.
Times on 16 and 64 cores are modelled from the measured times of all tasks (`split_tasks.py` says how), those on two
cores are measured. At another scale than 1 nothing is judged or recorded: the figures go to `build/split.json`.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
from pathlib import Path
from typing import Any

from benchmarks.bars import Bar, finish

PARTS = ("joins", "windows", "aggregates")


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.split", description=__doc__.split("\n")[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)} (default: all)")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the rows of the full size")
    parser.add_argument("--turns", type=int, default=3, help="runs per contender; the shortest counts")
    options = parser.parse_args()
    unknown = [part for part in options.parts if part not in PARTS]
    if unknown:
        parser.error(f"there is no part {unknown[0]!r}: choose from {', '.join(PARTS)}")
    details: dict[str, Any] = {"scale": options.scale, "turns": options.turns}
    bars: list[Bar] = []
    for part in options.parts or PARTS:
        name = f"benchmarks.split_{part}"
        if importlib.util.find_spec(name) is None:
            continue
        details[part] = importlib.import_module(name).run(scale=options.scale, turns=options.turns)
        if part == "joins":
            bars += join_bars(details[part])
    for bar in bars:
        print(bar.line())
    if options.scale == 1.0:
        finish("split", bars, details)
    path = Path("build/split.json")
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(details, indent=1) + "\n", "utf-8")


def join_bars(cases: dict[str, Any]) -> list[Bar]:
    """What the figures of joins must meet."""
    bars = []
    for case, profiles in cases.items():
        few, many = profiles["two cores"], profiles["many partitions"]
        wrong = [
            name for profile in profiles.values() for name, each in profile.items() if not each["same_rows"]
        ]
        split = many["unskew split"]
        bars += [
            Bar(f"{case}: contenders with other rows", len(wrong), 0, note=", ".join(wrong)),
            Bar(f"{case}: largest task / mean by rows", split["largest_over_mean_rows"], 1.15),
            Bar(
                f"{case}: bytes / plain",
                split["shuffled_bytes"] / max(many["spark"]["shuffled_bytes"], 1),
                1.15,
            ),
            Bar(f"{case}: time on two cores / best", few["unskew"]["seconds"] / _best(few, "seconds"), 1.05),
        ]
        if any(f"{share}% hot" in case for share in (50, 90)):
            for cores in (16, 64):
                figure = f"modelled_{cores}_cores"
                bars += [
                    Bar(
                        f"{case}: modelled {cores} cores / Spark", split[figure] / many["spark"][figure], 0.5
                    ),
                    Bar(f"{case}: modelled {cores} cores / best", split[figure] / _best(many, figure), 0.9),
                ]
    return bars


def _best(contenders: dict[str, Any], figure: str) -> float:
    """The best of those that are not unskew."""
    return min(each[figure] for name, each in contenders.items() if not name.startswith("unskew"))


if __name__ == "__main__":
    main()
