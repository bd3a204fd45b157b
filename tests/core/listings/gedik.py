"""Algorithms 2 to 4 of Gedik's paper as plain loops over dictionaries, with the readings of the planners.

Everything is recomputed from the mapping each time, so nothing here shares a shortcut with the planners.
Items are listed in order of falling frequency. Ties are resolved as the planners promise: a candidate within the
tolerance of the best ties with it, and the first in the stated order wins.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

TIE, GAIN_TIE, NOISE, LEAST = 1e-9, 1e-7, 1e-12, 1e-12

UTILITY: dict[str, Callable[[float, float], float]] = {
    "A": lambda rho, gamma: rho,
    "APM": lambda rho, gamma: rho + gamma,
    "APLM": lambda rho, gamma: rho + math.log(1 + gamma),
    "ATM": lambda rho, gamma: rho * (1 + gamma),
    "ATLM": lambda rho, gamma: rho * (1 + math.log(1 + gamma)),
    "APLM10": lambda rho, gamma: rho + math.log10(1 + gamma),
    "ATLM10": lambda rho, gamma: rho * (1 + math.log10(1 + gamma)),
}


@dataclass
class Case:
    """The input of the listings: p(t), D_p(t), D_p(t+1), N(t+1), f and the resource functions."""

    # D_p(t+1) by falling frequency, and D_o(t+1)
    items: list[int]
    dropped: list[int]
    slots: int
    f: dict[int, float]
    # of the resources that count in ρ
    beta: list[Callable[[float], float]]
    theta: list[float]
    beta_s: Callable[[float], float]
    # p(t), None in a first plan, and H_c(t+1)
    old: dict[int, int] | None
    ring: dict[int, int]
    utility: str
    mapping: dict[int, int] = field(default_factory=dict)

    def moved(self, d: int, slot: int) -> float:
        return 0.0 if self.old is None or self.old[d] == slot else self.beta_s(self.f[d])

    def sunk(self) -> float:
        return sum(self.moved(d, self.ring[d]) for d in self.dropped)

    def ideal(self) -> float:
        if self.old is None:
            return 0.0
        return sum(self.beta_s(self.f[d]) for d in [*self.items, *self.dropped]) / self.slots

    def u(self, rho: float, m: float) -> float:
        ideal = self.ideal()
        return UTILITY[self.utility](rho, m / ideal if ideal else 0.0)

    def spreads(self, mapping: dict[int, int]) -> list[float]:
        """Max − min over the mean load, of each resource."""
        spreads = []
        for beta in self.beta:
            loads = [0.0] * self.slots
            for d, slot in mapping.items():
                loads[slot] += beta(self.f[d])
            spreads.append((max(loads) - min(loads)) / (sum(loads) / self.slots))
        return spreads

    def rho(self, mapping: dict[int, int]) -> float:
        product = 1.0
        for spread, theta in zip(self.spreads(mapping), self.theta, strict=True):
            product *= spread / theta if spread > NOISE else 0.0
        return float(product ** (1 / len(self.beta))) if self.beta else 1.0


def scan(case: Case) -> dict[int, int]:
    """Algorithm 2."""
    mapping: dict[int, int] = {}
    m = case.sunk()
    for d in case.items:
        utilities = [
            case.u(case.rho({**mapping, d: slot}), m + case.moved(d, slot)) for slot in range(case.slots)
        ]
        u = min(utilities)
        j = next(slot for slot in range(case.slots) if utilities[slot] <= u + TIE * (abs(u) + 1))
        m += case.moved(d, j)
        mapping[d] = j
    return mapping


def redist(case: Case) -> dict[int, int]:
    """Algorithm 3."""
    mapping: dict[int, int] = {}
    m = case.sunk()
    unplaced = list(case.items)
    while unplaced:
        candidates = []
        for c in unplaced:
            for slot in range(case.slots):
                utility = case.u(case.rho({**mapping, c: slot}), m + case.moved(c, slot))
                candidates.append((utility / max(case.f[c], LEAST), c, slot))
        u = min(utility for utility, _, _ in candidates)
        _, d, j = next(candidate for candidate in candidates if candidate[0] <= u + TIE * (abs(u) + 1))
        m += case.moved(d, j)
        mapping[d] = j
        unplaced.remove(d)
    return mapping


def readj(case: Case, max_moves: int = 5) -> dict[int, int]:
    """Algorithm 4, with the limit on the moves of an item that the listing leaves out."""
    mapping = {}
    for d in case.items:
        present = case.ring[d] if case.old is None else case.old[d]
        mapping[d] = present if present < case.slots else case.ring[d]
    moves = dict.fromkeys(case.items, 0)
    while True:
        rho = case.rho(mapping)
        u = case.u(rho, _migration(case, mapping))
        candidates = []
        for order, readjusted in _readjustments(case, mapping):
            changed = [d for d in case.items if mapping[d] != readjusted[d]]
            if any(moves[d] >= max_moves for d in changed):
                continue
            a = case.rho(readjusted)
            both = zip(case.spreads(readjusted), case.spreads(mapping), strict=True)
            # no fall, or only by rounding
            if a >= rho * (1 - NOISE) or all(after >= before - NOISE for after, before in both):
                continue
            volume = abs(case.f[changed[0]] - (case.f[changed[1]] if len(changed) > 1 else 0.0))
            gain = (u - case.u(a, _migration(case, readjusted))) / max(volume, LEAST)
            candidates.append((gain, order, readjusted))
        if not candidates:
            return mapping
        most = max(gain for gain, _, _ in candidates)
        tied = [(order, r) for gain, order, r in candidates if gain >= most - GAIN_TIE * abs(most) - TIE]
        _, best = min(tied, key=lambda candidate: candidate[0])
        for d in case.items:
            moves[d] += mapping[d] != best[d]
        mapping = best


def _migration(case: Case, mapping: dict[int, int]) -> float:
    return case.sunk() + sum(case.moved(d, slot) for d, slot in mapping.items())


def _readjustments(case: Case, mapping: dict[int, int]) -> list[tuple[tuple[int, ...], dict[int, int]]]:
    """All moves and swaps, with their position in the order of ties."""
    rank = {d: r for r, d in enumerate(case.items)}
    readjustments: list[tuple[tuple[int, ...], dict[int, int]]] = []
    for d1 in case.items:
        other_slots = [j for j in range(case.slots) if j != mapping[d1]]
        readjustments += [((0, rank[d1], j), {**mapping, d1: j}) for j in other_slots]
        for d2 in case.items:
            if rank[d1] < rank[d2] and mapping[d1] != mapping[d2]:
                swapped = {**mapping, d1: mapping[d2], d2: mapping[d1]}
                readjustments.append(((1, rank[d1], rank[d2]), swapped))
    return readjustments
