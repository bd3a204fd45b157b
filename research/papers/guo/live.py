"""Section 5.2, processing latency: a word count on live streams that scale out, Table 2, Figures 5 and 6.

The paper fixes the capacity of an instance at 1000 tuples per second. So the loads of live streams on Spark, and the
time that moving their state took, give the latency on such instances.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import unskew
from research.papers.drawing import styles
from research.papers.experiment import Experiment, Fact, Record, Run, Timed, printed, shape
from research.papers.generators import words
from unskew.core.histogram import Floats

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pyspark.sql import SparkSession

CAPACITY = 1000.0
"""Tuples per second and instance."""

ALGORITHMS = ("CLB", "ELB", "UHLB")

OPTIONS = {"elb": {"recompute": True}}
"""By the paper's listing a slot of ELB sheds half the load range per window; a new instance would stay nearly empty."""


@dataclass(frozen=True)
class Periodic(unskew.Policy):
    """A policy that requires no gain, as in the paper: it switches at fixed intervals."""

    every: int = 1

    def decide(
        self,
        current: unskew.RoutingTable,
        candidate: unskew.RoutingTable,
        recent: Sequence[unskew.Histogram],  # noqa: ARG002
        costs: unskew.Costs,  # noqa: ARG002
        *,
        windows_since_switch: int | None = None,
    ) -> unskew.Decision:
        """Switch if the last switch was at least `every` windows ago."""
        due = windows_since_switch is None or windows_since_switch >= self.every
        return unskew.Decision(due and not current.same_routes(candidate), f"every {self.every} windows")


@dataclass(frozen=True)
class Load:
    """How the rate grows: `batches` windows of `unit` tuples, then as many of 2 × `unit`, up to `most` × `unit`."""

    unit: int
    most: int
    batches: int

    def write(self, folder: Path, seed: int) -> None:
        """Write the tuples, one file per window."""
        random = np.random.default_rng(seed)
        sizes = np.repeat(np.arange(1, self.most + 1) * self.unit, self.batches).tolist()
        windows = words(len(sizes), 1.5 * self.most * self.unit, seed=seed)
        for number, (window, size) in enumerate(zip(windows, sizes, strict=True)):
            tuples = random.permutation(np.repeat(window.keys, window.counts))[:size]
            path = folder / f"{number:05d}.parquet"
            pq.write_table(pa.table({"word": tuples}), path)
            # a stream reads files in the order of their times
            os.utime(path, (1e9 + number, 1e9 + number))


@lru_cache(maxsize=8)
def counted(spark: SparkSession, planner: str, load: Load, every: int, seed: int) -> list[dict[str, Any]]:
    """The journal of a live word count that adds an instance whenever the rate requires one.

    Cached, since three figures show the same streams.
    """
    with TemporaryDirectory(prefix="unskew-papers-") as folder:
        source = Path(folder, "words")
        source.mkdir()
        load.write(source, seed)
        events = spark.readStream.schema("word long").option("maxFilesPerTrigger", 1).parquet(str(source))
        query = (
            unskew.stream(events, "word")
            .aggregate(n=unskew.count())
            .start(
                _compute,
                checkpoint=str(Path(folder, "checkpoint")),
                trigger="availableNow",
                slots=1,
                policy=Periodic(every=every),
                placement=unskew.Placement(
                    max_slots=load.most,
                    planner=planner,
                    options=OPTIONS.get(planner, {}),
                    # the mean load of an instance at its rate lies within, that of one instance too few above
                    scaling=unskew.LoadRange(0.99 * load.unit, 1.04 * load.unit),
                ),
            )
        )
        query.awaitTermination()
        return query.journal()


def _compute(df: Any, _batch: int) -> None:
    df.write.format("noop").mode("overwrite").save()


