"""A paper with three entries that takes no time to compute."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from research.papers.experiment import (
    Claim,
    Experiment,
    Fact,
    Omitted,
    Paper,
    Record,
    Run,
    Timed,
    printed,
    shape,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Dice:
    """Throws a die for each number of sides; records its throws, and can be made to stop."""

    def __init__(self) -> None:
        self.thrown: list[int] = []
        self.stop_at: int | None = None

    def compute(self, run: Run) -> dict[str, Any]:
        def throw(sides: int) -> Timed:
            if sides == self.stop_at:
                raise KeyboardInterrupt
            self.thrown.append(sides)
            random = np.random.default_rng([run.seed, sides])
            return Timed(int(random.integers(1, sides + 1)), {"rolling": 0.5})

        sides = run.parameters["sides"]
        return {"sides": sides, "shown": run.each([{"sides": n} for n in sides], throw)}


def most(record: Record) -> float:
    return float(max(record.results["shown"]))


def within_sides(record: Record) -> Fact:
    pairs = zip(record.results["shown"], record.results["sides"], strict=True)
    return Fact(all(1 <= shown <= sides for shown, sides in pairs), "every throw is on its die")


def draw(record: Record, figure: Figure) -> None:
    figure.subplots().plot(record.results["sides"], record.results["shown"])


def experiment(dice: Dice, *claims: Claim, seed: int = 0) -> Experiment:
    return Experiment(
        name="dice-2",
        title="Throws | by sides",
        parameters={"sides": [6, 8, 20]},
        quick={"sides": [6]},
        compute=dice.compute,
        claims=claims or (shape("a throw is on its die", within_sides),),
        draw=draw,
        seed=seed,
    )


def paper(dice: Dice, *claims: Claim) -> Paper:
    second = experiment(dice, *claims)
    table = replace(second, name="dice-table-1", title="The same as a table", draw=None)
    return Paper(
        "Someone", "On <dice>", "Nowhere 2020", (Omitted("dice-1", "A die", "a photograph"), second, table)
    )


IMPOSSIBLE = printed("the highest throw", 21, most, within=0.5, why="no die has 21 sides")
