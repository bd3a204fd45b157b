"""`python -m research.beyond.pages`: update the figures in docs/tournament.md and docs/scale.md.

The prose of these pages is written by hand. What stands between `<!-- figures -->` and `<!-- end -->` is generated
from the saved record: the full set, or the quick one if there is only that.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

from research.beyond.scale import NODES, SCALE, seconds
from research.beyond.tournament import OUTDATED, TOURNAMENT, gaps, milliseconds, on_front, overall, ranking
from research.papers.drawing import picture
from research.papers.experiment import Experiment, Record
from research.papers.records import Task, load

FIGURES = re.compile(r"(?<=<!-- figures -->\n).*?(?=<!-- end -->)", re.DOTALL)


def write(experiment: Experiment, tables: Callable[[Record], list[str]], folder: Path, docs: Path) -> bool:
    """Write the tables and the picture of an experiment into its page; False if it was not run yet."""
    record = load(Task(experiment, False, folder)) or load(Task(experiment, True, folder))
    if record is None:
        return False
    page, image = docs / f"{experiment.name}.md", docs / "images" / f"{experiment.name}.svg"
    text = page.read_text("utf-8")
    if not FIGURES.search(text):
        raise ValueError(
            f"{page} has no line <!-- figures --> that is followed by a line <!-- end -->: add both"
        )
    image.write_text(picture(experiment, record) or "", "utf-8")
    source = f"{'Quick set, ' if record.quick else ''}commit {record.stamp['commit']}, seed {record.seed}."
    lines = [
        f"![{experiment.title}](images/{image.name})",
        "",
        *tables(record),
        "",
        f"<sub>{source}</sub>",
        "",
    ]
    page.write_text(FIGURES.sub(lambda _: "\n".join(lines), text), "utf-8")
    return True


def standings(record: Record) -> list[str]:
    """The ranking, then by how much `auto` exceeds the best planner on each workload."""
    front, workloads = on_front(record), len(record.results)
    lines = [
        "| planner | mean rank | fullest slot / least possible | next window | state moved | on the front "
        "| planning time |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, rank, half in ranking(record):
        (fit, fit_half), (later, _), (moved, _) = (overall(record, name, m) for m in ("fit", "next", "moved"))
        lines.append(
            f"| {name} | {rank:.1f} ± {half:.1f} | {fit:.3f} ± {fit_half:.3f} | {later:.3f} | {moved:.2%} "
            f"| {front[name]} of {workloads} | {milliseconds(record, name):.1f} ms |"
        )
    lines += [
        "",
        OUTDATED,
        "",
        "| workload | best planner with whole keys | fullest slot with auto, above the best |",
        "|---|---|---|",
    ]
    for workload, gap in gaps(record).items():
        by_planner = record.results[workload]
        best = min(front, key=lambda name: sum(by_planner[name]["fit"]))
        lines.append(f"| {workload} | {best} | {gap:.2%} |")
    return lines


def sizes(record: Record) -> list[str]:
    """Plans by slots and heavy keys, then matching, then where one key bounds a job."""
    lines = [
        "| slots | heavy keys | buckets | first plan | next plan | table | as an expression | fullest slot / bound "
        f"| state moved | per node of {NODES} | handoff files |",
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
    matching = zip(record.parameters["servers"], seconds(record, "matching"), strict=True)
    times_by_size = ", ".join(f"{servers} servers {took:.2f} s" for servers, took in matching)
    bounds = record.results["one key bounds from"].items()
    lines += ["", f"Matching parts to servers for a chain of operators: {times_by_size}.", ""]
    lines += ["| Zipf exponent of 10⁹ keys | slots from which the heaviest key bounds the job |", "|---|---|"]
    return lines + [f"| {exponent} | {slots:,.0f} |" for exponent, slots in bounds]


def main(folder: Path, docs: Path) -> None:
    """Write both pages."""
    for experiment, tables in ((TOURNAMENT, standings), (SCALE, sizes)):
        if not write(experiment, tables, folder, docs):
            sys.stderr.write(
                f"{experiment.name} was not run: run `python -m research run {experiment.name}` first\n"
            )


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:3] or ("benchmarks/results/papers", "docs")))
