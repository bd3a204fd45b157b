"""How many slots a stream should have: rules that look at the load of the last batches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np


@dataclass(frozen=True)
class Usage:
    """One batch: its records, the seconds its slots were busy in all, and the seconds from its start to its end.

    `handling` are the busy seconds that went into records, not into reading and storing state.
    """

    records: float
    busy: float
    wall: float
    handling: float = 0.0


class Scaling(Protocol):
    """A rule for the number of slots."""

    def slots(self, now: int, most: int, recent: Sequence[Usage]) -> int:
        """The number of slots wanted, between 1 and `most`."""


@dataclass(frozen=True)
class LoadRange:
    """ELB's rule: the mean load of a slot (records a batch) stays between `lower` and `upper`.

    Outside the range N becomes what brings the mean to the middle of it, which leaves room on both sides.

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
        """The number of slots wanted."""
        if not recent or self.lower <= recent[-1].records / now <= self.upper:
            return now
        return _within(math.ceil(recent[-1].records / ((self.lower + self.upper) / 2)), most)


@dataclass(frozen=True)
class Utilisation:
    """Slots are busy about `target` of the time that a batch may take.

    `interval` is that time in seconds (the trigger's, usually). N changes only if each of the last `patience`
    batches asks for it, to the mean of what they ask for: one long batch scales nothing.

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
        """The number of slots wanted."""
        last = recent[-self.patience :]
        if len(last) < self.patience:
            return now
        wanted = [_within(math.ceil(u.busy / (self.interval * self.target)), most) for u in last]
        if all(n > now for n in wanted) or all(n < now for n in wanted):
            return _within(round(float(np.mean(wanted))), most)
        return now


def _within(n: int, most: int) -> int:
    return max(1, min(n, most))
