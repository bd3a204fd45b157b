"""The workloads of the tournament: windows of a stream, or rounds of a job, as histograms."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from research.correlated import drifting_pairs
from research.papers.nyc_flights import flights
from research.workloads import drifting_windows, zipf
from unskew.core.histogram import Floats, Histogram

STATE_WINDOWS = 5
"""The state of a key is its number of records in this many windows."""

SITES = 64
FIELD = (40, 26)
"""Cells of the play field, each about 2.6 m wide."""

PLAYERS = 23
"""The ball counts as one of them."""


@dataclass(frozen=True)
class Size:
    """The size of a generated workload: windows, distinct keys, and records per window."""

    windows: int
    keys: int
    records: int


Workload = Callable[[Size, int], Iterator[Histogram]]
"""Makes windows from a size and a seed; real data ignores both."""


def workloads() -> Mapping[str, Workload]:
    """Every workload by its name."""
    still = {f"Zipf {z:g}": partial(_zipf, z, False) for z in (0.5, 1.0, 1.5, 2.0)}
    drifting = {f"Zipf {z:g}, drifting": partial(_zipf, z, True) for z in (0.5, 1.0, 1.5)}
    return {
        **still,
        **drifting,
        "crawl rounds": _crawl,
        "flights by tailnum": partial(_flights, "tailnum"),
        "flights by dest": partial(_flights, "dest"),
        "regions": partial(_correlated, 0),
        "hashtags": partial(_correlated, 1),
        "sensors": _sensors,
    }


def _zipf(exponent: float, drifts: bool, size: Size, seed: int) -> Iterator[Histogram]:
    """Zipf keys; if they drift, the 500 most frequent ones trade their frequencies between windows."""
    return drifting_windows(
        steps=size.windows,
        keys=size.keys,
        exponent=exponent,
        draws=size.records,
        shuffled=500 if drifts else 0,
        state_windows=STATE_WINDOWS,
        seed=seed,
    )


def _crawl(size: Size, seed: int) -> Iterator[Histogram]:
    """Rounds of a crawl: 64 sites, Zipf 0.5; from one round to the next a site grows or shrinks by up to about 2 ×."""
    random = np.random.default_rng(seed)
    pages = size.records * random.permutation(zipf(SITES, 0.5))
    rounds = []
    for _ in range(size.windows):
        rounds.append(np.maximum(1.0, np.rint(pages)))
        pages = pages * random.lognormal(0.0, 0.3, SITES)
    return _with_state(rounds)


def _flights(column: str, size: Size, seed: int) -> Iterator[Histogram]:  # noqa: ARG001
    """The months of 2013 from New York: real data."""
    with_key = flights().dropna(subset=[column])
    _, codes = np.unique(with_key[column].to_numpy(str), return_inverse=True)
    months = with_key["month"].to_numpy()
    return _with_state([_count(codes[months == month], codes.max() + 1) for month in np.unique(months)])


def _correlated(side: int, size: Size, seed: int) -> Iterator[Histogram]:
    """Weeks of regions or of hashtags, many of them new each week."""
    weeks = [
        week[side]
        for week in drifting_pairs(
            weeks=size.windows, hashtags=size.keys // 2, records=size.records, seed=seed
        )
    ]
    keys = 1 + max(int(week.max()) for week in weeks)
    return _with_state([_count(week, keys) for week in weeks])


def _sensors(size: Size, seed: int) -> Iterator[Histogram]:
    """Readings of sensors on a play field, by cell: every player, and the ball, moves around its own position."""
    random = np.random.default_rng(seed)
    field = np.array(FIELD)
    home = random.random((PLAYERS, 2)) * field
    at, windows = home.copy(), []
    readings = size.records // (size.windows * PLAYERS)
    for _ in range(size.windows):
        steps = []
        # a hundred readings per step
        for _ in range(max(1, readings // 100)):
            at += 0.02 * (home - at) + random.normal(0.0, 0.5, at.shape)
            np.clip(at, 0, field - 1e-9, out=at)
            x, y = at.astype(np.int64).T
            steps.append(x * FIELD[1] + y)
        windows.append(100.0 * _count(np.concatenate(steps), FIELD[0] * FIELD[1]))
    return _with_state(windows)


def _count(keys: NDArray[np.int64], size: int) -> Floats:
    return np.bincount(keys, minlength=size).astype(np.float64)


def _with_state(windows: list[Floats]) -> Iterator[Histogram]:
    """Counts of the keys 0, 1, … as histograms, with the state that the last windows leave."""
    recent: deque[Floats] = deque(maxlen=STATE_WINDOWS)
    for counts in windows:
        recent.append(counts)
        state = np.sum(recent, axis=0)
        present = np.flatnonzero(state)
        yield Histogram.from_arrays(present, counts[present], state=state[present])
