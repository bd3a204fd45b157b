"""`python -m research.beyond.pages`: bring the figures of docs/tournament.md and docs/scale.md up to date.

The prose of these pages is written by hand. What stands between `<!-- figures -->` and `<!-- end -->` is written from
the saved records: the full one, else the quick one.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

from research.beyond.scale import NODES, SCALE, seconds
from research.beyond.tournament import TOURNAMENT, gaps, milliseconds, on_front, overall, ranking
from research.papers.drawing import picture
from research.papers.experiment import Experiment, Record
from research.papers.records import Task, load

FIGURES = re.compile(r"(?<=<!-- figures -->\n).*?(?=<!-- end -->)", re.DOTALL)


def write(experiment: Experiment, tables: Callable[[Record], list[str]], folder: Path, docs: Path) -> bool:
    """Put the tables and the picture of an experiment into its page; False if it was not run yet."""
    record = load(Task(experiment, False, folder)) or load(Task(experiment, True, folder))
    if record is None:
        return False
    page, image = docs / f"{experiment.name}.md", docs / "images" / f"{experiment.name}.svg"
    text = page.read_text("utf-8")
    if not FIGURES.search(text):
        raise ValueError(f"{page}: there is no line <!-- figures --> with a line <!-- end --> after it")
    image.write_text(picture(experiment, record) or "", "utf-8")
    made = f"{'Quick set, ' if record.quick else ''}commit {record.stamp['commit']}, seed {record.seed}."
    lines = [f"![{experiment.title}](images/{image.name})", "", *tables(record), "", f"<sub>{made}</sub>", ""]
    page.write_text(FIGURES.sub(lambda _: "\n".join(lines), text), "utf-8")
    return True


def standings(record: Record) -> list[str]:
    """The ranking, then how far `auto` is from the best on each workload."""
    front, played = on_front(record), len(record.results)
    lines = [
        "| planner | mean rank | fullest slot / least possible | next window | state moved | on the front | plan |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, rank, half in ranking(record):
        (fit, fit_half), (later, _), (moved, _) = (overall(record, name, m) for m in ("fit", "next", "moved"))
        lines.append(
            f"| {name} | {rank:.1f} ± {half:.1f} | {fit:.3f} ± {fit_half:.3f} | {later:.3f} | {moved:.2%} "
            f"| {front[name]} of {played} | {milliseconds(record, name):.1f} ms |"
        )
    lines += ["", "| workload | best planner with whole keys | auto above it |", "|---|---|---|"]
    for workload, gap in gaps(record).items():
        found = record.results[workload]
        best = min(front, key=lambda name: sum(found[name]["fit"]))
        lines.append(f"| {workload} | {best} | {gap:.2%} |")
    return lines


def sizes(record: Record) -> list[str]:
    """Plans by slots and heavy keys, then matching, then where one key bounds a job."""
    lines = [
        "| slots | heavy keys | buckets | first plan | next plan | table | as an expression | fullest slot / bound "
        "| state moved | a node of 1000 | handoff files |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    times = zip(seconds(record, "first"), seconds(record, "next"), strict=True)
    for plan, (first, following) in zip(record.results["plans"], times, strict=True):
        lines.append(
            f"| {plan['slots']:,} | {plan['heavy']:,} | {plan['buckets']:,} | {first:.2f} s | {following:.2f} s "
            f"| {plan['bytes'] / 1e6:.1f} MB | {plan['expression'] / 1e6:.1f} MB "
            f"| {plan['stale']:.3f}, then {plan['fit']:.3f} | {plan['moved']:.3%} "
            f"| {plan['traffic'] / NODES / 1e6:.2f} MB | {plan['handoffs']:,} |"
        )
    servers = zip(record.parameters["servers"], seconds(record, "matching"), strict=True)
    matched = ", ".join(f"{count} servers {took:.2f} s" for count, took in servers)
    bounds = record.results["one key bounds from"].items()
    lines += ["", f"Matching parts to servers for a chain of operators: {matched}.", ""]
    lines += ["| Zipf exponent of 10⁹ keys | slots from which the heaviest key bounds the job |", "|---|---|"]
    return lines + [f"| {exponent} | {slots:,.0f} |" for exponent, slots in bounds]


def main(folder: Path, docs: Path) -> None:
    """Write both pages."""
    for experiment, tables in ((TOURNAMENT, standings), (SCALE, sizes)):
        if not write(experiment, tables, folder, docs):
            sys.stderr.write(f"{experiment.name} was not run: `python -m research run {experiment.name}`\n")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:3] or ("benchmarks/results/papers", "docs")))
