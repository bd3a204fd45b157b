"""Streams of section 5.1, routed by tables that were planned from their first part.

Each run maps the values by a random injection into a universe 100 times as large and draws its own hash functions.
Tables are planned from 80 000 tuples and judged on the next 20 000. Tuples are independent, so the counts of each
part are drawn at once. Counts are exact, where the paper has Space Saving with ε = Θ/2: both find every key above Θ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from research.measures import load_deviation, percentage_of_imbalance
from research.papers.experiment import Run
from research.workloads import zipf
from unskew.core.hashing import Hashes
from unskew.core.histogram import DEFAULT_BUCKETS, Floats, Histogram, sum_by
from unskew.core.plan import make_table
from unskew.core.planners.pkg import less_loaded, route
from unskew.core.routing import Slots

VALUES, LEARNED, JUDGED = 10_000, 80_000, 20_000
PLANNERS_WITH_OPTIONS = frozenset({"dkg", "dkg-wosim", "dkg-pkg"})
CHUNK = 100
"""Runs that are saved together, so that a stopped experiment loses at most these."""


@dataclass(frozen=True)
class Case:
    """A planner with its options on k slots, after `learned` tuples."""

    planner: str
    slots: int
    options: tuple[tuple[str, Any], ...] = ()
    learned: int = LEARNED

    @property
    def squared(self) -> bool:
        """Whether a key of f tuples costs f²."""
        return ("cost", "quadratic") in self.options


class Stream:
    """One run: the part a table learns from and the part it is judged on."""

    def __init__(self, exponent: float, run: int, seed: int) -> None:
        self._run = run
        self._random = np.random.default_rng([seed, run])
        self._shares = zipf(VALUES, exponent)
        self._values = self._random.choice(100 * VALUES, VALUES, replace=False)
        self._counts = self._random.multinomial(JUDGED, self._shares)
        self._histograms: dict[int, Histogram] = {}
        # every value is tracked, so the oracle's buckets are empty: a few are enough
        self._judged = {cost: self._histogram(self._counts**cost, 64) for cost in (1, 2)}

    def loads(self, case: Case) -> Floats:
        """The load of each slot in the judged part."""
        judged = self._judged[2 if case.squared else 1]
        if case.planner == "pkg":
            return self._tuples_per_slot(route(self._tuples, case.slots, seed=self._run), case.slots)
        if case.planner == "oracle":
            table = make_table("oracle", judged, case.slots)
        else:
            options = dict(case.options) if case.planner in PLANNERS_WITH_OPTIONS else {}
            table = make_table(case.planner, self._learn(case.learned), case.slots, seed=self._run, **options)
        if table.is_split:
            choices = [table.slot_of_hashes(self._tuples, choice) for choice in (0, 1)]
            return self._tuples_per_slot(less_loaded(np.stack(choices, axis=1), case.slots), case.slots)
        slots = table.slot_of_hashes(judged.hashes)
        return sum_by(slots, judged.tracked.weights, case.slots)

    @cached_property
    def _tuples(self) -> Hashes:
        """The judged part as hashes, in the order of arrival."""
        judged = self._judged[1]
        return self._random.permutation(np.repeat(judged.hashes, judged.tracked.weights.astype(np.int64)))

    def _learn(self, tuples: int) -> Histogram:
        if tuples not in self._histograms:
            counts = self._random.multinomial(tuples, self._shares)
            self._histograms[tuples] = self._histogram(counts, DEFAULT_BUCKETS)
        return self._histograms[tuples]

    def _histogram(self, loads: NDArray[np.int64], buckets: int) -> Histogram:
        present = np.flatnonzero(loads)
        return Histogram.from_arrays(self._values[present], loads[present], buckets=buckets)

    def _tuples_per_slot(self, slots: Slots, count: int) -> Floats:
        return np.bincount(slots, minlength=count).astype(np.float64)


@lru_cache(maxsize=128)
def figures(exponent: float, first: int, runs: int, seed: int, cases: tuple[Case, ...]) -> Floats:
    """λ and σ by run and case; cached, since several figures show the same runs."""
    values = np.empty((runs, len(cases), 2))
    for at in range(runs):
        stream = Stream(exponent, first + at, seed)
        for number, case in enumerate(cases):
            loads = stream.loads(case)
            values[at, number] = percentage_of_imbalance(loads), load_deviation(loads)
    return values


def chunks(runs: int, exponent: float) -> list[dict[str, Any]]:
    """The runs of one distribution as points of an experiment."""
    return [
        {"exponent": exponent, "first": first, "runs": min(CHUNK, runs - first)}
        for first in range(0, runs, CHUNK)
    ]


def lines(run: Run, exponent: float, cases: Mapping[str, Sequence[Case]]) -> dict[str, Any]:
    """λ in per cent and σ in tuples for each named line of cases: mean and worst of all runs."""
    points = chunks(run.parameters["runs"], exponent)
    flat = tuple(case for line in cases.values() for case in line)

    def measure(exponent: float, first: int, runs: int) -> dict[str, list[list[float]]]:
        values = figures(exponent, first, runs, run.seed, flat)
        return {"mean": values.mean(axis=0).tolist(), "worst": values.max(axis=0).tolist()}

    parts = run.each(points, measure)
    means = np.average([p["mean"] for p in parts], axis=0, weights=[p["runs"] for p in points])
    worst = np.max([p["worst"] for p in parts], axis=0)
    columns = np.hstack([means, worst]).T.tolist()
    measures = dict(zip(("λ", "σ", "λ worst", "σ worst"), columns, strict=True))
    by_name, at = {}, 0
    for name, line in cases.items():
        by_name[name] = {measure: column[at : at + len(line)] for measure, column in measures.items()}
        at += len(line)
    return by_name
