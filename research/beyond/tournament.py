"""The tournament: all planners on all workloads."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from research.beyond.workloads import Size, workloads
from research.papers.experiment import Experiment, Fact, Record, Run, Timed, number, shape
from research.simulation import replay
from unskew.core.histogram import Floats, Histogram
from unskew.core.loads import slot_loads
from unskew.core.planners import PLANNERS as DECLARED

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PLANNERS = tuple(name for name in DECLARED if name not in ("single", "modulo", "locality"))
"""All but the worst case, and the twins of hash and keel."""

WHOLE = tuple(name for name in PLANNERS if not DECLARED[name].splits)
"""Those that keep keys whole: the others are for operators that merge, and may go below the bound."""

MEASURES = ("fit", "next", "moved")
"""The fullest slot over the least possible, in the window that was planned with and in the next; the state moved."""

ALIKE = 1e-3  # planners whose fullest slots differ by less share their rank
STUDENT = {2: 12.706, 3: 4.303, 5: 2.776, 10: 2.262}
"""Two-sided 95 % quantiles for the mean of so many runs."""


def compete(run: Run) -> dict[str, Any]:
    """Every measure of every planner on every workload, one figure a seed."""
    given = run.parameters
    names = given["workloads"]
    points = [{"workload": name, "seed": run.seed + k} for name in names for k in range(given["seeds"])]

    def measure(workload: str, seed: int) -> Timed:
        size = Size(given["windows"], given["keys"], given["records"])
        windows = list(workloads()[workload](size, seed))
        found = {name: _replayed(name, windows, given["slots"], seed) for name in PLANNERS}
        seconds = {name: each.pop("seconds") for name, each in found.items()}
        return Timed(found, seconds)

    found = run.each(points, measure)
    seeds = given["seeds"]
    rows = {name: found[at * seeds : (at + 1) * seeds] for at, name in enumerate(names)}
    return {
        name: {p: {m: [each[p][m] for each in several] for m in MEASURES} for p in PLANNERS}
        for name, several in rows.items()
    }


def _replayed(planner: str, windows: Sequence[Histogram], slots: int, seed: int) -> dict[str, float]:
    steps = replay(planner, windows, slots, seed=seed)
    # of the slots that were offered, since elb may leave some out
    least = [w.total * max(w.heaviest_share, 1.0 / slots) for w in windows]
    later = list(zip(pairwise(steps), windows[1:], least[1:], strict=True))
    return {
        "fit": float(np.mean([now.loads.max() / low for (_, now), _, low in later])),
        "next": float(np.mean([slot_loads(old.table, w).max() / low for (old, _), w, low in later])),
        "moved": float(np.mean([now.moved for (_, now), _, _ in later])),
        "seconds": float(np.median([now.seconds for (_, now), _, _ in later])),
    }


def gaps(record: Record, planner: str = "auto") -> dict[str, float]:
    """By workload how far above the best whole-key planner's the fullest slot is, mean over the seeds."""
    return {
        name: _mean(found[planner]["fit"]) / min(_mean(found[p]["fit"]) for p in WHOLE) - 1.0
        for name, found in record.results.items()
    }


def ranking(record: Record) -> list[tuple[str, float, float]]:
    """Planner, mean rank over the workloads by the fullest slot, and half of its 95 % interval over the seeds."""
    seeds = record.parameters["seeds"]
    by_seed = np.array(
        [
            np.mean(
                [_ranks([found[p]["fit"][k] for p in WHOLE]) for found in record.results.values()], axis=0
            )
            for k in range(seeds)
        ]
    )
    half = interval(by_seed)
    rows = zip(WHOLE, by_seed.mean(axis=0).tolist(), half.tolist(), strict=True)
    return sorted(rows, key=lambda row: row[1])


def interval(by_seed: Floats) -> Floats:
    """Half of the 95 % interval of the mean, column by column."""
    runs = len(by_seed)
    spread: Floats = by_seed.std(axis=0, ddof=1) * STUDENT[runs] / np.sqrt(runs)
    return spread


