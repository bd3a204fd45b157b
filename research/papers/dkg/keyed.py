"""The algorithms of the DKG paper on whole keys: every key is hashed by its own number, as the paper does.

The planners of unskew hash buckets, since a routing table knows light keys only by their bucket. Here there are as many
"buckets" as keys, so nothing but the paper's own collisions can put two light keys together.
"""

from __future__ import annotations

from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unskew.core.histogram import Floats
from unskew.core.planners.parts.universal_hash import draw
from unskew.core.scheduling import longest_first

Slots = NDArray[np.int64]


def oracle(loads: Floats, slots: int) -> Slots:
    """O-apx: every key on its own, longest first, by the loads it is judged on."""
    return longest_first(loads, slots).astype(np.int64)


def universal(keys: NDArray[np.int64], slots: int, seed: int) -> Slots:
    """Every key by a 2-universal function drawn by `seed`."""
    return draw(slots, seed)(keys)


def single(keys: NDArray[np.int64]) -> Slots:
    """SIA: every key on the first slot."""
    return np.zeros(len(keys), dtype=np.int64)


def dkg(
    keys: NDArray[np.int64],
    counts: Floats,
    slots: int,
    seed: int,
    *,
    theta: float,
    mu: float,
    cost: str = "linear",
    parts: int = 1,
) -> Slots:
    """Keys of share Θ or more and ⌈kμ⌉ groups of all others, scheduled together: one column per part of a key.

    `counts` are those learned from; a key that was not seen goes with its group. With `parts` = 2 this is DKG PKG.
    """
    heavy = _heavy(counts, theta)
    groups = draw(ceil(slots * mu), seed)(keys)
    light = counts.copy()
    light[heavy] = 0.0
    items = np.concatenate(
        [np.repeat(counts[heavy] / parts, parts), np.bincount(groups, light, ceil(slots * mu))]
    )
    chosen = longest_first(items**2 if cost == "quadratic" else items, slots)
    split = len(heavy) * parts
    named: Slots = np.repeat(chosen[split:][groups][:, None], parts, axis=1).astype(np.int64)
    named[heavy] = chosen[:split].reshape(-1, parts)
    return named


def wosim(keys: NDArray[np.int64], counts: Floats, slots: int, seed: int, *, theta: float) -> Slots:
    """DKG WOSIM: heavy keys scheduled among themselves, all others hashed."""
    heavy = _heavy(counts, theta)
    chosen = universal(keys, slots, seed)
    chosen[heavy] = longest_first(counts[heavy], slots)
    return chosen


def _heavy(counts: Floats, theta: float) -> NDArray[np.int64]:
    """The keys with at least this share, heaviest first."""
    heavy = np.flatnonzero((counts >= theta * counts.sum()) & (counts > 0))
    order: NDArray[np.int64] = heavy[np.argsort(-counts[heavy], kind="stable")]
    return order


def place(
    planner: str,
    keys: NDArray[np.int64],
    counts: Floats,
    judged: Floats,
    slots: int,
    seed: int,
    options: dict[str, Any],
) -> Slots:
    """The slot or slots of every key under the named algorithm, one row per key."""
    match planner:
        case "oracle":
            return oracle(judged, slots)[:, None]
        case "universal":
            return universal(keys, slots, seed)[:, None]
        case "single":
            return single(keys)[:, None]
        case "dkg":
            return dkg(keys, counts, slots, seed, **options)
        case "dkg-pkg":
            return dkg(keys, counts, slots, seed, **options, parts=2)
        case "dkg-wosim":
            return wosim(keys, counts, slots, seed, theta=options["theta"])[:, None]
    raise ValueError(f"{planner!r} is not an algorithm of the DKG paper")
