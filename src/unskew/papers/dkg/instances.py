"""λ and σ as functions of the number of instances k: Figures 2 and 3, Table 1."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from unskew.papers.dkg.simulation import Case, spreads
from unskew.papers.drawing import styles
from unskew.papers.experiment import Claim, Experiment, Fact, Record, Run, printed, shape

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SLOTS = range(2, 11)
PLANNERS = {"O-apx": "oracle", "Universal": "universal", "DKG": "dkg", "SIA": "single"}
PARAMETERS = {"exponent": 2.0, "theta": 0.1, "mu": 2.0, "runs": 10_000}
QUICK = {"runs": 200}

TABLE = {
    "O-apx": (60.7, -100.0),
    "Universal mean": (60.7, -60.7),
    "Universal worst": (87.3, -73.0),
    "DKG mean": (60.7, -100.0),
    "DKG worst": (62.0, -100.0),
    "SIA": (100.0, -100.0),
}
"""(a, b) of λ ≈ a·k + b as printed."""


def by_instances(run: Run) -> dict[str, Any]:
    """λ and σ, mean and worst, of each algorithm for each k."""
    options = (("mu", run.parameters["mu"]), ("theta", run.parameters["theta"]))
    cases = [Case(planner, k, options) for planner in PLANNERS.values() for k in SLOTS]
    found = spreads(run, run.parameters["exponent"], cases)
    lines: dict[str, Any] = {"k": list(SLOTS), "λ": {}, "σ": {}}
    for at, name in enumerate(PLANNERS):
        part = found[at * len(SLOTS) : (at + 1) * len(SLOTS)]
        if name in ("O-apx", "SIA"):
            lines["λ"][name] = [spread.imbalance for spread in part]
            lines["σ"][name] = [spread.deviation for spread in part]
            continue
        lines["λ"][f"{name} mean"] = [spread.imbalance for spread in part]
        lines["λ"][f"{name} worst"] = [spread.worst_imbalance for spread in part]
        lines["σ"][f"{name} mean"] = [spread.deviation for spread in part]
        lines["σ"][f"{name} worst"] = [spread.worst_deviation for spread in part]
    return lines


def fit(record: Record, line: str) -> tuple[float, float]:
    """a and b of the regression of λ on k."""
    a, b = np.polyfit(record.results["k"], record.results["λ"][line], 1)
    return float(a), float(b)


def _gap(record: Record, measure: str, one: str, other: str) -> float:
    lines = record.results[measure]
    return float(np.max(np.array(lines[one]) / np.array(lines[other])) - 1.0)


def _matches(record: Record) -> Fact:
    gap = _gap(record, "λ", "DKG mean", "O-apx")
    return Fact(gap < 0.005, f"DKG mean is at most {gap:.2%} above O-apx")


def _worst_is_close(record: Record) -> Fact:
    gap = _gap(record, "λ", "DKG worst", "O-apx")
    return Fact(gap < 0.1, f"DKG worst is at most {gap:.1%} above O-apx, which is the mean of all runs")


def _closer_to_single(record: Record) -> Fact:
    (a, _), (best, _), (single, _) = (fit(record, n) for n in ("Universal worst", "O-apx", "SIA"))
    return Fact(abs(a - single) < abs(a - best), f"a = {a:.1f}, of O-apx {best:.1f}, of SIA {single:.1f}")


def _coefficients() -> tuple[Claim, ...]:
    return tuple(
        printed(f"{line}: {letter}", value, _coefficient(line, at), within=1.0, why=WHY_WORST)
        for line, pair in TABLE.items()
        for at, (letter, value) in enumerate(zip("ab", pair, strict=True))
    )


def _coefficient(line: str, at: int) -> Callable[[Record], float]:
    return lambda record: fit(record, line)[at]


WHY_WORST = ""

MATCHES = shape("DKG mean matches O-apx", _matches)
CLOSER_TO_SINGLE = shape("Universal's worst case is closer to SIA than to O-apx", _closer_to_single)


def draw_imbalance(record: Record, figure: Figure) -> None:
    """Figure 2: λ over k."""
    _draw(record, figure, "λ", "imbalance λ (%)")


def _draw(record: Record, figure: Figure, measure: str, label: str) -> None:
    axes = figure.subplots()
    for (name, line), style in zip(record.results[measure].items(), styles(), strict=False):
        axes.plot(record.results["k"], line, label=name, **style)
    axes.set(xlabel="number of instances k", ylabel=label)
    axes.legend()


IMBALANCE = Experiment(
    name="dkg-2",
    title="Imbalance λ as a function of k with Zipf-2",
    parameters=PARAMETERS,
    quick=QUICK,
    compute=by_instances,
    claims=(
        MATCHES,
        shape("little gap between DKG's worst case and O-apx", _worst_is_close),
        CLOSER_TO_SINGLE,
    ),
    draw=draw_imbalance,
)

COEFFICIENTS = Experiment(
    name="dkg-table-1",
    title="Linear regression coefficients of the lines in Figure 2",
    parameters=PARAMETERS,
    quick=QUICK,
    compute=by_instances,
    claims=(*_coefficients(), MATCHES, CLOSER_TO_SINGLE),
)
