"""Section 5.2, processing latency: a word count on live streams that scale out, Table 2, Figures 5 and 6.

The paper fixes the capacity of an instance at 1000 tuples per second. Here a slot of a live stream on Spark sleeps for
a millisecond per tuple, so it has that capacity too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

import unskew
from research.papers.drawing import styles
from research.papers.experiment import Basis, Experiment, Fact, Record, Run, Timed, printed, shape
from research.papers.generators import words
from research.papers.live_streams import Keys, Live, Periodic, quantile, run_live
from unskew.core.histogram import Histogram
from unskew.core.plan import make_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pyspark.sql import SparkSession

WAIT = 0.001
"""Seconds per tuple: 1000 tuples per second and instance."""

ALGORITHMS = ("CLB", "ELB", "PKG", "UHLB")

OPTIONS: Mapping[str, dict[str, Any]] = {"ELB": {"recompute": True}}
"""By the paper's listing a slot of ELB sheds half the load range per window; a new instance would stay nearly empty."""

DELAY = 2
"""The windows between a higher rate and the first window on more instances: to see it, and to move the state."""


@dataclass(frozen=True)
class Load:
    """How the rate grows: `batches` windows of `unit` tuples, then as many of 2 × `unit`, up to `most` × `unit`."""

    unit: int
    most: int
    batches: int

    def windows(self, seed: int) -> list[Keys]:
        """The words of each window's tuples, in order."""
        random = np.random.default_rng(seed)
        sizes = self.instances * self.unit
        generated = words(len(sizes), 1.5 * self.most * self.unit, seed=seed)
        return [
            random.permutation(np.repeat(window.keys, window.counts))[:size]
            for window, size in zip(generated, sizes.tolist(), strict=True)
        ]

    @property
    def instances(self) -> Keys:
        """The number of instances that the rate of each window requires."""
        return np.repeat(np.arange(1, self.most + 1), self.batches)


def halves(words: Keys, instances: int) -> Keys:
    """PKG: every tuple of a word goes to the less loaded of its two instances.

    The two are where hashing puts 2·word and 2·word + 1, so a stream of these keys whose planner hashes is PKG. Each
    half of a word is a partial count; an operator downstream would add them.
    """
    both = np.stack([2 * words, 2 * words + 1])
    hashed = make_table("hash", Histogram.from_arrays(*np.unique(both, return_counts=True)), instances)
    first, second = hashed.slot_of(both[0]).tolist(), hashed.slot_of(both[1]).tolist()
    loads, chosen = [0] * instances, np.zeros(len(words), dtype=np.int64)
    for at, (one, other) in enumerate(zip(first, second, strict=True)):
        half = loads[other] < loads[one]
        loads[other if half else one] += 1
        chosen[at] = half
    return 2 * words + chosen


@lru_cache(maxsize=8)
def counted(spark: SparkSession, algorithm: str, load: Load, period: int, seed: int) -> list[dict[str, Any]]:
    """The journal of a live word count that adds an instance whenever the rate requires one.

    Cached, since three figures show the same streams.
    """
    windows = load.windows(seed)
    if algorithm == "PKG":
        instances = np.concatenate([np.ones(DELAY, dtype=np.int64), load.instances])
        windows = [halves(window, n) for window, n in zip(windows, instances.tolist(), strict=False)]
    live = Live(
        "hash" if algorithm == "PKG" else algorithm.lower(),
        WAIT,
        slots=1,
        most=load.most,
        policy=Periodic(every=period if algorithm == "CLB" else 1),
        # the mean load of an instance at its rate lies within, that of one instance too few above
        scaling=unskew.LoadRange(0.99 * load.unit, 1.04 * load.unit),
        options=OPTIONS.get(algorithm, {}),
    )
    return run_live(spark, windows, live)


def latencies(run: Run) -> dict[str, Any]:
    """The slot loads and the keys moved in every window, by algorithm; the wall seconds of every window as times."""
    parameters = run.parameters
    load = Load(parameters["unit"], parameters["most"], parameters["batches"])

    def measure(algorithm: str) -> Timed:
        spark = run.spark_on(parameters["threads"])
        lines = counted(spark, algorithm, load, parameters["period"], run.seed)
        figures = {
            "loads": [line["loads"] for line in lines],
            "moved": [line["moved"]["rows"] for line in lines],
        }
        return Timed(figures, {str(line["batch"]): line["wall"] for line in lines})

    figures = run.each([{"algorithm": algorithm} for algorithm in ALGORITHMS], measure)
    return dict(zip(ALGORITHMS, figures, strict=True))


