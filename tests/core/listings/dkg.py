"""Plain loops after the listings of Rivetti et al., DEBS 2015 (section 3), with PAPERS' readings."""

from __future__ import annotations

from collections.abc import Callable


def scheduling(loads: list[float], k: int) -> list[int]:
    """Section 3.1: the largest item left to the instance with the lowest load, the first of equals."""
    left = list(range(len(loads)))
    instances = [0.0] * k
    mapping = [0] * len(loads)
    while left:
        item = left[0]
        for candidate in left:
            if loads[candidate] > loads[item]:
                item = candidate
        target = 0
        for instance in range(k):
            if instances[instance] < instances[target]:
                target = instance
        mapping[item] = target
        instances[target] += loads[item]
        left.remove(item)
    return mapping


def build(
    frequencies: dict[int, float],
    cell_of: Callable[[int], int],
    cells: int,
    k: int,
    theta: float,
    squared: bool = False,
    parts: int = 1,
) -> tuple[dict[int, list[int]], list[int]]:
    """Listings 3.1 and 3.2 with exact counters: heavy hitter → instance(s), cell → instance.

    `parts` > 1 is DKG PKG: a heavy hitter is scheduled as several items of an equal share.
    """
    m = sum(frequencies.values())
    v = [0.0] * cells
    for key, f in frequencies.items():
        v[cell_of(key)] += f
    heavy = sorted(
        (key for key, f in frequencies.items() if f >= theta * m), key=lambda key: -frequencies[key]
    )
    for key in heavy:
        v[cell_of(key)] -= frequencies[key]
    items = [frequencies[key] / parts for key in heavy for _ in range(parts)] + v
    if squared:
        items = [load * load for load in items]
    mapping = scheduling(items, k)
    rows = {key: mapping[i * parts : (i + 1) * parts] for i, key in enumerate(heavy)}
    return rows, mapping[len(heavy) * parts :]


def partial_key_grouping(choices: list[list[int]], k: int) -> list[int]:
    """PKG as section 6 describes it: each tuple to the less loaded of the instances that its key names."""
    loads = [0] * k
    targets = []
    for instances in choices:
        best = instances[0]
        for instance in instances:
            if loads[instance] < loads[best]:
                best = instance
        loads[best] += 1
        targets.append(best)
    return targets
