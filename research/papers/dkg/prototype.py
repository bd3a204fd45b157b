"""The prototype of section 5.3 on Spark: how long each player is in each cell of four grids, Figures 11 and 12.

The source is in memory and never waits, as in the paper, so the fullest instance is always busy and sets the pace for
all: the processor usage of an instance is its working time over that of the fullest.
"""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import unskew
from research.measures import percentage_of_imbalance
from research.papers.dkg.trace import cells, readings_by_place
from research.papers.drawing import styles
from research.papers.experiment import Experiment, Fact, Record, Run, Timed, number, shape
from research.papers.grouped_jobs import Stage, parts, run_each, stored
from unskew.core.histogram import Floats, Histogram
from unskew.core.loads import slot_loads

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PLAYERS = 16
MINUTES = (1, 5, 10, 20)
NAMES = ("Modulo", "DKG")


def stays(rows: pa.Table) -> float:
    """How long each player is in the cell, in four sliding windows; processes the readings one by one."""
    started = time.process_time()
    open_: list[deque[tuple[int, int]]] = [deque() for _ in MINUTES]
    inside = [[0] * PLAYERS for _ in MINUTES]
    moments = rows["moment"].to_numpy()
    order = np.argsort(moments, kind="stable")
    for moment, player in zip(
        moments[order].tolist(), rows["player"].to_numpy()[order].tolist(), strict=True
    ):
        for minutes, readings, counts in zip(MINUTES, open_, inside, strict=True):
            readings.append((moment, player))
            counts[player] += 1
            while readings[0][0] <= moment - 60 * minutes:
                counts[readings.popleft()[1]] -= 1
    return time.process_time() - started


