"""How many slots a stream should have: rules that go by the load of the last batches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np


@dataclass(frozen=True)
class Usage:
    """One batch: its `records`, the `busy` seconds of all its slots, and the `wall` seconds from its start to its end.

    `handling` is the part of `busy` that went into records rather than into reading and storing state.
    """

    records: float
    busy: float
    wall: float
    handling: float = 0.0


class Scaling(Protocol):
    """A rule for the number of slots."""

    def slots(self, now: int, most: int, recent: Sequence[Usage]) -> int:
        """The number of slots to have, between 1 and `most`; `now` is the present number."""


@dataclass(frozen=True)
class LoadRange:
    """ELB's rule: keep the mean load of a slot (records per batch) between `lower` and `upper`.

    Outside that range, N becomes the number that brings the mean to its middle, which leaves room on both sides.

    >>> LoadRange(100, 300).slots(2, 8, [Usage(1000, 1, 1)])
    5
    """

    lower: float
    upper: float

    def __post_init__(self) -> None:
        if not 0 <= self.lower < self.upper or math.isinf(self.upper):
            raise ValueError(
                f"the load range goes from lower to a higher upper, not from {self.lower} to {self.upper}"
            )

    def slots(self, now: int, most: int, recent: Sequence[Usage]) -> int:
        """The number of slots to have."""
        if not recent or self.lower <= recent[-1].records / now <= self.upper:
            return now
        return _within(math.ceil(recent[-1].records / ((self.lower + self.upper) / 2)), most)


@dataclass(frozen=True)
class Utilisation:
    """Keep slots busy for about `target` of the time that a batch may take.

    `interval` is that time in seconds, usually the trigger's. N changes only if each of the last `patience` batches
    asks for it, to the mean of what they ask for: one long batch scales nothing.

    >>> Utilisation(0.5, interval=10, patience=1).slots(2, 8, [Usage(1000, 20, 12)])
    4
    """

    target: float = 0.7
    interval: float = 10.0
    patience: int = 3

    def __post_init__(self) -> None:
        if not 0 < self.target <= 1:
            raise ValueError(f"target is a share of the time, above 0 and at most 1, not {self.target}")
        if not self.interval > 0 or math.isinf(self.interval):
            raise ValueError(f"interval is a number of seconds above 0, not {self.interval}")
        whole = isinstance(self.patience, int) and not isinstance(self.patience, bool)
        if not whole or self.patience < 1:
            raise ValueError(f"patience is a whole number of batches, at least 1, not {self.patience!r}")

    def slots(self, now: int, most: int, recent: Sequence[Usage]) -> int:
        """The number of slots to have."""
        last = recent[-self.patience :]
        if len(last) < self.patience:
            return now
        needed = [_within(math.ceil(u.busy / (self.interval * self.target)), most) for u in last]
        if all(n > now for n in needed) or all(n < now for n in needed):
            return _within(round(float(np.mean(needed))), most)
        return now


def _within(n: int, most: int) -> int:
    return max(1, min(n, most))