def latencies(run: Run) -> dict[str, Any]:
    """The slot loads and the keys moved in every window, by algorithm; the seconds of moving as times."""
    parameters = run.parameters

    def measure(algorithm: str) -> Timed:
        load = Load(parameters["unit"], parameters["most"], parameters["batches"])
        every = parameters["period"] if algorithm == "CLB" else 1
        lines = counted(run.spark, algorithm.lower(), load, every, run.seed)
        figures = {"loads": [line["loads"] for line in lines], "moved": [_keys(line) for line in lines]}
        return Timed(figures, {str(line["batch"]): _moving(line) for line in lines})

    figures = run.each([{"algorithm": algorithm} for algorithm in ALGORITHMS], measure)
    return dict(zip(ALGORITHMS, figures, strict=True))


def _keys(line: dict[str, Any]) -> int:
    moved: int = line["moved"]["rows"]
    return moved


def _moving(line: dict[str, Any]) -> float:
    seconds = line["seconds"]["slots"]
    return float(seconds.get("export", 0.0) + seconds.get("import", 0.0))


@dataclass(frozen=True, eq=False)
class Windows:
    """The time that instances of the paper's capacity would take: loads and seconds of the slots in each window."""

    loads: list[Floats]
    seconds: list[Floats]
    enough: float
    """The mean load above which there is one instance too few."""

    @classmethod
    def of(cls, record: Record, algorithm: str) -> Windows:
        """Every tuple of a slot waits until the slot is done, and all wait while state moves."""
        loads = [np.array(window, dtype=np.float64) for window in record.results[algorithm]["loads"]]
        moving = record.times["points"][ALGORITHMS.index(algorithm)]["parts"]
        seconds = [window / CAPACITY + moving[str(at)] for at, window in enumerate(loads)]
        return cls(loads, seconds, 1.04 * record.parameters["unit"])

    def with_slots(self, slots: int) -> Windows:
        """The windows with this number of slots, which is enough for them."""
        chosen = [
            at
            for at, window in enumerate(self.loads)
            if len(window) == slots and window.mean() <= self.enough
        ]
        return Windows([self.loads[at] for at in chosen], [self.seconds[at] for at in chosen], self.enough)

    @property
    def mean(self) -> float:
        """The mean latency of a tuple."""
        return float(np.average(np.concatenate(self.seconds), weights=np.concatenate(self.loads)))

    @property
    def most(self) -> float:
        """The longest latency."""
        return float(max(window.max() for window in self.seconds))

    def quantile(self, q: float) -> float:
        """The latency that a share `q` of the tuples does not exceed."""
        seconds, loads = np.concatenate(self.seconds), np.concatenate(self.loads)
        order = np.argsort(seconds)
        at = np.searchsorted(np.cumsum(loads[order]), q * loads.sum())
        return float(seconds[order][min(int(at), len(seconds) - 1)])

    @property
    def throughput(self) -> float:
        """Tuples per second: a window lasts until its last slot is done."""
        return float(sum(w.sum() for w in self.loads) / sum(window.max() for window in self.seconds))


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


def _by_algorithm(values: dict[str, float], form: str = ".3g") -> str:
    return ", ".join(f"{name} {value:{form}}" for name, value in values.items())


def _summary(record: Record) -> Fact:
    by_algorithm = {}
    for name in ALGORITHMS:
        windows = Windows.of(record, name)
        quantiles = [windows.quantile(q) for q in (0.5, 0.95)]
        by_algorithm[name] = [windows.most, windows.mean, *quantiles]
    table = "; ".join(
        f"{name} {', '.join(f'{v:.2f}' for v in values)} s" for name, values in by_algorithm.items()
    )
    return Fact(by_algorithm["ELB"][1] < by_algorithm["UHLB"][1], f"max, mean, median, 95 %: {table}")


def _clb_mean(record: Record) -> Fact:
    means = {name: Windows.of(record, name).mean for name in ALGORITHMS}
    return Fact(means["CLB"] < means["UHLB"], _by_algorithm(means))


def _elb_longest(record: Record) -> Fact:
    longest = {name: Windows.of(record, name).most for name in ALGORITHMS}
    return Fact(longest["ELB"] < longest["UHLB"], _by_algorithm(longest))