@dataclass(frozen=True, eq=False)
class Windows:
    """The loads of the slots in each window, and the wall seconds of each: what every tuple of the window waits."""

    loads: list[list[int]]
    seconds: list[float]
    enough: float
    """The mean load above which there is one instance too few."""

    @classmethod
    def of(cls, record: Record, algorithm: str) -> Windows:
        """All windows of an algorithm's stream."""
        loads = record.results[algorithm]["loads"]
        walls = record.times["points"][ALGORITHMS.index(algorithm)]["parts"]
        return cls(loads, [walls[str(at)] for at in range(len(loads))], 1.04 * record.parameters["unit"])

    def with_slots(self, slots: int) -> Windows:
        """The windows with this number of slots, which is enough for them; not the first, which starts workers."""
        chosen = [
            at
            for at, window in enumerate(self.loads)
            if at and len(window) == slots and np.mean(window) <= self.enough
        ]
        return Windows([self.loads[at] for at in chosen], [self.seconds[at] for at in chosen], self.enough)

    @property
    def records(self) -> list[int]:
        """The tuples of each window."""
        return [sum(window) for window in self.loads]

    @property
    def mean(self) -> float:
        """The mean latency of a tuple."""
        return float(np.average(self.seconds, weights=self.records))

    @property
    def throughput(self) -> float:
        """Tuples per second."""
        return sum(self.records) / sum(self.seconds)


def _later(record: Record, algorithm: str) -> Windows:
    """All windows but the first, which starts workers."""
    windows = Windows.of(record, algorithm)
    return Windows(windows.loads[1:], windows.seconds[1:], windows.enough)


def ratios(record: Record, algorithm: str) -> list[float]:
    """μ₁/μ_n for every n: the mean latency of CLB on one instance over that of the algorithm on n instances."""
    first = Windows.of(record, "CLB").with_slots(1).mean
    windows = Windows.of(record, algorithm)
    return [first / windows.with_slots(n).mean for n in _instances(record)]


def throughputs(record: Record, algorithm: str) -> list[float]:
    """The throughput on n instances over that of CLB on one instance."""
    first = Windows.of(record, "CLB").with_slots(1).throughput
    windows = Windows.of(record, algorithm)
    return [windows.with_slots(n).throughput / first for n in _instances(record)]


def _instances(record: Record) -> range:
    return range(1, record.parameters["most"] + 1)


def noise(record: Record) -> float:
    """How much the algorithms differ on one instance, where all do the same."""
    means = [Windows.of(record, name).with_slots(1).mean for name in ALGORITHMS]
    return max(means) / min(means)


def _lower(record: Record, less: float, more: float) -> bool | None:
    """Whether `less` is below `more` by more than the noise; None if neither is."""
    if more > noise(record) * less:
        return True
    return False if less > noise(record) * more else None


def _by_algorithm(values: dict[str, float], form: str = ".3g") -> str:
    return ", ".join(f"{name} {value:{form}}" for name, value in values.items())


def _means(record: Record) -> dict[str, float]:
    return {name: _later(record, name).mean for name in ALGORITHMS}


def _summary(record: Record) -> Fact:
    rows = []
    for name in ALGORITHMS:
        windows = _later(record, name)
        quantiles = [quantile(windows.seconds, windows.records, q) for q in (0.5, 0.95)]
        values = [max(windows.seconds), windows.mean, *quantiles]
        rows.append(f"{name} {', '.join(f'{v:.2f}' for v in values)} s")
    means = _means(record)
    return Fact(_lower(record, means["ELB"], means["UHLB"]), f"max, mean, median, 95 %: {'; '.join(rows)}")


def _mean_below(less: str, more: str) -> Any:
    def check(record: Record) -> Fact:
        means = _means(record)
        return Fact(_lower(record, means[less], means[more]), _by_algorithm(means))

    return check


def _elb_longest(record: Record) -> Fact:
    longest = {name: max(_later(record, name).seconds) for name in ALGORITHMS}
    return Fact(_lower(record, longest["ELB"], longest["UHLB"]), _by_algorithm(longest))


def elb_to_uhlb(record: Record) -> float:
    """The mean latency of ELB over that of UHLB."""
    means = _means(record)
    return means["ELB"] / means["UHLB"]


def summary(record: Record) -> str:
    """Mean latency and throughput with the most instances."""
    most = record.parameters["most"]
    rates = {name: Windows.of(record, name).with_slots(most).throughput for name in ALGORITHMS}
    return (
        f"{elb_to_uhlb(record):.2f}; mean latency {_by_algorithm(_means(record), '.2f')} s; tuples per second on "
        f"{most} instances {_by_algorithm(rates, '.0f')}"
    )


def _steadier(record: Record) -> Fact:
    deviations = {name: float(np.std(ratios(record, name))) for name in ALGORITHMS}
    holds = min(deviations["UHLB"], deviations["PKG"]) > max(deviations["ELB"], deviations["CLB"])
    return Fact(holds, f"deviation of the ratio over n: {_by_algorithm(deviations)}")


def _linear(record: Record) -> Fact:
    shares = {
        name: min(
            speedup / n for n, speedup in zip(_instances(record), throughputs(record, name), strict=True)
        )
        for name in ("ELB", "CLB")
    }
    at_most = {name: throughputs(record, name)[-1] for name in shares}
    measured = f"speedup on {record.parameters['most']} instances: {_by_algorithm(at_most)}"
    return Fact(
        min(shares.values()) > 0.75, f"{measured}; least share of the ideal over n: {_by_algorithm(shares)}"
    )