class Match:
    """One half of the trace to learn from, and the readings of the other half."""

    def __init__(self, run: Run) -> None:
        self._random = np.random.default_rng(run.seed)
        self._shares = readings_by_place(run.parameters["focus"])
        self._half = run.parameters["readings"] // 2
        self._seed = run.seed
        keys, counts = np.unique(self._cells(), return_counts=True)
        self.learned = Histogram.from_arrays(keys, counts)
        self.cells = self._cells()

    def part(self, number: int, parts: int) -> dict[str, NDArray[np.int64]]:
        """The tuples of one of several equal parts of the other half."""
        readings = np.array_split(np.arange(self._half), parts)[number]
        random = np.random.default_rng([self._seed, number, parts])
        columns = {"moment": readings // 100, "player": random.integers(PLAYERS, size=len(readings))}
        by_tuple = {name: np.repeat(values, 4) for name, values in columns.items()}
        return {"cell": self.cells[4 * readings[0] : 4 * readings[-1] + 4], **by_tuple}

    def _cells(self) -> NDArray[np.int64]:
        return cells(self._random.choice(len(self._shares), self._half, p=self._shares))


def _stages(run: Run, plan: unskew.Plan, columns: dict[str, Any]) -> dict[str, Stage]:
    with stored(run.spark, columns) as tuples:
        groupings = {
            "Modulo": lambda: tuples.groupBy("cell"),
            "DKG": lambda: unskew.groupBy(tuples, "cell", plan=plan),
        }
        return run_each(tuples, stays, plan.table.slots, groupings)


def usage(run: Run) -> dict[str, Any]:
    """The tuples of every instance in every window, with their seconds as times."""
    match = Match(run)
    windows = run.parameters["windows"]
    plan = unskew.plan(match.learned, run.parameters["k"], planner="dkg", seed=run.seed)

    def measure(window: int) -> Timed:
        stages = _stages(run, plan, match.part(window, windows))
        busy = {
            f"{name} {slot}": s
            for name, stage in stages.items()
            for slot, s in enumerate(stage.busy.tolist())
        }
        return Timed({name: stage.records.tolist() for name, stage in stages.items()}, busy)

    rows = run.each([{"window": window} for window in range(windows)], measure)
    return {name: [row[name] for row in rows] for name in NAMES}


def throughput(run: Run) -> dict[str, Any]:
    """λ on Spark and by simulation for every k, with the time of the fullest instance as times."""
    match = Match(run)
    columns = match.part(0, 1)
    judged = Histogram.from_arrays(*np.unique(match.cells, return_counts=True))

    def measure(k: int) -> Timed:
        plan = unskew.plan(match.learned, k, planner="dkg", seed=run.seed)
        stages = _stages(run, plan, columns)
        on_spark = {name: percentage_of_imbalance(stage.records) for name, stage in stages.items()}
        simulated = percentage_of_imbalance(slot_loads(plan.table, judged))
        seconds = {name: float(stage.busy.max()) for name, stage in stages.items()}
        return Timed({**on_spark, "simulated": simulated}, seconds)

    rows = run.each([{"k": k} for k in run.parameters["k"]], measure)
    return {name: [row[name] for row in rows] for name in (*NAMES, "simulated")}


def _usage(record: Record, name: str) -> Floats:
    """The processor usage of every instance (column) in every window (row), relative to the fullest."""
    busy = np.stack([parts(record, f"{name} {slot}") for slot in range(record.parameters["k"])], axis=1)
    usage: Floats = busy / busy.max(axis=1, keepdims=True)
    return usage


def _even(record: Record) -> Fact:
    mean = float(_usage(record, "DKG").mean())
    return Fact(mean > 0.85, f"on average {mean:.0%} of the fullest instance's")


def _underused(record: Record) -> Fact:
    ours, theirs = (float(_usage(record, name).mean()) for name in ("DKG", "Modulo"))
    return Fact(theirs < ours - 0.1, f"{theirs:.0%} with Modulo, {ours:.0%} with DKG")


def _concentrated(record: Record) -> Fact:
    near = {name: float((_usage(record, name) > 0.8).mean()) for name in NAMES}
    return Fact(
        near["DKG"] > near["Modulo"], ", ".join(f"{n}: {share:.0%} above 80 %" for n, share in near.items())
    )


def _rates(record: Record, name: str) -> Floats:
    tuples = 4 * (record.parameters["readings"] // 2)
    rates: Floats = tuples / parts(record, name)
    return rates


def _gains(record: Record) -> dict[int, float]:
    ratios = _rates(record, "DKG") / _rates(record, "Modulo")
    return dict(zip(record.parameters["k"], ratios.tolist(), strict=True))


def _listed(gains: dict[int, float]) -> str:
    return ", ".join(f"k = {k}: {gain:.2f} ×" for k, gain in gains.items())


def _more(record: Record) -> Fact:
    gains = _gains(record)
    parallel = [gain for k, gain in gains.items() if k > 1]
    return Fact(sum(gain > 1 for gain in parallel) >= 0.75 * len(parallel), _listed(gains))


def _twice(record: Record) -> Fact:
    gains = {k: gain for k, gain in _gains(record).items() if k in (4, 5, 6, 8, 10)}
    return Fact(min(gains.values()) > 1.8, _listed(gains))


def _matches(record: Record) -> Fact:
    apart = np.abs(np.subtract(record.results["DKG"], record.results["simulated"])).max()
    return Fact(
        bool(apart < 1),
        f"λ of the tuples received and of the simulation differ by at most {apart:.2g} points",
    )


def draw_usage(record: Record, figure: Figure) -> None:
    """Figure 11: over time, and its distribution."""
    left, right = figure.subplots(1, 2)
    shades = [style["color"] for style in styles()]
    for name, color in zip(NAMES, shades, strict=False):
        usage = _usage(record, name)
        left.plot(usage.mean(axis=1), color=color, label=f"{name}, mean")
        left.fill_between(range(len(usage)), usage.min(axis=1), usage.max(axis=1), color=color, alpha=0.15)
        right.hist(usage.reshape(-1), bins=20, range=(0, 1), color=color, alpha=0.6, label=name)
    left.set(xlabel="window", ylabel="processor usage, relative to the fullest", ylim=(0, None))
    right.set(xlabel="processor usage, relative to the fullest", ylabel="instances and windows")
    left.legend(loc="lower left")
    right.legend()


def draw_throughput(record: Record, figure: Figure) -> None:
    """Figure 12."""
    axes = figure.subplots()
    for name, style in zip(NAMES, styles(), strict=False):
        axes.plot(record.parameters["k"], _rates(record, name), label=name, **style)
    axes.set(xlabel="number of instances k", ylabel="tuples per second", ylim=(0, None))
    axes.legend()


LUCK = (
    "how well hashing does depends on where the few heavy cells happen to fall, and Spark hashes unlike Storm"
)

SETTING = (
    "Generated readings, grouped by cell on Spark; an instance is a task, and its time is its processor time. Modulo "
    "is Spark's own grouping. The paper gives usage in Hz; here it is relative to the fullest instance, which is "
    "always busy."
)

USAGE = Experiment(
    name="dkg-11",
    title="Processor usage over time, k = 4",
    parameters={"readings": 4_000_000, "focus": 0.79, "k": 4, "windows": 30},
    quick={"readings": 20_000, "windows": 3},
    compute=usage,
    claims=(
        shape("the mean of DKG is close to its maximum: all instances are well balanced", _even),
        shape("the mean of Modulo is much smaller", _underused, why=LUCK),
        shape("usage is concentrated near the maximum with DKG, not with Modulo", _concentrated, why=LUCK),
    ),
    draw=draw_usage,
    size=(9.0, 4.0),
    setting=SETTING,
    needs_spark=True,
)

THROUGHPUT = Experiment(
    name="dkg-12",
    title="Throughput as a function of k",
    parameters={"readings": 1_000_000, "focus": 0.79, "k": list(range(1, 11))},
    quick={"readings": 20_000, "k": [2, 4, 6]},
    compute=throughput,
    claims=(
        shape("DKG has a higher throughput than Modulo except for two k (Figure 10)", _more),
        number(
            "2 × the throughput of Modulo for k in 4, 5, 6, 8, 10",
            _twice,
            why=LUCK,
        ),
        shape("the tuples that instances receive match the simulation (Figure 10)", _matches),
    ),
    draw=draw_throughput,
    setting=SETTING,
    needs_spark=True,
)