def _elb_to_uhlb(record: Record) -> float:
    return Windows.of(record, "ELB").mean / Windows.of(record, "UHLB").mean


def _steadier(record: Record) -> Fact:
    deviations = {name: float(np.std(ratios(record, name))) for name in ALGORITHMS}
    holds = deviations["UHLB"] > max(deviations["ELB"], deviations["CLB"])
    return Fact(holds, f"deviation of the ratio over n: {_by_algorithm(deviations)}")


def _linear(record: Record) -> Fact:
    n = list(_instances(record))
    correlations = {name: float(np.corrcoef(n, throughputs(record, name))[0, 1]) for name in ("ELB", "CLB")}
    return Fact(min(correlations.values()) > 0.95, f"correlation with n: {_by_algorithm(correlations)}")


def _at_most(record: Record) -> dict[str, float]:
    return {name: throughputs(record, name)[-1] for name in ALGORITHMS}


def _uhlb_slower(record: Record) -> Fact:
    speedups = {name: float(np.mean(throughputs(record, name))) for name in ALGORITHMS}
    return Fact(speedups["UHLB"] < speedups["ELB"], f"mean speedup over n: {_by_algorithm(speedups)}")


def _clb_falls_behind(record: Record) -> Fact:
    speedups = _at_most(record)
    return Fact(
        speedups["CLB"] < speedups["ELB"], f"on {record.parameters['most']}: {_by_algorithm(speedups)}"
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
    "parameters": {"unit": 10_000, "most": 15, "batches": 6, "period": 24},
    "quick": {"most": 4, "batches": 4, "period": 4},
    "compute": latencies,
    "setting": "Live streams on Spark count generated words. A tuple waits until its slot is done with the "
    "micro-batch, so latencies are those of batches and only comparable with each other. PKG is left out: it splits "
    "keys, and a live stream keeps the state of a key in one place. ELB recomputes its threshold as a slot sheds load; "
    "by the paper's listing a slot sheds at most half of the load range per window, and an added instance stays nearly "
    "empty.",
    "needs_spark": True,
}

CLB = (
    "from covariances over so few windows CLB gives a new instance one or a few substreams and not half of the load: "
    "the second instance got 67 keys in the quick set; guo-2 shows the same"
)

LATENCY = Experiment(
    name="guo-table-2",
    title="Processing latencies",
    claims=(
        shape("ELB has a lower mean than UHLB", _summary),
        shape("CLB has a lower mean than UHLB", _clb_mean, why=CLB),
        shape(
            "the longest latency is shorter with ELB than with UHLB",
            _elb_longest,
            why="with every algorithm the longest is that of the window in which one instance has the tuples of two",
        ),
        printed(
            "ELB's mean is 0.72 of UHLB's",
            0.73 / 1.01,
            _elb_to_uhlb,
            within=0.15,
            why="with enough instances ELB's mean is 0.997, 0.995 and 0.945 of UHLB's on 2, 3 and 4 instances (quick "
            "set): a random function is less even the more instances there are. In the windows with one instance too "
            "few both take about the same time",
        ),
    ),
    **COMMON,
)

RATIOS = Experiment(
    name="guo-5",
    title="Ratio of processing latencies over the number of instances",
    claims=(
        shape(
            "UHLB fluctuates more than CLB and ELB", _steadier, why=f"it holds for ELB, not for CLB: {CLB}"
        ),
    ),
    draw=draw_ratios,
    **COMMON,
)

THROUGHPUT = Experiment(
    name="guo-6",
    title="Speedup of throughput over the number of instances",
    claims=(
        shape("the speedups of ELB and CLB are about linear", _linear, why=CLB),
        shape("UHLB's speedup is below ELB's", _uhlb_slower),
        shape("CLB falls behind ELB as instances are added", _clb_falls_behind),
    ),
    draw=draw_throughputs,
    **COMMON,
)
