"""The progress line of a stream, from its journal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

SPAN = 10
"""Batches over which the speed is averaged: steady enough to read, and quick to follow a change."""


@dataclass(frozen=True)
class Progress:
    """What the journal of one operator has reported so far.

    `started` is when the query started: older lines belong to an earlier run, and the pause in between is not
    slowness. `moved` is the batch of the last migration and its number of keys.
    """

    started: float
    recent: tuple[dict[str, Any], ...] = ()
    next_batch: int = 0
    moved: tuple[int, int] | None = None

    def after(self, lines: Sequence[dict[str, Any]]) -> Progress:
        """The progress after these further lines."""
        if not lines:
            return self
        moves = [(line["batch"], line["moved"]["rows"]) for line in lines if line["moved"]["rows"]]
        this_run = [line for line in lines if line["time"] >= self.started]
        return replace(
            self,
            recent=(*self.recent, *this_run)[-SPAN:],
            next_batch=lines[-1]["batch"] + 1,
            moved=moves[-1] if moves else self.moved,
        )

    @property
    def rate(self) -> float | None:
        """Records per second; None before the second batch of this run."""
        seconds = self.recent[-1]["time"] - self.recent[0]["time"] if self.recent else 0.0
        return sum(line["records"] for line in self.recent[1:]) / seconds if seconds > 0 else None

    def __str__(self) -> str:
        if not self.recent:
            return "waiting for the first batch"
        last = self.recent[-1]
        speed = "" if self.rate is None else f", {self.rate:,.0f} rows/s"
        moved = (
            "nothing moved yet"
            if self.moved is None
            else f"last migration: {self.moved[1]:,} keys in batch {self.moved[0]}"
        )
        return (
            f"batch {last['batch']}: {last['records']:,} rows{speed}, {last['slots']} slots, "
            f"imbalance {last['imbalance']:.2f} (at best {last['bound']:.2f}), {moved}"
        )
