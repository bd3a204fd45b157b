"""Figures 5 and 6: the frequency threshold scaler σ and the number of channels N."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from research.papers.experiment import Experiment, Fact, Record, number, printed, shape
from research.papers.gedik.drawing import draw_panels
from research.papers.gedik.growing import DEFAULTS, OURS, every, listed, lower, rows, shown, sweep, value
from research.papers.gedik.resources import TIES, moved_by_luck, same_balance, scatter

SIGMAS = [0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0]


def _lower_is_more_even(record: Record) -> Fact:
    return _compared(record, "b", lambda fine, coarse: fine < coarse)


def _lower_moves_more(record: Record) -> Fact:
    return _compared(record, "m", lambda fine, coarse: fine > coarse)


def _compared(record: Record, measure: str, holds: Callable[[float, float], bool]) -> Fact:
    sigmas, facts, all_hold = record.parameters["sigma"], [], True
    for resources in record.parameters["resources"]:
        for planner in OURS:
            fine, coarse = (
                value(record, measure, planner=planner, resources=resources, sigma=s)
                for s in (sigmas[0], sigmas[-1])
            )
            all_hold &= holds(fine, coarse)
            facts.append(f"{planner} {resources} {fine:.2f}, {coarse:.2f}")
    return Fact(all_hold, f"{measure} at σ = {sigmas[0]:g} and {sigmas[-1]:g}: " + "; ".join(facts))


def _redist_moves_least(record: Record) -> Fact:
    at = {"resources": "LCL", "sigma": min(record.parameters["sigma"])}
    holds = every(lower(record, "m", a, b, **at) for a, b in (("redist", "readj"), ("readj", "scan")))
    return Fact(holds, f"LCL, σ = {at['sigma']:g}: {listed(record, 'm', OURS, **at)}")


def _extremes(record: Record) -> Fact:
    moved = {
        p: [row["m"] for row in rows(record, planner=p, resources="LCL")]
        for p in record.parameters["planner"]
    }
    holds = every(
        lower(record, "m", a, b, resources="LCL", sigma=s)
        for p in OURS
        for s in record.parameters["sigma"]
        for a, b in (("consistent", p), (p, "uniform"))
    )
    return Fact(holds, ", ".join(f"{p} {min(m):.2f} to {max(m):.2f}" for p, m in moved.items()))


def _less_pronounced(record: Record) -> Fact:
    """By the share of the whole fall, from σ = 1 to the lowest, that comes below the default σ = 0.1."""
    facts, holds = [], True
    sigmas = record.parameters["sigma"]
    for planner in OURS:
        shares = {}
        for resources in ("LCL", "LQL"):
            fine, usual, coarse = (
                value(record, "b", planner=planner, resources=resources, sigma=s)
                for s in (min(sigmas), 0.1, max(sigmas))
            )
            shares[resources] = (usual - fine) / (coarse - fine)
        holds &= shares["LQL"] < shares["LCL"]
        facts.append(f"{planner}: LCL {shares['LCL']:.0%}, LQL {shares['LQL']:.0%}")
    return Fact(holds, "share of the whole fall of b that comes below σ = 0.1: " + "; ".join(facts))


def _three_alike(record: Record) -> Fact:
    gaps = []
    for sigma in record.parameters["sigma"]:
        b = [value(record, "b", planner=p, resources="LQL", sigma=sigma) for p in OURS]
        gaps.append(max(b) / min(b) - 1)
    return Fact(max(gaps) <= 0.1, f"b of the three differs by at most {max(gaps):.0%} over σ (LQL)")


def _jump(record: Record) -> Fact:
    low, high = (value(record, "b", planner="scan", resources="LQL", sigma=s) for s in (0.25, 0.5))
    return Fact(high > 1.2 * low, f"b of scan from {low:.2f} at σ = 0.25 to {high:.2f} at 0.5")


def _at(measure: str, planner: str, slots: int) -> partial[float]:
    return partial(value, measure=measure, planner=planner, slots=slots)


def _consistent_moves_least(record: Record) -> Fact:
    holds = every(
        lower(record, "m", "consistent", p, slots=n)
        for n in record.parameters["slots"]
        for p in record.parameters["planner"]
        if p != "consistent"
    )
    return Fact(holds, _line(record, "m", "consistent"))


def _redist_is_flat(record: Record) -> Fact:
    moved = [value(record, "m", planner="redist", slots=n) for n in record.parameters["slots"] if n >= 10]
    return Fact(max(moved) < 1.3 * min(moved), _line(record, "m", "redist"))


def _scan_and_readj_rise(record: Record) -> Fact:
    slots = record.parameters["slots"]
    ends = {p: [value(record, "m", planner=p, slots=n) for n in (10, slots[-1])] for p in ("scan", "readj")}
    text = ", ".join(f"{p} {few:.2f} to {many:.2f}" for p, (few, many) in ends.items())
    return Fact(all(many > few for few, many in ends.values()), f"m from N = 10 to {slots[-1]}: {text}")


def _consistent_is_least_even(record: Record) -> Fact:
    last = record.parameters["slots"][-1]
    planners = record.parameters["planner"]
    holds = every(lower(record, "b", p, "consistent", slots=last) for p in planners if p != "consistent")
    return Fact(holds, f"N = {last}: {listed(record, 'b', planners, slots=last)}")


def _readj_is_best_below_twenty(record: Record) -> Fact:
    few = [n for n in record.parameters["slots"] if n <= 20]
    holds = every(lower(record, "b", "readj", p, slots=n) for n in few for p in ("scan", "redist"))
    return Fact(holds, "; ".join(_line(record, "b", p) for p in OURS))


def _readj_falls_behind(record: Record) -> Fact:
    last = record.parameters["slots"][-1]
    holds = every(lower(record, "b", p, "readj", slots=last) for p in ("scan", "redist"))
    # equal would not be behind
    b = {p: value(record, "b", planner=p, slots=last) for p in OURS}
    behind = b["readj"] > max(b["scan"], b["redist"])
    return Fact(holds if behind else False, listed(record, "b", OURS, slots=last))


def _uniform_above_readj(record: Record) -> Fact:
    few = [n for n in record.parameters["slots"] if n <= 20]
    most = max(
        value(record, "b", planner="uniform", slots=n) / value(record, "b", planner="readj", slots=n)
        for n in few
    )
    return Fact(0.26 <= most - 1 <= 0.46, f"up to {most - 1:.0%}")


def _line(record: Record, measure: str, planner: str) -> str:
    slots = record.parameters["slots"]
    values = [f"{shown(record, measure, planner=planner, slots=n)} (N = {n})" for n in slots]
    return f"{measure} of {planner}: {', '.join(values)}"


def rows_stay(record: Record) -> str:
    """What moves less than the ring itself."""
    sigma = max(record.parameters["sigma"])
    moved = listed(record, "m", ("consistent", "scan"), resources="LCL", sigma=sigma)
    return (
        "Where few keys have a row, these stay in place, which a utility that counts migration makes sure of, and all "
        "others follow the same ring as consistent hashing, which may move a heavy key: m at σ = "
        f"{sigma:g} (LCL) is {moved}."
    )


N_MINUS_ONE = (
    "A key stays with probability 1/N, so uniform hashing is expected to move N − 1 times the ideal: 31 for 32 "
    "channels. A uniform hash function cannot give 22."
)

RELATIVE = (
    "Scan and redist move about the same amount here, and γ decides how much. γ is migration relative to the ideal, "
    "which is 1/N of the state (eq. 18), so the same move weighs more the more channels there are. We keep the "
    "equation as printed."
)

SCALER = Experiment(
    name="gedik-5",
    title="Impact of the frequency threshold scaler σ on migration and balance",
    parameters={**DEFAULTS, "resources": ["LCL", "LQL"], "sigma": SIGMAS},
    quick={"keys": [10**5], "sigma": [0.01, 0.1, 0.25, 0.5, 1.0], "runs": 2},
    compute=sweep,
    claims=(
        shape("lower σ gives lower imbalance", _lower_is_more_even),
        shape("lower σ gives higher migration", _lower_moves_more),
        shape("redist moves least and scan most of the three", _redist_moves_least, why=RELATIVE),
        shape("consistent hashing moves least and uniform most of all", _extremes, why=rows_stay),
        shape("low σ improves the balance less with LQL than with LCL", _less_pronounced),
        number("LQL: the three perform closely", _three_alike, why=same_balance),
        shape("LQL: the imbalance jumps between σ = 0.25 and 0.5", _jump),
    ),
    draw=partial(draw_panels, x="sigma", logarithmic=True),
    setting=f"{TIES} How pronounced an improvement is, is read as a share of the whole fall of b from σ = 1 to 0.01.",
    size=(10.0, 6.5),
)

CHANNELS = Experiment(
    name="gedik-6",
    title="Impact of the number of channels on migration and imbalance",
    parameters={**DEFAULTS, "slots": [2, 4, 6, 8, 10, 12, 16, 20, 24, 28, 32]},
    quick={"keys": [10**5], "slots": [2, 5, 10, 20, 32], "runs": 2},
    compute=sweep,
    claims=(
        shape("consistent hashing moves least", _consistent_moves_least, why=moved_by_luck),
        shape("migration of redist is almost flat", _redist_is_flat, why=RELATIVE),
        shape("migration of scan and readj grows with N", _scan_and_readj_rise, why=RELATIVE),
        shape("consistent hashing has the highest imbalance", _consistent_is_least_even, why=scatter),
        shape("readj has the lowest imbalance up to N = 20", _readj_is_best_below_twenty, why=same_balance),
        shape("beyond N = 20 readj is less even than redist and scan", _readj_falls_behind, why=same_balance),
        printed("m of uniform hashing, N = 32", 22, _at("m", "uniform", 32), within=2, why=N_MINUS_ONE),
        printed("m of redist, N = 32", 1.15, _at("m", "redist", 32), within=0.15, why=RELATIVE),
        number(
            "m of scan is above 3 at N = 32",
            lambda r: Fact(_at("m", "scan", 32)(r) > 3, f"{_at('m', 'scan', 32)(r):.2f}"),
            why=RELATIVE,
        ),
        number(
            "b of consistent hashing is above 2 at N = 32",
            lambda r: Fact(_at("b", "consistent", 32)(r) > 2, f"{_at('b', 'consistent', 32)(r):.2f}"),
        ),
        number(
            "uniform hashing is up to 36 % above readj for N from 2 to 20", _uniform_above_readj, why=scatter
        ),
    ),
    draw=partial(draw_panels, x="slots"),
    setting=TIES,
    size=(10.0, 3.6),
)
