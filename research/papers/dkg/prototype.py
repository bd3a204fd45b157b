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
from research.papers.experiment import Basis, Experiment, Fact, Record, Run, Timed, number, shape
from research.papers.grouped_jobs import Stage, parts, run_each, stored
from research.papers.waiting_jobs import Outcome, Waits, compare
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
    """λ on Spark and by simulation for every k, with the wall times of the jobs as times.

    Every tuple keeps its instance waiting for `wait` seconds. Up to 16 instances run on 16 threads, more on 64.
    """
    parameters, match = run.parameters, Match(run)
    cells = match.part(0, 1)["cell"]
    waits = Waits(cells, np.full(len(cells), parameters["wait"]))
    judged = Histogram.from_arrays(*np.unique(cells, return_counts=True))

    def measure(k: int) -> Timed:
        plan = unskew.plan(match.learned, k, planner="dkg", seed=run.seed)
        groupings = {
            "Modulo": lambda df: df.groupBy("key"),
            "DKG": lambda df: unskew.groupBy(df, "key", plan=plan),
        }
        spark = run.spark_on(_threads(k))
        timed = compare(spark, waits, groupings, slots=k, runs=parameters["repetitions"])
        lambdas = {
            name: percentage_of_imbalance(np.array(timed.figures[f"{name} rows"], dtype=np.float64))
            for name in NAMES
        }
        simulated = percentage_of_imbalance(slot_loads(plan.table, judged))
        return Timed({**timed.figures, **lambdas, "simulated": simulated}, timed.seconds)

    return {"points": run.each([{"k": k} for k in parameters["k"]], measure)}


def _threads(k: int) -> int:
    return 16 if k <= 16 else 64


def _usage(record: Record, name: str) -> Floats:
    """The processor usage of every instance (column) in every window (row), relative to the fullest."""
    busy = np.stack([parts(record, f"{name} {slot}") for slot in range(record.parameters["k"])], axis=1)
    usage: Floats = busy / busy.max(axis=1, keepdims=True)
    return usage


def _even(record: Record) -> Fact:
    mean = float(_usage(record, "DKG").mean())
    return Fact(mean >= 0.9, f"on average {mean:.1%} of the fullest instance's, which is always busy")


def _underused(record: Record) -> Fact:
    ours, theirs = (float(_usage(record, name).mean()) for name in ("DKG", "Modulo"))
    return Fact(theirs < 0.75 * ours, f"{theirs:.1%} with Modulo, {ours:.1%} with DKG")


def _concentrated(record: Record) -> Fact:
    near = float((_usage(record, "DKG") >= 0.8).mean())
    return Fact(near >= 0.8, f"{near:.0%} of the values are above 80 % of the fullest")


def _mostly_idle(record: Record) -> Fact:
    low = float((_usage(record, "Modulo") < 0.5).mean())
    return Fact(low > 0.5, f"{low:.0%} of the values are below half of the fullest")


def _outcomes(record: Record) -> dict[int, Outcome]:
    rows = zip(record.parameters["k"], record.results["points"], strict=True)
    return {k: Outcome.at(record, at, row, _threads(k)) for at, (k, row) in enumerate(rows)}


