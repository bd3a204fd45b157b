"""What μ, Θ, the training set's size and the skew do: Figures 6 to 9 and 13."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from research.papers.dkg.drawing import draw_lines, draw_maps
from research.papers.dkg.simulation import VALUES, Case, lines
from research.papers.experiment import Experiment, Fact, Record, Run, number, shape
from research.workloads import zipf

EXPONENTS = [1.0, 2.0, 3.0]
THETAS = [0.05, *(round(0.1 * i, 1) for i in range(1, 11))]
AXIS = "The paper's text does not give the values on the x axis: ours are chosen."


def by_mu(run: Run) -> dict[str, Any]:
    """λ as a function of μ for each distribution."""
    options = [(("mu", mu), ("theta", run.parameters["theta"])) for mu in run.parameters["mu"]]
    return {"mu": run.parameters["mu"], "lines": _by_exponent(run, options)}


def by_theta(run: Run) -> dict[str, Any]:
    """λ as a function of Θ for each distribution."""
    options = [(("mu", run.parameters["mu"]), ("theta", theta)) for theta in run.parameters["theta"]]
    return {"theta": run.parameters["theta"], "lines": _by_exponent(run, options)}


def by_both(run: Run) -> dict[str, Any]:
    """σ as a function of Θ and, within it, of μ."""
    thetas, mus = run.parameters["theta"], run.parameters["mu"]
    options = [(("mu", mu), ("theta", theta)) for theta in thetas for mu in mus]
    return {"theta": thetas, "mu": mus, "lines": _by_exponent(run, options)}


def by_learned(run: Run) -> dict[str, Any]:
    """σ as a function of the training set's size."""
    options = (("mu", run.parameters["mu"]), ("theta", run.parameters["theta"]))
    sizes = run.parameters["learned"]
    cases = [Case("dkg", run.parameters["k"], options, learned) for learned in sizes]
    return {"learned": sizes, "lines": {_name(z): lines(run, z, {"": cases})[""] for z in EXPONENTS}}


def by_exponent(run: Run) -> dict[str, Any]:
    """λ as a function of α, with and without the scheduling of sparse values."""
    k, theta, mu = (run.parameters[name] for name in ("k", "theta", "mu"))
    cases = {
        "DKG": [Case("dkg", k, (("mu", mu), ("theta", theta)))],
        "DKG WOSIM": [Case("dkg-wosim", k, (("theta", theta),))],
    }
    by_exponent = [lines(run, z, cases) for z in run.parameters["exponent"]]
    joined = {
        name: {measure: [part[name][measure][0] for part in by_exponent] for measure in by_exponent[0][name]}
        for name in cases
    }
    return {"exponent": run.parameters["exponent"], "lines": joined}


def _by_exponent(run: Run, options: Sequence[tuple[tuple[str, Any], ...]]) -> dict[str, Any]:
    cases = [Case("dkg", run.parameters["k"], option) for option in options]
    return {_name(z): lines(run, z, {"": cases})[""] for z in EXPONENTS}


def _name(exponent: float) -> str:
    return f"Zipf-{exponent:g}"


def _first_step_gains_most(record: Record) -> Fact:
    mus, facts, holds = record.results["mu"], [], True
    for name, line in record.results["lines"].items():
        at_1, at_2, last = (line["λ"][mus.index(mu)] for mu in (1, 2, mus[-1]))
        holds &= at_1 - at_2 > (at_2 - last) / (mus[-1] - 2)
        facts.append(f"{name}: {at_1:.1f}, {at_2:.1f}, {last:.1f}")
    return Fact(holds, f"λ at μ = 1, 2, {mus[-1]}: " + "; ".join(facts))


def _worst_hardly_changes(record: Record) -> Fact:
    facts, holds = [], True
    for name, line in record.results["lines"].items():
        first, last = line["λ worst"][0], line["λ worst"][-1]
        holds &= last > first / 2
        facts.append(f"{name}: {first:.0f}, {last:.0f}")
    return Fact(holds, f"worst λ at μ = 1 and at μ = {record.results['mu'][-1]}: " + "; ".join(facts))


def _light(record: Record) -> str:
    lines = record.results["lines"]
    ends = {name: (line["λ worst"][0], line["λ worst"][-1]) for name, line in lines.items()}
    text = ", ".join(f"{name} from {first:.0f} to {last:.0f}" for name, (first, last) in ends.items())
    return (
        f"The worst λ goes {text}: it holds where the heaviest value has most of the load. With Zipf-1 that value has "
        "a tenth of it, and the more groups there are, the lighter is the group that holds it."
    )


