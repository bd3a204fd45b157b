"""Figures 9 to 11: keys in the lossy counter and rows of the table."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from research.papers.experiment import Experiment, Fact, Record, Run, number, printed, shape
from research.papers.gedik.drawing import draw_sizes
from research.papers.gedik.growing import ALPHA, DEFAULTS, averaged, points, rows, value, zipf
from research.workloads import zipf as shares
from unskew.core.plan import make_table
from unskew.core.planners.parts.resources import as_resources, as_tolerances, first_deltas
from unskew.core.sketches import LossyCounter

BATCH = 10**6
OVERLAP = 5
"""Rows by which lines may differ and still overlap in a figure that goes up to 500."""

ERROR = 0.1
"""ε / δ; fitted to the figure, since the paper does not give it."""

SETTING = "The paper gives neither ε nor the number of tuples: ε = 0.1 δ is chosen. Rows come from exact frequencies."


def sizes(run: Run) -> list[dict[str, Any]]:
    """Keys counted and rows for every combination of the parameters."""
    measure = partial(_measure, draws=run.parameters["draws"])
    return averaged(run.each(points(run.parameters), measure), run.parameters)


def _measure(
    draws: int,
    keys: int,
    z: float,
    run: int,
    resources: str,
    sigma: float,
    slots: int,
    planner: str,
    utility: str,
) -> dict[str, float]:
    load = zipf(keys, z, run)
    table = make_table(planner, load, slots, resources=resources, sigma=sigma, utility=utility)
    delta = min(first_deltas(as_resources(resources), keys, slots, as_tolerances(ALPHA), sigma))
    return {"counted": _counted(ERROR * delta, _stream(keys, z, run, draws)), "rows": len(table.hashes)}


def _counted(epsilon: float, stream: NDArray[np.int64]) -> float:
    """Keys in a lossy counter towards the end of a stream; the mean over a window, since it shrinks when one closes."""
    counter = LossyCounter(epsilon)
    window = min(counter.window, len(stream) // 3)
    last = len(stream) - 2 * window
    for first in range(0, last, BATCH):
        counter.update(stream[first : min(first + BATCH, last)])
    sizes = []
    for first in range(last, len(stream), max(window // 20, 1)):
        counter.update(stream[first : first + max(window // 20, 1)])
        sizes.append(len(counter))
    return float(np.mean(sizes[len(sizes) // 2 :]))


@lru_cache(maxsize=1)
def _stream(keys: int, z: float, run: int, draws: int) -> NDArray[np.int64]:
    """The ranks of the drawn keys, which serve as their hashes."""
    below = np.cumsum(shares(keys, z))
    random = np.random.default_rng(run)
    ranks: NDArray[np.int64] = np.searchsorted(below, random.random(draws) * below[-1])
    return ranks


def _at(measure: str, resources: str) -> partial[float]:
    return partial(value, measure=measure, resources=resources, sigma=0.1)


def _within(record: Record) -> Fact:
    sizes = [row["rows"] for row in record.results]
    return Fact(min(sizes) >= 1 and max(sizes) <= 600, f"{min(sizes):.0f} to {max(sizes):.0f}")


def _same_rows(record: Record) -> Fact:
    lines = [[row["rows"] for row in rows(record, resources=r)] for r in record.parameters["resources"]]
    text = "; ".join(
        f"{r}: " + ", ".join(f"{x:.0f}" for x in line)
        for r, line in zip(record.parameters["resources"], lines, strict=True)
    )
    return Fact(bool(np.ptp(lines, axis=0).max() <= OVERLAP), text)


def _counter_grows(record: Record) -> Fact:
    lines = {r: [row["counted"] for row in rows(record, resources=r)] for r in record.parameters["resources"]}
    text = "; ".join(f"{r}: {line[0]:.0f} to {line[-1]:.0f}" for r, line in lines.items())
    return Fact(all(np.all(np.diff(line) < 0) for line in lines.values()), text)


def _flat_over_skew(record: Record) -> Fact:
    counted = [row["counted"] for row in rows(record, resources="LCL")]
    return Fact(max(counted) < 2 * min(counted), "LCL: " + ", ".join(f"{x:.0f}" for x in counted))


def _more_and_more_rows(record: Record) -> Fact:
    sizes = [row["rows"] for row in rows(record, resources="LCL")]
    steps = np.diff(sizes)
    holds = bool(np.all(steps >= 0)) and bool(steps[-1] > steps[0])
    return Fact(holds, "LCL: " + ", ".join(f"{x:.0f}" for x in sizes))


def _linear(record: Record) -> Fact:
    facts, holds = [], True
    for measure in ("counted", "rows"):
        points = rows(record, resources="LCL")
        # linear: from first to last it grows as the line through both ends says, at every point within a tenth
        slots, sizes = (np.array([row[name] for row in points]) for name in ("slots", measure))
        line = sizes[0] + (sizes[-1] - sizes[0]) * (slots - slots[0]) / (slots[-1] - slots[0])
        off = float(np.max(np.abs(sizes - line)) / np.max(sizes))
        holds &= bool(off < 0.1 and sizes[-1] > 2 * sizes[0])
        facts.append(f"{measure}: {sizes[0]:.0f} to {sizes[-1]:.0f}, off the line by at most {off:.1%}")
    return Fact(holds, "; ".join(facts))


# the rows do not depend on the run, and the counter hardly does
BASE = {**DEFAULTS, "resources": ["LCL", "LLL", "LQL"], "planner": ["scan"], "runs": 5, "draws": 10**7}
EXACT = (
    "The rows come from exact frequencies: the 39 keys with f ≥ δ = 0.00176. A lossy counter also reports keys that "
    "are up to ε lighter."
)

SCALER = Experiment(
    name="gedik-9",
    title="Impact of the frequency threshold scaler on the size of the partitioning function",
    parameters={**BASE, "sigma": [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0]},
    quick={"sigma": [0.01, 0.1, 1.0], "runs": 1, "draws": 10**6},
    compute=sizes,
    claims=(
        shape("the lossy counter grows as σ falls", _counter_grows),
        shape("the number of rows is the same for all resource functions", _same_rows),
        number("the table has 1 to 500 rows", _within),
        printed("keys in the counter for LCL, σ = 0.1", 2500, _at("counted", "LCL"), within=750),
        printed("keys in the counter for LQL, σ = 0.1", 50_000, _at("counted", "LQL"), within=15_000),
        printed("rows, σ = 0.1", 50, _at("rows", "LCL"), within=10, why=EXACT),
    ),
    draw=partial(draw_sizes, x="sigma", logarithmic=True),
    setting=SETTING,
)

STEEP, GENTLE = [0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 1.0], [0.25, 0.3, 0.4, 0.5]

SKEW = Experiment(
    name="gedik-10",
    title="Impact of skew on the size of the partitioning function",
    parameters={
        **BASE,
        "z": sorted({*STEEP, *GENTLE}),
        "z_of": {"LCL": STEEP, "LLL": STEEP, "LQL": GENTLE},
    },
    quick={
        "z": [0.1, 0.25, 0.5, 0.8, 1.0],
        "z_of": {"LCL": [0.1, 0.5, 0.8, 1.0], "LLL": [0.1, 0.5, 0.8, 1.0], "LQL": [0.25, 0.5]},
        "runs": 1,
        "draws": 10**6,
    },
    compute=sizes,
    claims=(
        shape("the lossy counter is mostly flat over the skew", _flat_over_skew),
        shape("the number of rows grows faster and faster with the skew", _more_and_more_rows),
    ),
    draw=partial(draw_sizes, x="z"),
    setting=SETTING,
)

CHANNELS = Experiment(
    name="gedik-11",
    title="Impact of the number of channels on the size of the partitioning function",
    parameters={**BASE, "slots": [2, 4, 8, 12, 16, 20, 24, 28, 32]},
    quick={"resources": ["LCL", "LQL"], "slots": [4, 10, 20, 32], "runs": 1, "draws": 10**6},
    compute=sizes,
    claims=(shape("the size grows linearly with the number of channels", _linear),),
    draw=partial(draw_sizes, x="slots"),
    setting=SETTING,
)