def _slower(record: Record) -> Fact:
    speedups = {name: float(np.mean(throughputs(record, name))) for name in ALGORITHMS}
    facts = [_lower(record, speedups[name], speedups["ELB"]) for name in ("UHLB", "PKG")]
    holds = False if False in facts else None if None in facts else True
    return Fact(holds, f"mean speedup over n: {_by_algorithm(speedups)}")


def _clb_falls_behind(record: Record) -> Fact:
    speedups = {name: throughputs(record, name)[-1] for name in ALGORITHMS}
    return Fact(
        _lower(record, speedups["CLB"], speedups["ELB"]),
        f"on {record.parameters['most']}: {_by_algorithm(speedups)}",
    )


def draw_ratios(record: Record, figure: Figure) -> None:
    """Figure 5."""
    _draw(
        record, figure, "ratio of mean latencies μ₁/μₙ", {name: ratios(record, name) for name in ALGORITHMS}
    )


def draw_throughputs(record: Record, figure: Figure) -> None:
    """Figure 6."""
    lines = {"Ideal": [float(n) for n in _instances(record)]}
    lines |= {name: throughputs(record, name) for name in ALGORITHMS}
    _draw(record, figure, "speedup of throughput", lines)


def _draw(record: Record, figure: Figure, label: str, lines: dict[str, list[float]]) -> None:
    axes = figure.subplots()
    for (name, line), style in zip(lines.items(), styles(), strict=False):
        axes.plot(_instances(record), line, label=name, **style)
    axes.set(xlabel="instances n", ylabel=label)
    axes.legend()


COMMON: dict[str, Any] = {
    "parameters": {"unit": 4_000, "most": 15, "batches": 6, "period": 24, "threads": 16},
    "quick": {"unit": 1_000, "most": 3, "batches": 4, "period": 4},
    "compute": latencies,
    "setting": "Measured: live streams on Spark that count generated words, whose slots sleep for a millisecond per "
    "tuple: the paper's 1000 tuples per second and instance. Every count in the state at the end was checked. A tuple "
    "waits until its micro-batch is done, so its latency is the wall time of its batch, with all that Spark and moving "
    "state add on the two cores of this machine; latencies are only comparable with each other. PKG splits words at "
    "the source into two keys, each counted for itself. ELB recomputes its threshold as a slot sheds load; by the "
    "paper's listing a slot sheds at most half of the load range per window, and an added instance stays nearly empty. "
    "Orders are decided where they exceed what the algorithms differ by on one instance, where all do the same.",
    "needs_spark": True,
    "basis": Basis.MEASURED,
    "reduced": True,
}


def few_windows(record: Record) -> str:
    """What the newest instance of CLB gets, and what one run cannot resolve."""
    loads = record.results["CLB"]["loads"][-1]
    return (
        "from covariances over so few windows CLB gives a new instance one or a few substreams, not its share of the "
        f"load: in the last window the least loaded of {len(loads)} instances has {min(loads) / sum(loads):.1%} of the "
        f"tuples; guo-2 shows the same. On one instance the algorithms differ by {noise(record):.2f} ×"
    )


def by_instances(record: Record) -> str:
    """ELB's mean latency over UHLB's, where there are enough instances."""
    elb, uhlb = Windows.of(record, "ELB"), Windows.of(record, "UHLB")
    gains = ", ".join(
        f"{elb.with_slots(n).mean / uhlb.with_slots(n).mean:.2f} (n = {n})"
        for n in _instances(record)
        if n > 1
    )
    return (
        f"with enough instances ELB's mean is this part of UHLB's: {gains}. In the windows with one instance too few "
        f"all take about the same time. On one instance the algorithms differ by {noise(record):.2f} ×"
    )


LATENCY = Experiment(
    name="guo-table-2",
    title="Processing latencies",
    claims=(
        shape("ELB has a lower mean than UHLB", _summary, why=by_instances),
        shape("ELB has a lower mean than PKG", _mean_below("ELB", "PKG"), why=by_instances),
        shape("CLB has a lower mean than UHLB", _mean_below("CLB", "UHLB"), why=few_windows),
        shape("CLB has a lower mean than PKG", _mean_below("CLB", "PKG"), why=few_windows),
        shape(
            "the longest latency is shorter with ELB than with UHLB",
            _elb_longest,
            why="with every algorithm the longest is that of a window in which there is one instance too few",
        ),
        printed("ELB's mean is 0.72 of UHLB's", 0.73 / 1.01, elb_to_uhlb, within=0.15, why=by_instances),
    ),
    **COMMON,
)

RATIOS = Experiment(
    name="guo-5",
    title="Ratio of processing latencies over the number of instances",
    claims=(shape("UHLB and PKG fluctuate more than CLB and ELB", _steadier, why=few_windows),),
    draw=draw_ratios,
    **COMMON,
)

THROUGHPUT = Experiment(
    name="guo-6",
    title="Speedup of throughput over the number of instances",
    claims=(
        shape("the speedups of ELB and CLB are about linear", _linear, why=few_windows),
        shape("the speedups of UHLB and PKG are below ELB's", _slower, why=by_instances),
        shape("CLB falls behind ELB as instances are added", _clb_falls_behind, why=by_instances),
    ),
    draw=draw_throughputs,
    **COMMON,
)
