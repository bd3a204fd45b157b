"""Plain loops after algorithms 1 and 2 of Guo and Zhou, with PAPERS' readings and those of the planners."""

from __future__ import annotations


def elb(
    y: list[float], f: list[int], n: int, pi: int, v: float, u: float, recompute: bool = False
) -> list[int]:
    """Algorithm 1: load y and instance f of each substream, n instances before and pi after."""
    f = list(f)
    loads = [0.0] * max(n, pi)
    for i, load in enumerate(y):
        loads[f[i]] += load
    mean = sum(loads) / pi
    instances = list(range(pi))
    retired = list(range(pi, n))  # reading: instances are numbers, the highest vanish
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
        target = min(under or instances, key=lambda j: (loads[j], j))
        f[largest] = target
        loads[target] += y[largest]
        if target in under and loads[target] >= (u + v) / 2:
            under.remove(target)
    return f


def clb(series: list[list[float]], n: int, theta: float) -> list[int]:
    """Algorithm 2: the set of each of the load series."""
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
            weight[i] = 0.0
            for j in old:
                weight[j] -= cov[i][j]
            for j in new:
                if j != i:
                    weight[j] += cov[i][j]
    return [next(r for r, members in enumerate(sets) if i in members) for i in range(p)]
