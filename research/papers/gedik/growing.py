"""The experiment behind most of Gedik's figures: channels added one at a time under a Zipf load (section 5.1)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np

from research.measures import relative_imbalance, relative_migration
from research.papers.experiment import Parameters, Record, Run
from unskew.core.histogram import Histogram, Measures
from unskew.core.plan import make_table
from unskew.core.routing import RoutingTable

BUCKETS = 2**18
"""A quarter of the default keys: enough that buckets do not visibly add to the unevenness of the ring."""

HEAD = 10**6
"""Keys that are placed one by one; the lighter ones of a larger domain are spread evenly."""

ALPHA = 1.2

PLANNERS = {"uniform": "hash", "consistent": "ring", "scan": "scan", "redist": "redist", "readj": "readj"}
OURS = ("scan", "redist", "readj")
"""The paper's own three algorithms."""

DEFAULTS: dict[str, Any] = {
    "resources": ["LCL"],
    "keys": [10**6],
    "z": [1.0],
    "slots": [10],
    "sigma": [0.1],
    "utility": ["APM"],
    "planner": list(PLANNERS),
    "runs": 20,
}
"""Table 1 of the paper; it does not give a number of runs."""

ALL_RESOURCES = ["CCL", "LCL", "LLL", "LQL"]


@dataclass(frozen=True)
class Setting:
    """A planner under a load; every run numbers the keys differently, so that they hash to other places."""

    planner: str
    resources: str = "LCL"
    keys: int = 10**6
    z: float = 1.0
    sigma: float = 0.1
    utility: str = "APM"
    run: int = 0

    @property
    def load(self) -> Histogram:
        """What the planner sees: the exact frequencies."""
        return zipf(self.keys, self.z, self.run)

    def next_table(self, slots: int, before: RoutingTable) -> RoutingTable:
        """The planner's table for `slots` channels, from the table for one channel fewer."""
        options: dict[str, Any] = {}
        if self.planner in OURS:
            options = {"resources": self.resources, "sigma": self.sigma, "utility": self.utility}
        return make_table(PLANNERS[self.planner], self.load, slots, before, seed=self.run, **options)


@lru_cache(maxsize=2)
def zipf(keys: int, z: float, run: int) -> Histogram:
    """The exact frequencies of a Zipf distribution, the k-th key ∝ 1 / k^z."""
    weights = np.arange(1, min(keys, HEAD) + 1, dtype=np.float64) ** -z
    first = run * HEAD
    head = Histogram.from_arrays(np.arange(first, first + len(weights)), weights, buckets=BUCKETS)
    if keys <= HEAD:
        return head
    tail = sum(float((np.arange(a + 1, a + HEAD + 1.0) ** -z).sum()) for a in range(HEAD, keys, HEAD))
    even = np.full(BUCKETS, tail / BUCKETS)
    distinct = head.rest_distinct + (keys - HEAD) / BUCKETS
    return replace(head, rest=head.rest + Measures.of(even), rest_distinct=distinct)


@lru_cache(maxsize=64)
def grown(setting: Setting, slots: int) -> RoutingTable:
    """The table after growing from 1 channel to `slots`, one at a time."""
    if slots == 0:
        return RoutingTable.hashed(1, BUCKETS, setting.load.key_type)
    return setting.next_table(slots, grown(setting, slots - 1))


def measure(slots: int, **setting: Any) -> dict[str, float]:
    """b, its parts, m and the number of rows after the last step."""
    chosen = Setting(**setting)
    before, after = grown(chosen, slots - 1), grown(chosen, slots)
    balance = relative_imbalance(after, chosen.load, chosen.resources, ALPHA)
    parts = dict(zip(("b_s", "b_c", "b_n"), balance.per_resource, strict=True))
    moved = relative_migration(before, after, chosen.load, chosen.resources[0])
    return {"b": balance.overall, **parts, "m": moved, "rows": len(after.hashes)}


def sweep(run: Run) -> list[dict[str, Any]]:
    """One row per combination of the parameters: mean and standard error of all runs."""
    return averaged(run.each(points(run.parameters), measure), run.parameters)


def points(parameters: Parameters) -> list[dict[str, Any]]:
    """All runs of all combinations; those with the same load follow each other."""
    names = ("keys", "z", "run", "resources", "sigma", "utility", "planner", "slots")
    axes = {**parameters, "run": range(parameters["runs"])}
    combinations = [
        dict(zip(names, values, strict=True)) for values in product(*(axes[name] for name in names))
    ]
    # LQL has its own range of skew, as in Figures 4 and 10
    ranges: Mapping[str, Sequence[float]] = parameters.get("z_of", {})
    return [point for point in combinations if point["z"] in ranges.get(point["resources"], axes["z"])]


def averaged(figures: Sequence[Mapping[str, float]], parameters: Parameters) -> list[dict[str, Any]]:
    """One row per combination: the means of its runs, their standard errors, and m and b run by run."""
    groups: dict[tuple[Any, ...], list[Mapping[str, float]]] = {}
    names: list[str] = []
    for point, measures in zip(points(parameters), figures, strict=True):
        names = [name for name in point if name != "run"]
        groups.setdefault(tuple(point[name] for name in names), []).append(measures)
    return [dict(zip(names, at, strict=True)) | _summary(runs) for at, runs in groups.items()]


def _summary(runs: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    values = {name: [run[name] for run in runs] for name in runs[0]}
    spread = {name: standard_error(v) for name, v in values.items()}
    # all planners see the same loads in a run, so their runs can be compared one by one
    by_run = {name: [round(x, 4) for x in values[name]] for name in ("m", "b") if name in values}
    return {name: float(np.mean(v)) for name, v in values.items()} | {"errors": spread, "by run": by_run}


def standard_error(values: Sequence[float]) -> float:
    """The standard error of the mean; 0 for a single value."""
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0


def rows(record: Record, **parameters: Any) -> list[dict[str, Any]]:
    """The rows with these parameters."""
    return [row for row in record.results if all(row[name] == value for name, value in parameters.items())]


def value(record: Record, measure: str, **parameters: Any) -> float:
    """A measure of the only row with these parameters."""
    (row,) = rows(record, **parameters)
    return float(row[measure])


def shown(record: Record, measure: str, **parameters: Any) -> str:
    """The mean with its standard error."""
    (row,) = rows(record, **parameters)
    return f"{row[measure]:.2f} ± {row['errors'][measure]:.2f}"


def listed(record: Record, measure: str, planners: Sequence[str], **parameters: Any) -> str:
    """The means of several planners with their standard errors."""
    return ", ".join(f"{p} {shown(record, measure, planner=p, **parameters)}" for p in planners)


def lower(record: Record, measure: str, planner: str, rival: str, **parameters: Any) -> bool | None:
    """Whether a planner's measure is below its rival's; None if the runs do not show it.

    Decided by the differences run by run: two standard errors of their mean. Means within 1 % count as equal, and
    equal ones do not contradict an order.
    """
    (a,), (b,) = (rows(record, planner=name, **parameters) for name in (planner, rival))
    difference = a[measure] - b[measure]
    if abs(difference) <= 0.01 * b[measure]:
        return True
    pairs = [x - y for x, y in zip(a["by run"][measure], b["by run"][measure], strict=True)]
    if len(pairs) < 2 or abs(difference) <= 2 * standard_error(pairs):
        return None
    return bool(difference < 0)


def every(holds: Iterable[bool | None]) -> bool | None:
    """False if one is false, None if one is undecided, otherwise true."""
    answers = set(holds)
    return False if False in answers else None if None in answers else True
