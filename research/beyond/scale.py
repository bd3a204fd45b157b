"""The design at a scale that no machine here has, by simulation: 10⁹ keys on up to 10⁵ slots."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from research.papers.drawing import styles
from research.papers.experiment import Experiment, Fact, Record, Run, Timed, number, shape
from unskew.core.chains.matching import best_matching
from unskew.core.histogram import Floats, Histogram, Measures
from unskew.core.loads import lower_bound, migration, slot_loads
from unskew.core.plan import make_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FEW, MANY = 20, 100
"""Buckets per slot: what unskew advises, and what KIP uses."""

GROUP = 5
"""Neighbours in rank that trade their frequencies between two windows."""

STATE_BYTES = 100
"""State of a key: a count, a sum and the key itself, as Arrow and RocksDB store them."""

NODES = 1000


@dataclass(frozen=True)
class Population:
    """Zipf keys, too many to draw all of them one by one: only the `heavy` most frequent ones are.

    The others are drawn by bucket. A bucket holds a random set of them, so its share is normally distributed with
    the sum of their squares as its variance; the sum of many small counts is Poisson-distributed.
    """

    keys: int
    exponent: float
    heavy: int
    records: int

    @property
    def mass(self) -> float:
        """The sum of k^-exponent over all keys, with the tail as an integral."""
        first = np.arange(1, 1001) ** -self.exponent
        return float(first.sum() + self._between(1000, self.keys, self.exponent))

    @property
    def heaviest(self) -> float:
        """f₁, the share of the heaviest key."""
        return 1.0 / self.mass

    def windows(self, buckets: int, seed: int) -> tuple[Histogram, Histogram]:
        """Two windows; between them every `GROUP` neighbours in rank trade frequencies."""
        random = np.random.default_rng(seed)
        head = np.arange(1, self.heavy + 1).astype(np.float64) ** -self.exponent / self.mass
        squares = self._between(self.heavy, self.keys, 2 * self.exponent) / self.mass**2
        rest = random.normal((1.0 - head.sum()) / buckets, np.sqrt(squares / buckets), buckets)
        traded = random.permuted(head.reshape(-1, GROUP), axis=1).ravel()
        first, second = (self._window(random, f, np.maximum(rest, 0.0)) for f in (head, traded))
        return first, second

    def _window(self, random: np.random.Generator, head: Floats, rest: Floats) -> Histogram:
        tracked = Histogram.from_arrays(
            np.arange(self.heavy),
            random.poisson(self.records * head),
            state=np.full(self.heavy, float(STATE_BYTES)),
            buckets=len(rest),
            capacity=self.heavy,
        )
        counts = random.poisson(self.records * rest).astype(np.float64)
        distinct = np.full(len(rest), (self.keys - self.heavy) / len(rest))
        return replace(tracked, rest=Measures(counts, counts, distinct * STATE_BYTES), rest_distinct=distinct)

    @staticmethod
    def _between(low: int, high: int, exponent: float) -> float:
        """The integral of k^-exponent, by the midpoint rule."""
        if exponent == 1.0:
            return float(np.log((high + 0.5) / (low + 0.5)))
        power = 1.0 - exponent
        return float(((high + 0.5) ** power - (low + 0.5) ** power) / power)


def grow(run: Run) -> dict[str, Any]:
    """Plans for every number of slots and heavy keys, matching of servers, and where one key bounds the job."""
    stream = dict(run.parameters)
    sizes, servers = stream.pop("sizes"), stream.pop("servers")
    points: list[dict[str, Any]] = [
        {"slots": slots, "heavy": heavy, "each": each, **stream} for slots, heavy, each in sizes
    ]
    plans = run.each(points, lambda **point: _plan_twice(run.seed, **point))
    run.each([{"servers": count} for count in servers], lambda servers: _match(run.seed, servers))
    bounds = {f"{z:g}": 1.0 / Population(stream["keys"], z, 1, 1).heaviest for z in (0.5, 0.8, 1.0, 1.2)}
    return {"plans": plans, "one key bounds from": bounds}


def _plan_twice(
    seed: int, slots: int, heavy: int, each: int, keys: int, exponent: float, records: int
) -> Timed:
    buckets = 1 << int(np.ceil(np.log2(slots * each)))
    before, after = Population(keys, exponent, heavy, records).windows(buckets, seed)
    # every heavy key gets its own row, however small a part of a slot it is
    options: Mapping[str, Any] = {"grain": 1e-12, "rows": 2 * heavy}
    started = time.perf_counter()
    table = make_table("keel", before, slots, **options)
    planned = time.perf_counter()
    following = make_table("keel", after, slots, table, **options)
    replanned = time.perf_counter()
    data = following.to_bytes()
    written = time.perf_counter()
    moves = migration(table, following, after)
    bound = lower_bound(after, slots)
    highest = [float(slot_loads(t, after).max() * slots / after.total) for t in (table, following)]
    source, target = (
        np.concatenate(both).astype(np.int64)
        for both in ((moves.key_from, moves.bucket_from), (moves.key_to, moves.bucket_to))
    )
    figures = {
        "slots": slots,
        "heavy": heavy,
        "each": each,
        "rows": len(following.hashes),
        "buckets": buckets,
        "bytes": len(data),
        "expression": _expression(len(following.hashes), buckets, slots),
        "bound": bound,
        "stale": highest[0] / bound,
        "fit": highest[1] / bound,
        "moved": moves.state_share,
        "traffic": moves.state,
        "entries": len(moves),
        "handoffs": len(np.unique(source * slots + target)),
    }
    return Timed(
        figures, {"first": planned - started, "next": replanned - planned, "bytes": written - replanned}
    )


def _expression(rows: int, buckets: int, slots: int) -> int:
    """Characters of the table as a Spark expression: an array of buckets, and one of at least two cells per row."""
    cells = 1 << (2 * rows - 1).bit_length()
    slot, key = len(str(slots)) + 1, 21
    return cells * (key + slot) + buckets * slot


def _match(seed: int, servers: int) -> Timed:
    overlap = np.random.default_rng(seed).random((servers, servers))
    started = time.perf_counter()
    best_matching(overlap)
    return Timed(None, {"matching": time.perf_counter() - started})


def seconds(record: Record, part: str) -> list[float]:
    """The seconds of one part, point by point."""
    return [point["parts"][part] for point in record.times["points"] if part in point["parts"]]


def _even(record: Record) -> Fact:
    worst = max(record.results["plans"], key=lambda plan: plan["fit"])
    return Fact(worst["fit"] <= 1.05, f"at most {worst['fit']:.3f} × the bound, at {worst['slots']:,} slots")


def _moves_little(buckets_per_slot: int) -> Callable[[Record], Fact]:
    def check(record: Record) -> Fact:
        plans = (plan for plan in record.results["plans"] if plan["each"] == buckets_per_slot)
        most = max(plans, key=lambda plan: float(plan["moved"]))
        megabytes = most["traffic"] / NODES / 1e6
        measured = f"at most {most['moved']:.3%} of the state, {megabytes:.1f} MB per node of {NODES}"
        return Fact(most["moved"] <= 0.05, f"{measured}, at {most['slots']:,} slots")

    return check


def draw(record: Record, figure: Figure) -> None:
    """Planning time, and the size of the table, over the number of slots."""
    plans = record.results["plans"]
    slots = [plan["slots"] for plan in plans]
    left, right = figure.subplots(1, 2)
    lines = {"first plan": seconds(record, "first"), "next plan": seconds(record, "next")}
    sizes = {
        "table": [plan["bytes"] / 1e6 for plan in plans],
        "as an expression": [plan["expression"] / 1e6 for plan in plans],
        "state moved, per node": [plan["traffic"] / NODES / 1e6 for plan in plans],
    }
    for axes, curves, label in ((left, lines, "seconds"), (right, sizes, "MB")):
        for (name, line), style in zip(curves.items(), styles(), strict=False):
            axes.plot(slots, line, label=name, linestyle="", **style)
        axes.set(xscale="log", yscale="log", xlabel="slots", ylabel=label)
        axes.legend(fontsize=7)


WHY_MOVES = (
    "light keys fill buckets evenly, so a slot of about 26 buckets has 26 or 27 of them: steps of 4 %, where the "
    "target is 1 %. Single moves do not reach it; a plan from scratch comes a little closer, and keel takes that. "
    "With more buckets per slot, see above, the target is met and next to nothing moves."
)

SCALE = Experiment(
    name="scale",
    title="10⁹ keys on up to 10⁵ slots, by simulation",
    parameters={
        "sizes": (
            (1000, 10_000, FEW),
            (1000, 1_000_000, FEW),
            (1000, 1_000_000, MANY),
            (10_000, 100_000, FEW),
            (10_000, 100_000, MANY),
            (10_000, 1_000_000, MANY),
            (100_000, 1_000_000, FEW),
        ),
        "servers": (100, 300, 1000),
        "keys": 10**9,
        "exponent": 0.5,
        "records": 10**9,
    },
    quick={
        "sizes": ((1000, 10_000, FEW), (1000, 100_000, FEW), (10_000, 100_000, FEW), (10_000, 100_000, MANY)),
        "servers": (100, 300),
    },
    compute=grow,
    claims=(
        shape("keel balances within 5 % of the bound", _even),
        shape(
            "a reconfiguration moves at most 5 % of the state with 100 buckets per slot", _moves_little(MANY)
        ),
        number(
            "a reconfiguration moves at most 5 % of the state with 20 buckets per slot",
            _moves_little(FEW),
            why=WHY_MOVES,
        ),
    ),
    draw=draw,
    setting=(
        f"Zipf keys; the heavy ones drawn one by one, the others by bucket; {STATE_BYTES} bytes of state per key. "
        f"Between two windows every {GROUP} neighbours in rank trade their frequencies."
    ),
    size=(9.0, 3.8),
)