def _rates(record: Record, name: str) -> list[float]:
    tuples = 4 * (record.parameters["readings"] // 2)
    return [tuples / outcome.median(name) for outcome in _outcomes(record).values()]


def _gains(record: Record) -> dict[int, float]:
    return {k: outcome.speedup("Modulo", "DKG") for k, outcome in _outcomes(record).items()}


def _listed(gains: dict[int, float]) -> str:
    return ", ".join(f"k = {k}: {gain:.2f} ×" for k, gain in gains.items())


def gains(record: Record) -> str:
    """The throughput of DKG over that of Modulo where the paper has 2 ×, and for more instances."""
    return _listed({k: gain for k, gain in _gains(record).items() if k in (4, 5, 6, 8, 10) or k > 10})


def _more(record: Record) -> Fact:
    """For all k but two; undecided where runs overlap."""
    outcomes = {k: outcome for k, outcome in _outcomes(record).items() if 1 < k <= 10}
    answers = {k: outcome.faster("Modulo", "DKG") for k, outcome in outcomes.items()}
    slower = [k for k, answer in answers.items() if answer is False]
    unclear = [k for k, answer in answers.items() if answer is None]
    holds = False if len(slower) > 2 else None if len(slower) + len(unclear) > 2 else True
    text = "; ".join(f"k = {k}: {outcome.text('Modulo', 'DKG')}" for k, outcome in outcomes.items())
    return Fact(holds, f"{text}; slower for k in {slower}, undecided for k in {unclear}")


def _twice(record: Record) -> Fact:
    gains = {k: gain for k, gain in _gains(record).items() if k in (4, 5, 6, 8, 10)}
    return Fact(min(gains.values()) > 1.8, _listed(gains))


def _matches(record: Record) -> Fact:
    apart = max(abs(row["DKG"] - row["simulated"]) for row in record.results["points"])
    return Fact(
        apart < 1, f"λ of the tuples received and of the simulation differ by at most {apart:.2g} points"
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
    "how well hashing does depends on where the few heavy cells fall: Spark hashes unlike Storm, and the cells are "
    "those of a generated trace, whose readings outside the heaviest cell are spread more evenly than players may be"
)


def possible(record: Record) -> str:
    """What a perfect placement would gain over where Spark's hash puts the generated cells."""
    gains = {k: outcome.possible("Modulo") for k, outcome in _outcomes(record).items()}
    return f"{LUCK}. A perfect placement would gain {_listed(gains)}, if only waiting took time"


BEFORE = "the planner `dkg` groups buckets by another hash function since its last run on Spark"

SETTING = (
    "Modelled. Generated readings, grouped by cell on Spark; an instance is a task, and its time is its processor "
    "time. Modulo is Spark's own grouping. The paper gives usage in Hz; here it is relative to the fullest instance, "
    "which is always busy. The paper plays the whole trace, 25 million readings: there are fewer here."
)

USAGE = Experiment(
    name="dkg-11",
    title="Processor usage over time, k = 4",
    parameters={"readings": 4_000_000, "focus": 0.79, "k": 4, "windows": 30},
    quick={"readings": 20_000, "windows": 3},
    compute=usage,
    claims=(
        shape("the mean of DKG is close to the maximum of Modulo", _even),
        shape("the mean of Modulo is much smaller", _underused, why=LUCK),
        shape("DKG's values are concentrated near the maximum", _concentrated),
        number("most values of Modulo are close to a quarter of the maximum", _mostly_idle, why=LUCK),
    ),
    basis=Basis.MODELLED,
    awaits=BEFORE,
    reduced=True,
    draw=draw_usage,
    size=(9.0, 4.0),
    setting=SETTING,
    needs_spark=True,
)

THROUGHPUT = Experiment(
    name="dkg-12",
    title="Throughput as a function of k",
    parameters={
        "readings": 50_000,
        "focus": 0.79,
        "k": [*range(1, 11), 16, 32, 64],
        "wait": 0.0004,
        "repetitions": 5,
    },
    quick={"k": [4, 10], "wait": 0.0002, "repetitions": 2},
    compute=throughput,
    claims=(
        shape("DKG has a higher throughput than Modulo except for two k (Figure 10)", _more, why=possible),
        number("2 × the throughput of Modulo for k in 4, 5, 6, 8, 10", _twice, why=possible),
        shape("the tuples that instances receive match the simulation (Figure 10)", _matches),
    ),
    draw=draw_throughput,
    basis=Basis.MEASURED,
    reduced=True,
    setting="Measured: wall times of whole jobs on Spark, which group generated readings by cell; an instance is a "
    "task that sleeps for `wait` seconds per tuple, so that k of them run at once on two cores (16 threads, 64 for "
    "more than 16 instances). Every job's answer was checked. Modulo is Spark's own grouping. DKG's plan is learned "
    "from the other half of the trace, as in the paper. Possible is the speedup of a perfect placement if only waiting "
    "took time. The paper plays 25 million readings.",
    needs_spark=True,
)