def on_front(record: Record) -> dict[str, int]:
    """On how many workloads no other whole-key planner is better in the fullest slot and in movement alike."""
    wins = dict.fromkeys(WHOLE, 0)
    for found in record.results.values():
        spots = {p: (_mean(found[p]["fit"]), _mean(found[p]["moved"])) for p in WHOLE}
        for p, (fit, moved) in spots.items():
            wins[p] += not any(
                f <= fit and m <= moved and (f < fit - ALIKE or m < moved - ALIKE) for f, m in spots.values()
            )
    return wins


def overall(record: Record, planner: str, measure: str) -> tuple[float, float]:
    """The mean over all workloads, and half of its 95 % interval over the seeds."""
    by_seed = np.mean([found[planner][measure] for found in record.results.values()], axis=0)
    return float(by_seed.mean()), float(interval(by_seed[:, None])[0])


def milliseconds(record: Record, planner: str) -> float:
    """The median over all workloads and seeds of the time of a plan."""
    return 1e3 * float(np.median([point["parts"][planner] for point in record.times["points"]]))


def _mean(figures: Sequence[float]) -> float:
    return float(np.mean(figures))


def _ranks(figures: Sequence[float]) -> Floats:
    """1 for the least; equal ones share the mean of their ranks."""
    steps = np.rint(np.asarray(figures) / ALIKE)
    below = (steps[None, :] < steps[:, None]).sum(axis=1)
    alike = (steps[None, :] == steps[:, None]).sum(axis=1)
    ranks: Floats = below + (alike + 1) / 2
    return ranks


def _within_two_percent(record: Record) -> Fact:
    found = gaps(record)
    worst = max(found, key=found.__getitem__)
    over = [name for name, gap in found.items() if gap > 0.02]
    said = f"at most {found[worst]:.2%} above the best, on {worst}"
    return Fact(not over, said if not over else f"{said}; above 2 % on {', '.join(over)}")


def _unbeaten(record: Record) -> Fact:
    wins, played = on_front(record), len(record.results)
    best = max(wins, key=wins.__getitem__)
    said = f"keel on {wins['keel']} of {played} workloads, auto on {wins['auto']}, most often {best}, on {wins[best]}"
    return Fact(wins["keel"] == max(wins.values()), said)


def draw(record: Record, figure: Figure) -> None:
    """The Pareto picture: the fullest slot against the state moved, and against the time of a plan."""
    left, right = figure.subplots(1, 2, sharey=True)
    for name in PLANNERS:
        fit, half = overall(record, name, "fit")
        moved, moved_half = overall(record, name, "moved")
        color = "#0072B2" if name in ("keel", "auto") else "#D55E00" if name in WHOLE else "#999999"
        style = {"fmt": "o", "color": color, "markersize": 4, "linewidth": 0.8}
        left.errorbar(100 * moved, fit, yerr=half, xerr=100 * moved_half, **style)
        right.errorbar(milliseconds(record, name), fit, yerr=half, **style)
        for axes, x in ((left, 100 * moved), (right, milliseconds(record, name))):
            axes.annotate(name, (x, fit), xytext=(4, 3), textcoords="offset points", fontsize=7)
    left.set(
        xscale="symlog",
        yscale="log",
        xlabel="state moved a window, %",
        ylabel="fullest slot / least possible",
    )
    right.set(xscale="log", xlabel="time of a plan, ms")
    left.set_xlim(left=-0.1)


TOURNAMENT = Experiment(
    name="tournament",
    title="All planners on all workloads: balance, movement, time",
    parameters={
        "workloads": list(workloads()),
        "slots": 20,
        "windows": 10,
        "keys": 100_000,
        "records": 1_000_000,
        "seeds": 10,
    },
    quick={"windows": 4, "keys": 20_000, "records": 200_000, "seeds": 3},
    compute=compete,
    claims=(
        number(
            "bar: auto is within 2 % of the best planner that keeps keys whole, on every workload",
            _within_two_percent,
        ),
        shape("no planner is on the front of balance and movement more often than keel", _unbeaten),
    ),
    draw=draw,
    setting=(
        "Means over all workloads with 95 % intervals over the seeds; every planner with its default options. Grey: "
        "planners that split keys, for operators that merge partial results, which may beat the bound of whole keys."
    ),
    size=(9.0, 4.2),
)
