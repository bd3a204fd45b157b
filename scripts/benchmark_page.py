"""Write docs/benchmarks.md and its pictures from the committed records: `make docs-benchmarks`.

The same records give the same bytes, so a test can hold the page against them. Every file of benchmarks/results that
has bars is on the page, also one that this script does not know; records of papers are listed, and drawn on their own.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.pictures import BLUE, INK, PAPER, SOFT, VERMILLION, Picture
from unskew.report.charts import NEUTRAL, PALETTE

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "benchmarks.md"

ABOUT = {
    "batch": (
        "Batch operators against stock Spark",
        "make bench-batch",
        "The routing expression, measuring, `applyInPandas` on Zipf keys, with waiting functions, on text and flights.",
    ),
    "core": (
        "The core, without Spark",
        "make bench-core",
        "Planners held against the papers' listings, their balance, and their time.",
    ),
    "harm": (
        "Everyday jobs",
        "make bench-harm",
        "Ordinary jobs, plain and with the word changed: is any of them worse? [The table](batch.md#everyday-jobs)",
    ),
    "split": (
        "Hot keys that are split",
        "make bench-split",
        "Joins, aggregates and windows with one hot key, against AQE and salting.",
    ),
    "stream": (
        "Live streams",
        "make bench-stream",
        "The live operator against Spark's own stateful ones: speed, much state, moving state, balance.",
    ),
    "locality": (
        "Chained operators on several hosts",
        "make bench-locality",
        "Hosts are network name spaces of one machine, with links of limited speed.",
    ),
}
WAYS = (
    ("stock", NEUTRAL),
    ("AQE off", PALETTE[2]),
    ("×4", PALETTE[4]),
    ("×16", PALETTE[3]),
    ("unskew", VERMILLION),
)
"""The ways to run one job that records compare, in seconds; ×4 and ×16 are so many times the partitions."""


@dataclass(frozen=True)
class Record:
    """One committed file."""

    name: str
    data: Mapping[str, Any]

    @property
    def bars(self) -> list[dict[str, Any]]:
        """The measured numbers with their limits."""
        return [bar for bar in self.data["bars"] if math.isfinite(bar["measured"])]

    @property
    def stamp(self) -> str:
        """The machine, the commit and the day."""
        machine = next(_found(self.data, "machine"), None)
        when = next(_found(self.data, "when"), None)
        parts = [describe(machine)] if machine else []
        # sections may have been measured by different commits
        commits = sorted(set(self.data.get("commits", {}).values())) or [self.data["commit"]]
        parts.append(f"commit {', '.join(commits)}")
        return ", ".join(parts + ([str(when)] if when else []))


def _found(data: Mapping[str, Any], key: str) -> Iterator[Any]:
    """The values of a key, at the top of a record or one step below."""
    for part in (data, *(value for value in data.values() if isinstance(value, dict))):
        if key in part:
            yield part[key]


def describe(machine: Mapping[str, Any]) -> str:
    """A machine in words.

    >>> describe({"cpu": "AMD EPYC", "cores": 2, "system": "Linux x86_64", "python": "3.11.7"})
    '2 cores of AMD EPYC, Linux x86_64, Python 3.11.7'
    """
    parts = [f"{machine['cores']} cores of {machine['cpu']}", machine.get("system")]
    return ", ".join(filter(None, [*parts, f"Python {machine['python']}" if "python" in machine else None]))


def records() -> list[Record]:
    """The records with bars and a commit, those with a title first; sections of a record are not repeated."""
    found = {}
    sections = tuple(f"{name}-" for name in ABOUT)
    for path in sorted(RESULTS.glob("*.json")):
        data = json.loads(path.read_text("utf-8"))
        if path.stem.startswith(sections):
            continue
        if isinstance(data, dict) and data.get("bars") and "commit" in data:
            found[path.stem] = Record(path.stem, data)
    known = [name for name in ABOUT if name in found]
    return [found[name] for name in (*known, *sorted(set(found) - set(known)))]


def page() -> str:
    """The whole page."""
    parts = [
        "# Benchmarks",
        "Every number that the docs give was measured by a command of this repository and is in a committed record. "
        "This page draws all of them; `make docs-benchmarks` writes it. Ratios are of two runs side by side in one "
        "process, on one machine. Most were measured on two cores, where a straggler costs little: the more cores wait "
        "for it, the more it costs.",
        "In the pictures a bar is a measured number as a share of its limit: it passes if it ends before the line.",
    ]
    for record in records():
        parts += section(record)
    without = [name for name in ABOUT if not (RESULTS / f"{name}.json").is_file()]
    for name in without:
        title, command, text = ABOUT[name]
        parts += [f"## {title}", f"{text} No run is on record yet: `{command}`."]
    parts += faults()
    parts += papers()
    return "\n\n".join(parts) + "\n"


def section(record: Record) -> list[str]:
    """A record: what was measured, where, by which command, its pictures and its numbers."""
    title, command, text = ABOUT.get(record.name, (record.name, f"make bench-{record.name}", ""))
    parts = [f"## {title}", *([text] if text else [])]
    parts.append(f"`{command}` · {record.stamp} · `benchmarks/results/{record.name}.json`")
    if drawable(record):
        parts.append(
            f"![Measured numbers as shares of their limits: {title}](images/bench-{record.name}.svg)"
        )
    for name, cases in comparisons(record):
        picture = f"bench-{record.name}-{slug(name)}.svg"
        parts.append(f"![Seconds of each way to run a job, {len(cases)} jobs: {name}](images/{picture})")
    rows = [
        f"| {bar['name'].replace('|', '∣')} | {amount(bar['measured'], bar['unit'])} | "
        f"{'≥' if bar['at_least'] else '≤'} {amount(bar['limit'], bar['unit'])} | "
        f"{'passes' if bar['passed'] else '**falls short**'} |"
        for bar in record.bars
    ]
    return [*parts, "\n".join(["| | measured | limit | |", "|---|---|---|---|", *rows])]


def amount(value: float, unit: str) -> str:
    """A number with its unit.

    >>> amount(0.67148, "×"), amount(22.03, "M keys/s"), amount(0.0, "")
    ('0.671 ×', '22 M keys/s', '0')
    """
    return f"{value:.3g} {unit.strip()}".strip()


def slug(text: str) -> str:
    """A name for a file."""
    return "".join(letter if letter.isalnum() else "-" for letter in text.lower())


def drawable(record: Record) -> list[tuple[str, float, bool]]:
    """The bars with a limit other than 0: name, share of the limit, whether it passed."""
    shares = []
    for bar in record.bars:
        over, under = (bar["limit"], bar["measured"]) if bar["at_least"] else (bar["measured"], bar["limit"])
        if under > 0 and over >= 0:
            shares.append((bar["name"], over / under, bar["passed"]))
    return shares


def draw_bars(record: Record) -> Picture:
    """The bars of a record, one below the other, with a line at the limit."""
    shares = drawable(record)
    left, right, row = 430, 770, 24
    picture = Picture(
        800, 34 + row * len(shares), f"{record.name}: measured numbers as shares of their limits"
    )
    most = max([1.25, *(min(share, 2.5) for _, share, _ in shares)])
    scale = (right - left) / most
    for i, (name, share, passed) in enumerate(shares):
        y = 26 + row * i
        short = name if len(name) <= 66 else f"{name[:65]}…"
        picture.text(left - 8, y + 12, short, size=11, anchor="end")
        picture.bar(left, y, min(share, most) * scale, row - 8, BLUE if passed else VERMILLION)
        picture.text(
            left + min(share, most) * scale + 4, y + 12, f"{share:.2f}", size=11, fill=SOFT, anchor="start"
        )
    limit = left + scale
    picture.line((limit, 20, limit, 26 + row * len(shares)), INK, dashes="2 4")
    picture.text(limit, 15, "limit", size=11, fill=SOFT)
    return picture


def comparisons(record: Record) -> Iterator[tuple[str, dict[str, dict[str, float]]]]:
    """The parts of a record whose cases have the seconds of stock Spark and of unskew."""
    for name, part in record.data.items():
        if isinstance(part, dict):
            cases = {
                case: figures
                for case, figures in part.items()
                if isinstance(figures, dict)
                and all(isinstance(figures.get(way), float | int) for way in ("stock", "unskew"))
            }
            if cases:
                yield name, cases


def draw_comparison(record: Record, name: str, cases: Mapping[str, Mapping[str, float]]) -> Picture:
    """The seconds of every way to run each job; the bars of a job stand side by side."""
    ways = [(way, colour) for way, colour in WAYS if any(way in figures for figures in cases.values())]
    left, row, gap = 200, 9, 10
    height = sum(row * sum(way in figures for way, _ in ways) + gap for figures in cases.values())
    picture = Picture(800, 56 + height, f"{record.name}, {name}: seconds of each way to run a job")
    for i, (way, colour) in enumerate(ways):
        picture.box(left + 112 * i, 12, 12, 12, colour, PAPER)
        words = {"stock": "stock Spark", "×4": "4 × partitions", "×16": "16 × partitions"}.get(way, way)
        picture.text(left + 17 + 112 * i, 22, words, size=11, anchor="start", fill=SOFT)
    longest = max(figures[way] for figures in cases.values() for way, _ in ways if way in figures)
    y = 40.0
    for case, figures in cases.items():
        present = [(way, colour) for way, colour in ways if way in figures]
        picture.text(left - 8, y + row * len(present) / 2 + 4, case, size=11, anchor="end")
        for way, colour in present:
            width = figures[way] / longest * 540
            picture.bar(left, y, round(width, 1), row - 1, colour)
            picture.text(
                left + width + 4, y + row - 1.5, f"{figures[way]:.1f} s", size=8, fill=SOFT, anchor="start"
            )
            y += row
        y += gap
    return picture


def faults() -> list[str]:
    """Live queries that were killed, starved and damaged."""
    path = RESULTS / "faults.json"
    if not path.is_file():
        return []
    record = json.loads(path.read_text("utf-8"))
    rows = [
        f"| {name} | {group['tried']} | {group['wrong']} | {group['errors']} | {group['commit']}, {group['when']} |"
        for name, group in record["groups"].items()
    ]
    return [
        "## Live queries under faults",
        f"`make test-faults` · `benchmarks/results/faults.json` · {record['tried']} faults tried, "
        f"{record['wrong']} wrong answers, {record['errors']} errors that should not have been",
        "\n".join(["| faults | tried | wrong answers | errors | commit |", "|---|---|---|---|---|", *rows]),
    ]


def papers() -> list[str]:
    """The figures of the papers, each with its record."""
    rows = []
    for path in sorted((RESULTS / "papers").glob("*.json")):
        data = json.loads(path.read_text("utf-8"))
        stamp = data["stamp"]
        settings = "quick" if data["quick"] else "full"
        rows.append(
            f"| {data['name']} | {settings} | {data['times']['seconds']:.0f} s | {stamp['commit']} | "
            f"{describe(stamp['machine'])} |"
        )
    return [
        "## The papers",
        "`make bench-papers` · drawn beside the papers' own figures in [The papers, reproduced](reproduction.md), "
        "[Tournament](tournament.md) and [At scale](scale.md)",
        "\n".join(["| figure | settings | took | commit | machine |", "|---|---|---|---|---|", *rows]),
    ]


def pictures() -> dict[str, str]:
    """Every picture of the page by its file name."""
    drawn = {}
    for record in records():
        if drawable(record):
            drawn[f"bench-{record.name}.svg"] = draw_bars(record).svg()
        for name, cases in comparisons(record):
            drawn[f"bench-{record.name}-{slug(name)}.svg"] = draw_comparison(record, name, cases).svg()
    return drawn


def main() -> None:
    """Write the page and its pictures, and remove pictures that it no longer shows."""
    images, drawn = ROOT / "docs" / "images", pictures()
    for old in images.glob("bench-*.svg"):
        if old.name not in drawn:
            old.unlink()
    for name, text in drawn.items():
        (images / name).write_text(text, "utf-8")
    PAGE.write_text(page(), "utf-8")
    print(f"docs/benchmarks.md: {len(records())} records, {len(drawn)} pictures")


if __name__ == "__main__":
    main()
