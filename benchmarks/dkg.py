"""Table 1 of Rivetti et al., DEBS 2015: how each planner's imbalance λ grows with the number of slots."""

from __future__ import annotations

import argparse

import numpy as np
from numpy.typing import NDArray

from unskew.core.histogram import DEFAULT_BUCKETS, Histogram
from unskew.core.planning import make_table
from unskew.core.routing import RoutingTable

PAPER = {
    "O-apx": (60.7, -100.0),
    "Universal mean": (60.7, -60.7),
    "Universal worst": (87.3, -73.0),
    "DKG mean": (60.7, -100.0),
    "DKG worst": (62.0, -100.0),
    "SIA": (100.0, -100.0),
}
"""The coefficients (a, b) of λ ≈ a·k + b as printed, from 10 000 runs."""

SLOTS = range(2, 11)
VALUES, LEARNED, JUDGED = 10_000, 80_000, 20_000


def dkg_table1(runs: int = 200, seed: int = 0) -> dict[str, tuple[float, float]]:
    """(a, b) of the line λ = a·k + b, in per cent, for k = 2..10 slots and Zipf-2 over 10 000 values.

    As in section 5.1: each run maps the values by a random injection into a universe 100 times larger and
    draws its own hash functions; tables are planned from 80 000 tuples and judged on the next 20 000, with
    Θ = 0.1 and μ = 2. Tuples are independent, so their counts are drawn at once. Counts are exact, where
    the paper uses Space Saving with ε = Θ/2; at these shares both name the same heavy keys.
    """
    rng = np.random.default_rng(seed)
    shares = np.arange(1, VALUES + 1.0) ** -2.0
    shares /= shares.sum()
    names = {"O-apx": "oracle", "Universal": "universal", "DKG": "dkg", "SIA": "single"}
    measured = {name: np.empty((runs, len(SLOTS))) for name in names}
    for run in range(runs):
        values = rng.choice(100 * VALUES, VALUES, replace=False)
        learned = _histogram(values, rng.multinomial(LEARNED, shares), DEFAULT_BUCKETS)
        # every value is tracked, so the oracle's buckets hold nothing: a few will do
        judged = _histogram(values, rng.multinomial(JUDGED, shares), 64)
        for name, planner in names.items():
            seen = judged if planner == "oracle" else learned
            for at, k in enumerate(SLOTS):
                table = make_table(planner, seen, k, seed=run)
                measured[name][run, at] = _lambda(table, judged)
    fits = {"O-apx": _line(measured["O-apx"].mean(axis=0))}
    for name in ("Universal", "DKG"):
        fits[f"{name} mean"] = _line(measured[name].mean(axis=0))
        fits[f"{name} worst"] = _line(measured[name].max(axis=0))
    return fits | {"SIA": _line(measured["SIA"].mean(axis=0))}


def _histogram(values: NDArray[np.int64], counts: NDArray[np.int64], buckets: int) -> Histogram:
    drawn = np.flatnonzero(counts)
    return Histogram.from_arrays(values[drawn], counts[drawn], buckets=buckets)


def _lambda(table: RoutingTable, judged: Histogram) -> float:
    """λ of equation 1, in per cent."""
    loads = np.bincount(table.slot_of_hashes(judged.hashes), judged.tracked.counts, table.slots)
    return float(loads.max() / loads.mean() - 1.0) * 100.0


def _line(imbalances: NDArray[np.float64]) -> tuple[float, float]:
    a, b = np.polyfit(np.array(SLOTS), imbalances, 1)
    return float(a), float(b)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    for name, (a, b) in dkg_table1(parser.parse_args().runs).items():
        paper_a, paper_b = PAPER[name]
        print(f"{name:16} {a:6.1f}·k {b:+7.1f}   paper {paper_a:6.1f}·k {paper_b:+7.1f}")