def _top(exponent: float) -> float:
    return float(zipf(VALUES, exponent)[0])


def _drop(record: Record, exponent: float, measure: str) -> tuple[bool, str]:
    """Whether a measure falls by a tenth or more once Θ reaches the heaviest value's share."""
    thetas, values = (
        np.array(record.results["theta"]),
        np.array(record.results["lines"][_name(exponent)][measure]),
    )
    top = _top(exponent)
    before, after = float(values[thetas > top].min()), float(values[thetas <= top].max())
    text = f"{_name(exponent)} {measure}: {before:.1f} above p = {top:.2f}, {after:.1f} from there on"
    return after < 0.9 * before, text


def _drops_at_the_heaviest(record: Record) -> Fact:
    drops = [_drop(record, z, measure) for z in (2.0, 3.0) for measure in ("λ", "λ worst")]
    drops.append(_drop(record, 1.0, "λ"))
    return Fact(all(holds for holds, _ in drops), "; ".join(text for _, text in drops))


def _worst_drops_for_zipf_1(record: Record) -> Fact:
    return Fact(*_drop(record, 1.0, "λ worst"))


def _further_decrements(record: Record) -> Fact:
    """At the lowest Θ the mean is within a tenth of that where Θ has just reached the heaviest value's share."""
    facts, holds = [], True
    for z in EXPONENTS:
        reached = max(theta for theta in record.results["theta"] if theta <= _top(z) + 0.01)
        line = record.results["lines"][_name(z)]["λ"]
        first, last = line[record.results["theta"].index(reached)], line[0]
        holds &= last > 0.9 * first
        facts.append(
            f"{_name(z)}: {first:.1f} at Θ = {reached:g}, {last:.1f} at {record.results['theta'][0]:g}"
        )
    return Fact(holds, "mean λ: " + "; ".join(facts))


def _worst_follows_mean(record: Record) -> Fact:
    facts, holds = [], True
    for z in (2.0, 3.0):
        line = record.results["lines"][_name(z)]
        at = [i for i, theta in enumerate(record.results["theta"]) if theta <= _top(z)]
        gap = max(line["λ worst"][i] / line["λ"][i] for i in at) - 1
        holds &= gap < 0.15
        facts.append(f"{_name(z)}: {gap:.1%}")
    return Fact(holds, "worst above mean by at most: " + "; ".join(facts))


def _is_optimal(record: Record) -> Fact:
    facts, holds = [], True
    for z, theta in ((2.0, 0.6), (3.0, 0.8)):
        ours = record.results["lines"][_name(z)]["λ"][record.results["theta"].index(theta)]
        best = (record.parameters["k"] * _top(z) - 1) * 100
        holds &= abs(ours - best) < 1
        facts.append(f"{_name(z)}: {ours:.1f}, of O-apx {best:.1f}")
    return Fact(holds, "; ".join(facts))


def _grid(record: Record, exponent: float) -> Any:
    values = record.results["lines"][_name(exponent)]["σ"]
    return np.array(values).reshape(len(record.results["theta"]), len(record.results["mu"]))


def _mu_drives(record: Record) -> Fact:
    cells = _grid(record, 1.0)
    by_mu, by_theta = np.ptp(cells.mean(axis=0)), np.ptp(cells.mean(axis=1))
    return Fact(bool(by_mu > 2 * by_theta), f"σ changes by {by_mu:.0f} over μ, by {by_theta:.0f} over Θ")


def _theta_suffices(record: Record) -> Fact:
    facts, holds = [], True
    for z in (2.0, 3.0):
        cells = _grid(record, z)[np.array(record.results["theta"]) <= _top(z)]
        gain = 1 - cells.min() / cells.max()
        holds &= bool(gain < 0.1)
        facts.append(f"{_name(z)}: the best cell is {gain:.1%} below the worst")
    return Fact(holds, "; ".join(facts))


def _learns_within(exponent: float, tuples: int) -> Callable[[Record], Fact]:
    def check(record: Record) -> Fact:
        sigma = record.results["lines"][_name(exponent)]["σ"]
        then, end = sigma[record.results["learned"].index(tuples)], sigma[-1]
        return Fact(then <= 1.1 * end, f"σ = {then:.0f} after {tuples}, {end:.0f} in the end")

    return check


