"""Streams of section 5.1, routed by placements that were planned from their first part.

Each run maps the values by a random injection into a universe 100 times as large and draws its own hash functions,
which hash the values themselves (`keyed.py`). A placement is planned from 80 000 tuples and judged on the next 20 000.
Tuples are independent, so the counts of each part are drawn at once. Counts are exact, where the paper has Space
Saving with ε = Θ/2: both find every key above Θ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from research.measures import load_deviation, percentage_of_imbalance
from research.papers.dkg.keyed import place
from research.papers.experiment import Run
from research.workloads import zipf
from unskew.core.histogram import Floats
from unskew.core.planners.pkg import less_loaded, route
from unskew.core.routing import Slots

VALUES, LEARNED, JUDGED = 10_000, 80_000, 20_000
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
        self._judged = self._random.multinomial(JUDGED, self._shares).astype(np.float64)
        self._learned: dict[int, tuple[Floats, NDArray[np.int64]]] = {}

    def loads(self, case: Case) -> Floats:
        """The load of each slot in the judged part."""
        judged = self._judged**2 if case.squared else self._judged
        if case.planner == "pkg":
            return _per_slot(route(self._values[self._tuples], case.slots, seed=self._run), case.slots)
        counts, present = self._learn(case.learned)
        named = place(
            case.planner,
            self._values[present],
            counts[present],
            judged[present],
            case.slots,
            self._run,
            dict(case.options),
        )
        if named.shape[1] > 1:
            of_values = np.zeros((VALUES, named.shape[1]), dtype=np.int64)
            of_values[present] = named
            return _per_slot(less_loaded(of_values[self._tuples], case.slots), case.slots)
        return np.bincount(named[:, 0], judged[present], case.slots).astype(np.float64)

    @cached_property
    def _tuples(self) -> NDArray[np.int64]:
        """The values of the judged part, by their index, in the order of arrival."""
        return self._random.permutation(np.repeat(np.arange(VALUES), self._judged.astype(np.int64)))

    def _learn(self, tuples: int) -> tuple[Floats, NDArray[np.int64]]:
        """How often each value was learned, and the values that were learned or are judged: no other one matters."""
        if tuples not in self._learned:
            counts = self._random.multinomial(tuples, self._shares).astype(np.float64)
            self._learned[tuples] = counts, np.flatnonzero(counts + self._judged)
        return self._learned[tuples]


def _per_slot(slots: Slots, count: int) -> Floats:
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
    """λ in per cent and σ in tuples for each named line of cases: mean, its error and worst of all runs."""
    points = chunks(run.parameters["runs"], exponent)
    flat = tuple(case for line in cases.values() for case in line)

    def measure(exponent: float, first: int, runs: int) -> dict[str, list[list[float]]]:
        values = figures(exponent, first, runs, run.seed, flat)
        return {
            "mean": values.mean(axis=0).tolist(),
            "scatter": values.var(axis=0).tolist(),
            "worst": values.max(axis=0).tolist(),
        }

    parts = run.each(points, measure)
    sizes = [p["runs"] for p in points]
    by_part = np.array([p["mean"] for p in parts])
    means = np.average(by_part, axis=0, weights=sizes)
    within = np.average([p["scatter"] for p in parts], axis=0, weights=sizes)
    between = np.average((by_part - means) ** 2, axis=0, weights=sizes)
    errors = np.sqrt((within + between) / max(sum(sizes) - 1, 1))
    worst = np.max([p["worst"] for p in parts], axis=0)
    columns = np.hstack([means, worst, errors]).T.tolist()
    names = ("λ", "σ", "λ worst", "σ worst", "λ error", "σ error")
    measures = dict(zip(names, columns, strict=True))
    by_name, at = {}, 0
    for name, line in cases.items():
        by_name[name] = {measure: column[at : at + len(line)] for measure, column in measures.items()}
        at += len(line)
    return by_name
