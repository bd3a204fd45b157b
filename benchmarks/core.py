"""`make bench-core`: the bars of the core.

Quality and movement come from exact replays; times are the best of five runs on this machine.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from benchmarks.bars import RESULTS, Bar, best_of, finish
from benchmarks.sketches import sketch_speeds
from research.papers.dkg.instances import COEFFICIENTS, TABLE, fit
from research.papers.gedik.growing import OURS, value
from research.papers.gedik.resources import RESOURCES
from research.papers.running import compute
from research.simulation import Outcome, outcome, replay
from research.workloads import drifting_windows, zipf
from unskew.core.histogram import Histogram
from unskew.core.loads import slot_loads
from unskew.core.plan import make_table
from unskew.core.planners import PLANNERS
from unskew.core.routing import RoutingTable

SLOTS = (10, 20, 50, 100, 200)
TARGETS = (0.0, 0.001, 0.003, 0.01, 0.03, 0.06, 0.1, 0.15, 0.2, 0.3, 0.5)
BUDGETS = (0.0, 0.002, 0.005, 0.01, 0.02)


def main() -> None:
    """Measure and print bar by bar, and finish with the verdict."""
    bars: list[Bar] = []
    details: dict[str, Any] = {}
    for section in (exactness, quality, drift, papers, speed):
        print(f"\n{section.__doc__}".rstrip())
        for bar in section(details):
            bars.append(bar)
            print(bar.line(), flush=True)
    finish("core", bars, details)


def exactness(details: dict[str, Any]) -> Iterator[Bar]:
    """Planners against literal transcriptions of the papers' listings."""
    command = [sys.executable, "-m", "pytest", "-q", "--no-cov", "-k", "listing", "tests/core"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    last = result.stdout.strip().splitlines()[-1]
    details["exactness"] = last
    yield Bar(
        "exactness: listings that a planner differs from (0 or 1)",
        float(result.returncode != 0),
        0,
        note=last,
    )


def quality(details: dict[str, Any]) -> Iterator[Bar]:
    """Keel on Zipf keys: a table planned from 10⁷ draws, judged on the true distribution."""
    random = np.random.default_rng(1)
    excess = details["quality"] = {}
    for keys in (100_000, 1_000_000):
        for exponent in (0.8, 1.0, 1.2, 1.5, 2.0):
            truth = zipf(keys, exponent)
            counts = random.multinomial(10_000_000, truth)
            present = np.flatnonzero(counts)
            sample = Histogram.from_arrays(present, counts[present])
            true = Histogram.from_arrays(np.arange(keys), truth)
            for slots in SLOTS:
                loads = slot_loads(make_table("keel", sample, slots), true)
                excess[f"{keys} keys, z={exponent}, N={slots}"] = loads.max() / max(truth[0], 1 / slots)
    worst = max(excess, key=excess.__getitem__)
    yield Bar("keel: max load / max(f₁, 1/N), worst case", excess[worst], 1.02, note=f"worst at {worst}")


def drift(details: dict[str, Any]) -> Iterator[Bar]:
    """20 windows of a drifting stream, N = 20: imbalance over its bound, and state moved."""
    windows = list(drifting_windows())
    front = {f"target {t:g}": outcome(replay("keel", windows, 20, target=t)) for t in TARGETS}
    front |= {f"budget {b:g}": outcome(replay("keel", windows, 20, target=0.0, budget=b)) for b in BUDGETS}
    rivals = {
        name: outcome(replay(name, windows, 20))
        for name in PLANNERS
        if name not in ("keel", "locality", "auto")
    }
    keel = front["target 0.01"]
    better = [n for n, o in rivals.items() if o.imbalance < keel.imbalance and o.moved < keel.moved]
    unmatched = [n for n, o in rivals.items() if not any(_as_good(k, o) for k in front.values())]
    details["drift"] = {name: vars(o) for name, o in (rivals | front).items()}
    for name, o in sorted(rivals.items(), key=lambda pair: pair[1].imbalance):
        print(f"    {name:10} {o.imbalance:7.4f} × bound, {o.moved:8.3%} of the state moved per window")
    print(f"    {'keel':10} {keel.imbalance:7.4f} × bound, {keel.moved:8.3%} of the state moved per window")
    yield Bar("drift: planners that beat keel on both", len(better), 0, note=", ".join(better))
    yield Bar(
        "drift: planners that no setting of keel matches on both",
        len(unmatched),
        0,
        note=", ".join(unmatched),
    )
    picture(rivals, front)


def picture(rivals: dict[str, Outcome], front: dict[str, Outcome]) -> None:
    """Draw all planners and keel's front: imbalance over its bound against state moved."""
    import matplotlib

    matplotlib.use("svg")
    # the same numbers give the same file
    matplotlib.rcParams["svg.hashsalt"] = "unskew"
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
    points = sorted((o.moved, o.imbalance) for o in front.values())
    axes.plot(
        [m * 100 for m, _ in points],
        [i for _, i in points],
        "o-",
        color="#0072B2",
        label="keel, by target and budget",
    )
    for name, o in rivals.items():
        if name != "single":
            axes.plot(o.moved * 100, o.imbalance, "s", color="#D55E00")
            axes.annotate(
                name, (o.moved * 100, o.imbalance), xytext=(4, 4), textcoords="offset points", fontsize=8
            )
    axes.set(
        xscale="symlog",
        xlabel="state moved per window, % (0 at the left edge)",
        ylabel="imbalance / lower bound",
        title="Drifting Zipf stream, N = 20 (single: 12 and 0 %, not shown)",
    )
    axes.set_xlim(left=-0.05)
    axes.legend()
    figure.savefig(RESULTS / "core-front.svg", metadata={"Date": None})


def papers(details: dict[str, Any]) -> Iterator[Bar]:
    """Numbers of the papers."""
    grown = compute(RESOURCES, resources=["LLL"], planner=list(OURS))
    for name in OURS:
        b, m = (value(grown, measure, planner=name) for measure in ("b", "m"))
        details[f"gedik {name} LLL"] = {"b": b, "m": m}
        yield Bar(f"{name}, LLL, grown 1 → 10: |b − 1.3|", abs(b - 1.3), 0.1, note=f"b = {b:.3f}")
        yield Bar(
            f"{name}, LLL, grown 1 → 10: m from 1.1-1.2",
            max(1.1 - m, m - 1.2, 0.0),
            0.05,
            note=f"m = {m:.3f}",
        )
    table = compute(COEFFICIENTS, runs=200)
    fits = details["dkg table 1"] = {name: fit(table, name) for name in TABLE}
    for name in ("DKG", "O-apx"):
        a, b = fits[name]
        yield Bar(f"{name}: |a − 60.7|", abs(a - 60.7), 1, note=f"λ = {a:.2f}·k {b:+.2f}")
        yield Bar(f"{name}: |b + 100|", abs(b + 100), 1)


def speed(details: dict[str, Any]) -> Iterator[Bar]:
    """Planning and look-up times, best of 5; sketches in keys per second."""
    for rows, limits in ((40, (5, 10, 20)), (500, (30, 60, 400))):
        histogram, previous, options = gedik_case(rows)
        for name, limit in zip(("scan", "redist", "readj"), limits, strict=True):
            table = make_table(name, histogram, 10, previous, **options)
            milliseconds = best_of(5, partial(make_table, name, histogram, 10, previous, **options))
            yield Bar(
                f"{name}: planning time, R = {len(table.hashes)}, N = 10", milliseconds, limit, unit=" ms"
            )
    for slots, limit in ((20, 5), (200, 50)):
        before, after = list(drifting_windows(steps=2))
        for name in ("kip", "keel"):
            previous = make_table(name, before, slots)
            following = best_of(5, partial(make_table, name, after, slots, previous))
            first = best_of(5, partial(make_table, name, after, slots))
            slower = max(first, following)
            yield Bar(f"{name}: planning time, N = {slots}, first or next plan", slower, limit, unit=" ms")
    yield from keel_at_scale()
    table = RoutingTable.build(64, np.arange(4096) % 64, np.arange(2000), np.arange(2000) % 64)
    hashes = np.random.default_rng(0).integers(-(2**63), 2**63 - 1, 10**7)
    hashes[::10] = table.hashes[np.arange(10**6) % 2000]
    lookup = best_of(5, lambda: table.slot_of_hashes(hashes)) / 1e3
    yield Bar("look-up of 10⁷ hashed keys, 2000 heavy keys", lookup, 1.0, unit=" s")
    speeds = details["sketch keys/s"] = sketch_speeds()
    # the sliding sketch has no bar
    slowest = min((name for name in speeds if not name.startswith("sliding")), key=speeds.__getitem__)
    yield Bar(
        "slowest sketch, batch updates",
        speeds[slowest] / 1e6,
        5,
        at_least=True,
        unit="M keys/s",
        note=slowest,
    )


def gedik_case(rows: int) -> tuple[Histogram, RoutingTable, dict[str, Any]]:
    """A window after a drift, the table for 9 slots before it, and a σ that makes about `rows` keys heavy."""
    # the state of a window is its records, as in the paper, so one resource function serves all three
    before, after = list(drifting_windows(steps=2, keys=1_000_000, draws=10_000_000, state_windows=1))
    mean = after.total / 10
    theta = 0.2 / (1 + 1.2 / 9)
    sigma = float(np.sort(after.tracked.weights)[-rows] / (theta * mean))
    options = {"sigma": sigma, "resources": "LLL"}
    return after, make_table("scan", before, 9, **options), options


def keel_at_scale() -> Iterator[Bar]:
    """10 000 slots and 10⁵ heavy keys: a first plan and the next one."""
    random = np.random.default_rng(0)
    loads = zipf(1_000_000, 0.5)
    options: dict[str, Any] = {"grain": 1e-9, "rows": 200_000}
    windows = []
    for _ in range(2):
        windows.append(Histogram.from_arrays(np.arange(1_000_000), loads, buckets=1 << 17, capacity=100_000))
        random.shuffle(loads[:10_000])
    before, after = windows
    previous = make_table("keel", before, 10_000, **options)
    first = best_of(5, lambda: make_table("keel", after, 10_000, **options)) / 1e3
    following = best_of(5, lambda: make_table("keel", after, 10_000, previous, **options)) / 1e3
    note = f"{len(previous.hashes)} rows, first plan {first:.2f} s"
    yield Bar(
        "keel: planning time, N = 10 000, 10⁵ heavy keys", max(first, following), 2, unit=" s", note=note
    )


def _as_good(ours: Outcome, theirs: Outcome) -> bool:
    return ours.imbalance <= theirs.imbalance and ours.moved <= theirs.moved


if __name__ == "__main__":
    main()
