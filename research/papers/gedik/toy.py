"""Figure 1: eight keys on two channels, then on three, by trying every possible placement."""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import Any

import numpy as np

from research.papers.experiment import Data, Experiment, Fact, Record, Run, number, shape
from unskew.core.histogram import Floats

FREQUENCIES = {"X": 5, "Z": 3, "V": 2, "R": 1, "U": 4, "Y": 3, "W": 3, "L": 1}

SETUPS = {
    "for communication": ((1.0, 1.11), (1.14, 2.26), 7),
    "for computation": ((1.2, 1.05), (2.0, 1.04), 10),
    "for both": ((1.2, 1.05), (1.14, 1.23), None),
}
"""Balance of communication and computation on 2 channels and on 3, and the migration, as printed (39/35 is 1.11)."""


def placements(run: Run) -> dict[str, Any]:
    """The number of placements with the printed balances, and what the cheapest of them moves."""
    ways = run.each([{"setup": name} for name in SETUPS], _ways)
    return dict(zip(SETUPS, ways, strict=True)) | {"best": _best()}


def _ways(setup: str) -> dict[str, Any]:
    before, after, moved = SETUPS[setup]
    twos, threes = (_placements_with(balances, n) for n, balances in ((2, before), (3, after)))
    weights = np.array(list(FREQUENCIES.values()))
    costs = ((twos[:, None, :] != threes[None, :, :]) * weights).sum(axis=2)
    return {
        "ways": int(costs.size if moved is None else np.count_nonzero(costs == moved)),
        "least moved": int(costs.min()) if costs.size else None,
    }


def _placements_with(balances: tuple[float, float], channels: int) -> Any:
    """The placements with these two balances, which the paper prints with two digits, rounded up or down."""
    every = np.array(list(product(range(channels), repeat=len(FREQUENCIES))))
    excess = _balances(every, channels) - np.array(balances)
    return every[np.all((excess > -0.0051) & (excess < 0.01), axis=1)]


def _balances(placements: Any, channels: int) -> Floats:
    """Max over min of communication and of computation, for each placement."""
    weights = np.array(list(FREQUENCIES.values()), dtype=np.float64)
    columns = []
    for cost in (weights, weights**2):
        loads = np.stack([((placements == c) * cost).sum(axis=1) for c in range(channels)])
        columns.append(
            np.divide(
                loads.max(axis=0),
                loads.min(axis=0),
                where=loads.min(axis=0) > 0,
                out=np.full(len(placements), np.inf),
            )
        )
    return np.stack(columns, axis=1)


def _best() -> dict[str, float]:
    """The least balance of each kind that three channels allow."""
    every = np.array(list(product(range(3), repeat=len(FREQUENCIES))))
    communication, computation = _balances(every, 3).min(axis=0)
    return {"communication": float(communication), "computation": float(computation)}


def _exists(record: Record, setup: str) -> Fact:
    ways, least = record.results[setup]["ways"], record.results[setup]["least moved"]
    return Fact(ways > 0, f"{ways} pairs of placements have them; the cheapest moves {least}")


def _optimal(record: Record) -> Fact:
    best = record.results["best"]
    text = f"the best are {best['communication']:.2f} and {best['computation']:.2f}"
    return Fact(abs(best["communication"] - 1.14) < 0.01 and abs(best["computation"] - 1.04) < 0.01, text)


TOY = Experiment(
    name="gedik-1",
    title="A toy example of the trade-offs: eight keys, two channels, then three",
    parameters={},
    compute=placements,
    data=Data.PAPER,
    claims=(
        *(
            number(
                f"the balances and the migration of the setup optimised {setup}",
                partial(_exists, setup=setup),
            )
            for setup in SETUPS
        ),
        shape("the optimised balances of communication and computation are 1.14 and 1.04", _optimal),
    ),
)
