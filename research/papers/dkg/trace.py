"""Readings of players' positions on a play field, in four grids: the simulated part of Figure 10.

The trace of the DEBS 2013 Grand Challenge is not shipped, so this module draws one like it. The field is divided into
the challenge's four grids; each reading gives one tuple per grid, keyed by cell. According to the paper the heaviest
cell of the trace has about a fifth of all tuples. With a quarter of the tuples in each grid, one cell of the coarsest
grid must hold about four fifths of the readings. So a share `focus` of all readings comes from around the middle of
one such cell, and the others from all over the field, thinning out towards its edges. Positions are independent, so
both halves of the trace, the one learned from and the one judged, are drawn from the same shares.
"""

from __future__ import annotations

from functools import partial
from math import erf, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from research.measures import percentage_of_imbalance
from research.papers.dkg.drawing import draw_lines
from research.papers.experiment import Experiment, Fact, Record, Run, printed, shape
from unskew.core.histogram import Floats, Histogram
from unskew.core.loads import slot_loads
from unskew.core.plan import make_table

GRIDS = ((8, 13), (16, 25), (32, 50), (64, 100))
ROWS, COLUMNS = 64, 1300
"""The coarsest mesh from which all four grids can be built."""

PLANNERS = {"O-apx": "oracle", "DKG": "dkg", "Modulo": "modulo"}


def readings_by_place(focus: float) -> Floats:
    """The share of readings from each place of the mesh, row by row."""
    # the middle of one cell of the coarsest grid, with a spread that keeps nearly all readings inside
    near = np.outer(_bell(ROWS, 2.5 / 8, 0.2 / 8), _bell(COLUMNS, 6.5 / 13, 0.2 / 13))
    anywhere = np.outer(_bell(ROWS, 0.5, 0.3), _bell(COLUMNS, 0.5, 0.3))
    shares: Floats = (focus * near + (1 - focus) * anywhere).reshape(-1)
    shares /= shares.sum()
    return shares


def tuples_by_cell(readings: NDArray[np.int64]) -> Histogram:
    """The tuples of readings that are counted by place: one per grid, keyed by the number of the cell."""
    by_place = readings.reshape(ROWS, COLUMNS)
    counts = []
    for rows, columns in GRIDS:
        cells = by_place.reshape(rows, ROWS // rows, columns, COLUMNS // columns)
        counts.append(cells.sum(axis=(1, 3)).reshape(-1))
    loads = np.concatenate(counts)
    present = np.flatnonzero(loads)
    return Histogram.from_arrays(present, loads[present])


def cells(places: NDArray[np.int64]) -> NDArray[np.int64]:
    """The cells of readings from these places, four per reading, numbered as in `tuples_by_cell`."""
    row, column = np.divmod(places, COLUMNS)
    first, by_grid = 0, []
    for rows, columns in GRIDS:
        by_grid.append(first + row // (ROWS // rows) * columns + column // (COLUMNS // columns))
        first += rows * columns
    return np.stack(by_grid, axis=1).reshape(-1)


def by_instances(run: Run) -> dict[str, Any]:
    """λ for each k, and the heaviest cell's share."""
    random = np.random.default_rng(run.seed)
    shares = readings_by_place(run.parameters["focus"])
    half = run.parameters["readings"] // 2
    learned, judged = (tuples_by_cell(random.multinomial(half, shares)) for _ in range(2))
    instances = run.parameters["k"]

    def measure(algorithm: str) -> list[float]:
        measured = judged if algorithm == "O-apx" else learned
        tables = [make_table(PLANNERS[algorithm], measured, k, seed=run.seed) for k in instances]
        return [percentage_of_imbalance(slot_loads(table, judged)) for table in tables]

    imbalances = run.each([{"algorithm": name} for name in PLANNERS], measure)
    lines = {name: {"λ": line} for name, line in zip(PLANNERS, imbalances, strict=True)}
    return {"k": instances, "lines": lines, "heaviest": judged.heaviest_share}


def _bell(places: int, middle: float, spread: float) -> Floats:
    """Shares of equally wide parts of the unit interval under a bell curve."""
    edges = np.linspace(0, 1, places + 1)
    below = np.array([erf((edge - middle) / (spread * sqrt(2))) for edge in edges])
    return np.diff(below)


def _line(record: Record, name: str) -> Floats:
    return np.array(record.results["lines"][name]["λ"])


def _perfect_for_few(record: Record) -> Fact:
    most = _line(record, "O-apx")[np.array(record.results["k"]) <= 5].max()
    return Fact(bool(most < 1), f"at most {most:.2f} %")


def _grows_for_many(record: Record) -> Fact:
    best = _line(record, "O-apx")[np.array(record.results["k"]) >= 6]
    return Fact(bool(best[0] > 0 and np.all(np.diff(best) > 0)), f"from {best[0]:.0f} % to {best[-1]:.0f} %")


def _sticks(record: Record) -> Fact:
    gap = float((_line(record, "DKG") - _line(record, "O-apx")).max())
    return Fact(gap < 15, f"at most {gap:.1f} points above O-apx")


def _beats_modulo(record: Record) -> Fact:
    ours, theirs = _line(record, "DKG"), _line(record, "Modulo")
    k = np.array(record.results["k"])[ours >= theirs].tolist()
    where = f"not for k in {k}" if k else "for all k"
    return Fact(len(k) <= 2, f"{where}; on average {ours.mean():.0f} % against {theirs.mean():.0f} %")


TRACE = Experiment(
    name="dkg-10",
    title="Imbalance λ as a function of k for readings on a play field, simulated",
    parameters={"readings": 25_000_000, "focus": 0.79, "k": list(range(2, 11))},
    quick={"readings": 1_000_000},
    compute=by_instances,
    claims=(
        printed(
            "the heaviest cell has roughly 1/5 of the tuples",
            0.2,
            lambda r: float(r.results["heaviest"]),
            within=0.02,
        ),
        shape("O-apx has no imbalance for k from 2 to 5", _perfect_for_few),
        shape("from k = 6 on the imbalance of O-apx grows with k", _grows_for_many),
        shape("DKG is very close to O-apx for all k", _sticks),
        shape("DKG outperforms Modulo except for two k", _beats_modulo),
    ),
    draw=partial(draw_lines, measure="λ"),
    setting="Generated readings shaped like the DEBS 2013 trace, which is not shipped; simulation only.",
)
