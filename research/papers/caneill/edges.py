"""How many pairs the planner must know: Figure 12."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from research.correlated import drifting_pairs
from research.papers.caneill.strategies import Window
from research.papers.drawing import styles
from research.papers.experiment import Experiment, Fact, Record, Run, shape
from unskew.core.chains.locality import locality_over_pairs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SERVERS = (2, 3, 4, 5, 6)
SHARES = (0.0001, 0.001, 0.01, 0.1, 0.3, 1.0)


def over_edges(run: Run) -> dict[str, Any]:
    """Locality by the number of pairs known to the planner, for each number of servers."""
    week = Window.of(*next(drifting_pairs(weeks=1, seed=run.seed, **run.parameters)))
    edges = [max(1, round(share * len(week.pairs))) for share in SHARES]

    def measure(servers: int) -> list[float]:
        reached = locality_over_pairs(week.histograms, [week.pairs], servers, edges)
        return [reached[count] for count in edges]

    lines = run.each([{"servers": servers} for servers in SERVERS], measure)
    return {"edges": edges, "locality": dict(zip(map(str, SERVERS), lines, strict=True))}


def _more_is_better(record: Record) -> Fact:
    falls = {n: -float(np.min(np.diff(line))) for n, line in record.results["locality"].items()}
    worst = max(falls, key=falls.__getitem__)
    fall = max(falls[worst], 0.0)
    return Fact(
        fall < 0.01, f"with {worst} servers locality never falls by more than {fall:.3f} as pairs are added"
    )


def _doubled(record: Record) -> Fact:
    reached = record.results["locality"]["6"][SHARES.index(0.001)]
    edges = record.results["edges"][SHARES.index(0.001)]
    return Fact(reached >= 2 / 6, f"{reached:.1%} with {edges} pairs, hashing {1 / 6:.1%}")


def draw(record: Record, figure: Figure) -> None:
    """Figure 12: locality over the number of pairs considered."""
    axes = figure.subplots()
    for (servers, line), style in zip(record.results["locality"].items(), styles(), strict=False):
        axes.plot(record.results["edges"], line, label=f"{servers} servers", **style)
    axes.set(xscale="log", xlabel="pairs known to the planner", ylabel="locality")
    axes.legend()


WHY_DOUBLED = (
    "with 1/6 by hashing, doubling takes a fifth of all records in the most frequent 0.1 % of the pairs, and all of "
    "them local. That share depends on the skew and the size of the data, and the paper prints neither."
)

EDGES = Experiment(
    name="caneill-12",
    title="Locality by the number of pairs that the planner knows",
    parameters={"regions": 1000, "hashtags": 250_000, "records": 1_000_000},
    quick={"hashtags": 25_000, "records": 100_000},
    compute=over_edges,
    claims=(
        shape("more pairs give more locality", _more_is_better),
        shape("0.1 % of the pairs double the locality on 6 servers", _doubled, why=WHY_DOUBLED),
    ),
    draw=draw,
    reduced=True,
    setting="One generated week, planned with its most frequent pairs; locality is that of all its records.",
)
