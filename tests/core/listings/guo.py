"""Plain loops after algorithms 1 and 2 of Guo and Zhou, with PAPERS' readings and those of the planners."""

from __future__ import annotations


def elb(
    y: list[float],
    f: list[int],
    n: int,
    pi: int,
    v: float,
    u: float,
    recompute: bool = False,
    last: bool = False,
) -> list[int]:
    """Algorithm 1: load y and instance f of each substream, n instances before and pi after.

    The instances that are left are numbered from 0 anew: one numbered pi or more takes the lowest free number.
    """
    f = list(f)
    loads = [0.0] * max(n, pi)
    for i, load in enumerate(y):
        loads[f[i]] += load
    mean = sum(loads) / pi
    instances = list(range(max(n, pi)))
    retired: list[int] = []
    while len(instances) > pi:
        least = instances[0]
        for j in instances:
            if last or loads[j] <= loads[least]:  # the last of equals
                least = j
        instances.remove(least)
        retired.append(least)
    number: dict[int, int] = {j: j for j in instances if j < pi}
    for j in instances:
        if j >= pi:
            number[j] = min(free for free in range(pi) if free not in number.values())
    over = [j for j in instances if loads[j] > mean]
    under = [j for j in instances if j not in over]

    queue = []
    for j in sorted(over, key=lambda j: -loads[j]):
        theta = min(loads[j] - mean, (u - v) / 2)
        substreams = [i for i in range(len(y)) if f[i] == j]
        while substreams:
            fitting = [i for i in substreams if 0 < y[i] < theta]
            if not fitting:  # reading: an exit when no substream fits
                break
            largest = max(fitting, key=lambda i: (y[i], -i))
            queue.append(largest)
            loads[j] -= y[largest]
            theta = min(loads[j] - mean, (u - v) / 2) if recompute else theta - y[largest]
            substreams.remove(largest)
    for i in range(len(y)):
        if f[i] in retired:
            queue.append(i)  # noqa: PERF401

    while queue:
        largest = max(queue, key=lambda i: (y[i], -i))
        queue.remove(largest)
        # reading: the least loaded of all when UI runs empty
        target = min(under or instances, key=lambda j: (loads[j], number[j]))
        f[largest] = target
        loads[target] += y[largest]
        if target in under and loads[target] >= (u + v) / 2:
            under.remove(target)
    return [number[j] for j in f]


def clb(series: list[list[float]], n: int, theta: float, listing: bool = False) -> list[int]:
    """Algorithm 2: the set of each of the load series; ω by its definition, or as lines 15 to 18 update it."""
    p, m = len(series), len(series[0])

    def expected(values: list[float]) -> float:
        return sum(values) / m

    means = [expected(x) for x in series]
    cov = [[0.0] * p for _ in range(p)]
    weight = [0.0] * p
    for i in range(p):
        for j in range(p):
            products = [a * b for a, b in zip(series[i], series[j], strict=True)]
            cov[i][j] = expected(products) - means[i] * means[j]
            if i != j and cov[i][j] >= theta:
                weight[i] += cov[i][j]

    sets: list[list[int]] = [list(range(p))]
    while len(sets) < n:
        new: list[int] = []
        for k in sorted(range(p), key=lambda i: (-weight[i], i)):
            old = next(members for members in sets if k in members)
            leaving = [i for i in old if i != k and cov[k][i] >= theta]
            if leaving:
                break
        else:
            old = max((s for s in sets if len(s) > 1), key=lambda s: sum(means[i] for i in s))
            leaving = [max(old, key=lambda i: (means[i], -i))]
        sets.append(new)
        for i in leaving:
            old.remove(i)
            new.append(i)
            if not listing:
                continue
            weight[i] = 0.0
            for j in old:
                weight[j] -= cov[i][j]
            for j in new:
                if j != i:
                    weight[j] += cov[i][j]
        if not listing:
            for members in sets:
                for i in members:
                    weight[i] = sum(cov[i][j] for j in members if j != i and cov[i][j] >= theta)
    return [next(r for r, members in enumerate(sets) if i in members) for i in range(p)]