def _scheduling_pays(measure: str) -> Callable[[Record], Fact]:
    def check(record: Record) -> Fact:
        with_it, without = (record.results["lines"][name][measure] for name in ("DKG", "DKG WOSIM"))
        pairs = list(zip(record.results["exponent"], with_it, without, strict=True))
        text = "; ".join(f"α = {z:g}: {ours:.0f} against {theirs:.0f}" for z, ours, theirs in pairs)
        return Fact(all(ours <= theirs for _, ours, theirs in pairs), text)

    return check


ZIPFS = tuple(_name(z) for z in EXPONENTS)

MU = Experiment(
    name="dkg-6",
    title="Imbalance λ of DKG as a function of μ",
    parameters={"k": 2, "theta": 1.0, "mu": list(range(1, 11)), "runs": 10_000},
    quick={"runs": 100},
    compute=by_mu,
    claims=(
        shape("from μ = 1 to 2 the mean falls significantly, afterwards less", _first_step_gains_most),
        shape("the worst case is only slightly affected by μ", _worst_hardly_changes, why=_light),
    ),
    draw=partial(draw_lines, measure="λ", worst=ZIPFS),
    setting=AXIS,
)

THETA = Experiment(
    name="dkg-7",
    title="Imbalance λ of DKG as a function of Θ",
    parameters={"k": 2, "theta": THETAS, "mu": 1.0, "runs": 10_000},
    quick={"runs": 100},
    compute=by_theta,
    claims=(
        shape(
            "the mean drops where Θ reaches the heaviest value's share, and the worst case with Zipf-2 and Zipf-3",
            _drops_at_the_heaviest,
        ),
        number(
            "so does the worst case with Zipf-1",
            _worst_drops_for_zipf_1,
            why="With Zipf-1 nine tenths of the load are sparse values, which μ = 1 puts into as many groups as there "
            "are slots: the worst case depends on how unequal these groups happen to be, as the paper itself says.",
        ),
        number(
            "further decrements of Θ do not improve significantly",
            _further_decrements,
            why="With Zipf-1 the second heaviest value has half of the first one's share: isolating it as well halves "
            "what is left.",
        ),
        shape("from there on mean and worst case are close for Zipf-2 and Zipf-3", _worst_follows_mean),
        shape("with Θ = 0.6 (Zipf-2) and 0.8 (Zipf-3) the mean is that of O-apx", _is_optimal),
    ),
    draw=partial(draw_lines, measure="λ", worst=ZIPFS),
    setting=AXIS,
)

BOTH = Experiment(
    name="dkg-8",
    title="Standard deviation σ of DKG as a function of Θ and μ",
    parameters={"k": 5, "theta": THETAS, "mu": list(range(1, 11)), "runs": 10_000},
    quick={"theta": [0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0], "mu": [1, 2, 4, 7, 10], "runs": 20},
    compute=by_both,
    claims=(
        shape("with Zipf-1 μ drives the performance and Θ hardly matters", _mu_drives),
        shape("with skew there is little to gain once Θ reaches the heaviest value's share", _theta_suffices),
    ),
    draw=draw_maps,
    setting=AXIS,
    size=(10.0, 5.5),
)

LEARNED = Experiment(
    name="dkg-9",
    title="Standard deviation σ of DKG as a function of the training set's size",
    parameters={
        "k": 2,
        "theta": 0.1,
        "mu": 2.0,
        "learned": [10, 30, 100, 300, 1000, 3000, 10_000, 30_000, 80_000],
        "runs": 10_000,
    },
    quick={"runs": 100},
    compute=by_learned,
    claims=(
        shape("fewer than 100 tuples are enough for Zipf-3", _learns_within(3.0, 100)),
        shape("fewer than 1000 tuples are enough for Zipf-2", _learns_within(2.0, 1000)),
        shape("fewer than 10 000 tuples are enough for Zipf-1", _learns_within(1.0, 10_000)),
    ),
    draw=partial(draw_lines, measure="σ", worst=ZIPFS, scale="log"),
    setting=f"{AXIS} Enough means that the mean σ is within 10 % of that after 80 000 tuples.",
)

WOSIM = Experiment(
    name="dkg-13",
    title="Imbalance λ as a function of α, with and without scheduling of sparse values",
    parameters={
        "k": 10,
        "theta": 0.1,
        "mu": 2.0,
        "exponent": [0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0],
        "runs": 10_000,
    },
    quick={"runs": 50},
    compute=by_exponent,
    claims=(
        shape("DKG's mean is better for all α", _scheduling_pays("λ")),
        shape("DKG's worst case is better for all α", _scheduling_pays("λ worst")),
    ),
    draw=partial(draw_lines, measure="λ", worst=("DKG", "DKG WOSIM")),
    setting=AXIS,
)
