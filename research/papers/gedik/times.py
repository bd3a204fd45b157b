"""Figures 12 to 14: planning time."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import numpy as np

from research.papers.experiment import Basis, Experiment, Fact, Record, Run, Timed, number, shape
from research.papers.gedik.drawing import draw_times
from research.papers.gedik.growing import DEFAULTS, OURS, Setting, grown, points
from unskew.core.planners.ring import ring

BASE = {**DEFAULTS, "planner": list(OURS), "runs": 1}
SETTING = (
    "The best of three runs, each of which rebuilds the ring; one core of this machine, Python and numpy."
)
FASTER = (
    "The paper's times are from another machine, and from C++ that tries candidates one by one; ours is vectorised "
    "code."
)


MOSTLY_RING = (
    "Most of the time is that of building the ring, which is part of every run and depends on no key; the keys above δ "
    "are few, and vectorised code places them in little more."
)


def times(run: Run) -> list[dict[str, Any]]:
    """The number of rows of each table; the planning time is stored as a time."""
    combinations = points(run.parameters)
    rows = run.each(combinations, _measure)
    return [point | {"rows": count} for point, count in zip(combinations, rows, strict=True)]


def _measure(slots: int, **setting: Any) -> Timed:
    chosen = Setting(**setting)
    before = grown(chosen, slots - 1)
    seconds = []
    for _ in range(3):
        ring.cache_clear()
        started = time.perf_counter()
        table = chosen.next_table(slots, before)
        seconds.append(time.perf_counter() - started)
    return Timed(len(table.hashes), {"planning": min(seconds)})


def _seconds(record: Record, planner: str) -> list[float]:
    points = record.times["points"]
    return [
        points[i]["parts"]["planning"] for i, row in enumerate(record.results) if row["planner"] == planner
    ]


def _ends(record: Record) -> str:
    lines = {planner: _seconds(record, planner) for planner in OURS}
    return ", ".join(f"{planner} {line[0]:.3f} to {line[-1]:.3f} s" for planner, line in lines.items())


def _order(record: Record) -> Fact:
    hardest = [max(_seconds(record, planner)) for planner in OURS]
    return Fact(hardest[0] <= hardest[1] <= hardest[2], _ends(record))


def _rises_as_sigma_falls(record: Record) -> Fact:
    return Fact(all(_seconds(record, p)[0] > _seconds(record, p)[-1] for p in OURS), _ends(record))


def _slow_at_the_finest(record: Record) -> Fact:
    redist, readj = (_seconds(record, planner)[0] for planner in ("redist", "readj"))
    return Fact(5 <= readj <= 20 and 0.25 <= redist <= 1, f"readj {readj:.2f} s, redist {redist:.2f} s")


def _quick_by_default(record: Record) -> Fact:
    at = next(i for i, row in enumerate(record.results) if row["planner"] == "readj" and row["sigma"] == 0.1)
    seconds = record.times["points"][at]["parts"]["planning"]
    return Fact(seconds < 0.05, f"{seconds:.3f} s")


def _more_with_channels(record: Record) -> Fact:
    return Fact(all(_seconds(record, p)[-1] > _seconds(record, p)[0] for p in OURS), _ends(record))


def _scan_is_cheapest(record: Record) -> Fact:
    last = {planner: _seconds(record, planner)[-1] for planner in OURS}
    return Fact(last["scan"] == min(last.values()), ", ".join(f"{p} {s:.3f} s" for p, s in last.items()))


def _insensitive(record: Record) -> Fact:
    scan = _seconds(record, "scan")
    return Fact(max(scan) < 3 * min(scan), f"{min(scan):.3f} to {max(scan):.3f} s")


def _flat(record: Record) -> Fact:
    z = np.array(record.parameters["z"])
    facts, holds = [], True
    for planner in ("redist", "readj"):
        early = np.array(_seconds(record, planner))[z <= 0.8]
        holds &= bool(early.max() < 1.5 * early.min())
        facts.append(f"{planner} {early.min():.4f} to {early.max():.4f} s up to z = 0.8")
    return Fact(holds, ", ".join(facts))


def _rises(record: Record) -> Fact:
    z = np.array(record.parameters["z"])
    facts, holds = [], True
    for planner in ("redist", "readj"):
        seconds = np.array(_seconds(record, planner))
        most, last = float(seconds[z <= 0.8].max()), float(seconds[-1])
        # more than the times before scatter
        holds &= last > 1.25 * most
        facts.append(f"{planner} at most {most:.4f} s up to z = 0.8, {last:.4f} s at z = {z[-1]:g}")
    return Fact(holds, ", ".join(facts))


def _readj_rises_faster(record: Record) -> Fact:
    z = np.array(record.parameters["z"])
    growth = {}
    for planner in ("redist", "readj"):
        seconds = np.array(_seconds(record, planner))
        growth[planner] = float(seconds[-1] / np.median(seconds[z <= 0.8]))
    return Fact(growth["readj"] > growth["redist"], ", ".join(f"{p} {g:.2f} ×" for p, g in growth.items()))


SCALER = Experiment(
    name="gedik-12",
    title="Impact of the frequency threshold scaler on construction time",
    parameters={**BASE, "sigma": [0.008, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0]},
    quick={"sigma": [0.01, 0.1, 1.0]},
    compute=times,
    claims=(
        shape("construction takes longer as σ falls", _rises_as_sigma_falls),
        shape("scan is the fastest, then redist, then readj", _order),
        number("readj takes less than 0.05 s with σ = 0.1", _quick_by_default, why=FASTER),
        number("with σ = 0.008 readj takes about 10 s, redist about 0.5 s", _slow_at_the_finest, why=FASTER),
    ),
    draw=partial(draw_times, x="sigma", logarithmic=True),
    setting=SETTING,
    basis=Basis.MEASURED,
)

CHANNELS = Experiment(
    name="gedik-13",
    title="Impact of the number of channels on construction time",
    parameters={**BASE, "slots": [2, 4, 8, 12, 16, 20, 24, 28, 32]},
    quick={"slots": [2, 10, 32]},
    compute=times,
    claims=(
        shape("construction takes longer with more channels", _more_with_channels),
        shape("scan is the cheapest", _scan_is_cheapest),
    ),
    draw=partial(draw_times, x="slots"),
    setting=SETTING,
    basis=Basis.MEASURED,
)

SKEW = Experiment(
    name="gedik-14",
    title="Impact of data skew on construction time",
    parameters={**BASE, "z": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]},
    quick={"z": [0.4, 0.8, 1.0]},
    compute=times,
    claims=(
        shape("scan is mostly insensitive to the skew", _insensitive),
        shape("redist and readj stay flat up to z = 0.8", _flat, why=MOSTLY_RING),
        number("redist and readj rise beyond z = 0.8", _rises, why=MOSTLY_RING),
        shape("readj rises faster than redist", _readj_rises_faster),
    ),
    draw=partial(draw_times, x="z"),
    setting=SETTING,
    basis=Basis.MEASURED,
)
