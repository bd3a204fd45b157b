"""Random small planning problems for Gedik's planners, as histograms and as the input of the listings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.core.listings.gedik import UTILITY, Case
from unskew.core.histogram import Histogram
from unskew.core.planners.ring import ring
from unskew.core.routing import RoutingTable

BETA: dict[str, Callable[[float], float]] = {"L": lambda f: f, "Q": lambda f: f * f}
RESOURCES = ("LCL", "LLL", "LQL", "CCL", "QQL", "CQC", "LCC")
ALPHA = 1.2


def random_problem(seed: int) -> tuple[Histogram, int, RoutingTable | None, dict[str, Any]]:
    """A histogram, N, a previous table (or none) and options; N grows, shrinks or stays."""
    rng = np.random.default_rng(seed)
    keys = int(rng.integers(2, 12))
    top = int(rng.choice([3, 20, 1000]))  # few distinct counts make many ties
    counts = {int(k): float(rng.integers(1, top + 1)) for k in range(keys)}
    histogram = Histogram.from_counts(counts, buckets=16)
    slots = int(rng.integers(2, 6))
    options = {
        "resources": RESOURCES[rng.integers(len(RESOURCES))],
        "utility": list(UTILITY)[rng.integers(len(UTILITY))],
        "sigma": float(rng.choice([0.1, 0.5, 1.0])),
        "alpha": ALPHA,
        "seed": int(rng.integers(3)),
    }
    previous = None
    if rng.random() < 0.85:
        before = int(rng.integers(1, 8))
        # rows for keys that are still measured, and for keys that are not any more
        heavy = [int(k) for k in range(keys + 3) if rng.random() < 0.5]
        placed = rng.integers(0, before, len(heavy))
        cells = ring(before, 16, seed=options["seed"]) if rng.random() < 0.5 else rng.integers(0, before, 16)
        previous = RoutingTable.build(before, cells, heavy, placed, key_type=histogram.key_type)
    return histogram, slots, previous, options


def as_case(
    histogram: Histogram,
    slots: int,
    previous: RoutingTable | None,
    table: RoutingTable,
    options: dict[str, Any],
) -> Case:
    """The problem for the listings: the keys that have a row in `table` are the tracked ones."""
    hashes = dict(zip(histogram.keys.to_pylist(), histogram.hashes.tolist(), strict=True))
    f = dict(zip(hashes, (histogram.tracked.weights / histogram.total).tolist(), strict=True))
    tracked = set(table.keys.to_pylist())
    before = [] if previous is None else previous.keys.to_pylist()
    dropped = [d for d in before if d not in tracked]
    old = None
    if previous is not None:
        old = {d: int(previous.slot_of([d])[0]) for d in {*hashes, *before}}
    cells = ring(slots, histogram.buckets, seed=options["seed"])
    bare = RoutingTable.build(slots, cells, key_type=histogram.key_type)
    letters = [letter for letter in options["resources"] if letter != "C"]
    return Case(
        items=[d for d in hashes if d in tracked],
        dropped=dropped,
        slots=slots,
        f={d: f.get(d, 0.0) for d in {*hashes, *before}},
        beta=[BETA[letter] for letter in letters],
        theta=[(ALPHA - 1) / (1 + ALPHA / (slots - 1))] * len(letters),
        beta_s=BETA.get(options["resources"][0], lambda f: 1.0),
        old=old,
        ring={d: int(bare.slot_of([d])[0]) for d in {*hashes, *before}},
        utility=options["utility"],
    )
