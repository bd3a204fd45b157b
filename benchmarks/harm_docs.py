"""The table of everyday jobs in docs/batch.md, from the committed record."""

from __future__ import annotations

import json
import re
import statistics
from pathlib import Path
from typing import Any

from benchmarks.bars import RESULTS

PAGE = Path(__file__).parents[1] / "docs" / "batch.md"
RECORD = RESULTS / "harm.json"
WIN, LEAST_WON = 0.9, 0.3
"""A win takes at most this share of plain Spark's time, and saves this many seconds: less may be noise."""

_PART = re.compile(r"(<!-- begin everyday jobs: [^\n]* -->\n).*?(<!-- end everyday jobs -->)", re.S)


def table(record: dict[str, Any]) -> str:
    """Per family: how many jobs, how unskew's time compares, how many are worse; then every win and every fault."""
    if not record:
        return "No run is on record."
    jobs = {
        (mode, name): job
        for mode in ("classic", "connect")
        for name, job in record.get(mode, {}).get("jobs", {}).items()
    }
    families = dict.fromkeys(job["family"] for job in jobs.values())
    rows = [_family(family, [j for j in jobs.values() if j["family"] == family]) for family in families]
    head = [
        "| family | runs | unskew / plain Spark: time | more shuffles | worse | faster |",
        "|---|---|---|---|---|---|",
    ]
    parts = ["\n".join([*head, *rows])]
    wins = {at: _ratio(job) for at, job in jobs.items() if "error" not in job and wins_time(job)}
    if wins:
        best = sorted(wins, key=lambda at: wins[at])
        lines = [
            f"| {name} | {mode} | {jobs[mode, name]['plain']['seconds']:.2f} s "
            f"| {jobs[mode, name]['unskew']['seconds']:.2f} s | {wins[mode, name]:.2f} × |"
            for mode, name in best
        ]
        parts.append(
            "\n".join(["| faster with unskew | Spark | plain | unskew | |", "|---|---|---|---|---|", *lines])
        )
    worse = [
        f"| {name} | {mode} | {job.get('error') or ', '.join(job['faults'])} |"
        for (mode, name), job in jobs.items()
        if job["faults"]
    ]
    if worse:
        parts.append("\n".join(["| worse with unskew | Spark | in what |", "|---|---|---|", *worse]))
    return "\n\n".join(parts)


def _family(family: str, jobs: list[dict[str, Any]]) -> str:
    ran = [job for job in jobs if "error" not in job]
    ratios = sorted(map(_ratio, ran))
    times = (
        f"{statistics.median(ratios):.2f} × ({ratios[0]:.2f} to {ratios[-1]:.2f})" if ratios else "none ran"
    )
    shuffles = sum(job["unskew"]["exchanges"] > job["plain"]["exchanges"] for job in ran)
    worse = sum(bool(job["faults"]) for job in jobs)
    wins = sum(map(wins_time, ran))
    return f"| {family} | {len(jobs)} | {times} | {shuffles} | {worse} | {wins} |"


def _ratio(job: dict[str, Any]) -> float:
    return float(job["unskew"]["seconds"] / job["plain"]["seconds"])


def wins_time(job: dict[str, Any]) -> bool:
    """Whether unskew is clearly faster."""
    saved = job["plain"]["seconds"] - job["unskew"]["seconds"]
    return _ratio(job) <= WIN and saved >= LEAST_WON


def rendered() -> str:
    """The page with its generated part as the record has it now."""
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    text, parts = _PART.subn(lambda part: f"{part[1]}\n{table(record)}\n\n{part[2]}", PAGE.read_text("utf-8"))
    if parts != 1:
        raise ValueError(
            f"{PAGE} has {parts} generated parts: "
            "mark one with the comments 'begin everyday jobs: …' and 'end everyday jobs'"
        )
    return text


def write() -> None:
    """Write the page."""
    PAGE.write_text(rendered(), "utf-8")
    print(PAGE)
