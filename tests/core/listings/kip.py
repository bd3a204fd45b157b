"""Plain loops after algorithm 1 (KIPUPDATE) of Zvara et al., with PAPERS' readings."""

from __future__ import annotations


def kip_update(
    ki: list[int],
    hosts: list[int],
    home: list[int],
    freq: list[float],
    others: float,
    n: int,
    epsilon: float,
) -> tuple[list[int], list[int]]:
    """The new partition of each heavy key and of each host.

    `ki` is the partition before, `home` the host of each heavy key, in falling order of `freq`; `others` is
    1 − Σ freq, `hosts` the partition of each host before. Reading for vanished partitions: hosts go to host
    mod N, keys to where their host is.
    """
    hosts = [p if p < n else host % n for host, p in enumerate(hosts)]
    max_load = max(1 / n, freq[0] if freq else 0.0) + epsilon
    host_load = others / len(hosts)

    heavy = [0.0] * n
    keys = []
    for old, host, f in zip(ki, home, freq, strict=True):
        p = old if old < n else hosts[host]
        if not heavy[p] < max_load - f:
            p = hosts[host]
            if not heavy[p] < max_load - f:
                p = min(range(n), key=lambda q: (heavy[q], q))
        keys.append(p)
        heavy[p] += f

    def load(p: int) -> float:
        return heavy[p] + host_load * hosts.count(p)

    for p in range(n):
        for host in range(len(hosts)):
            if hosts[host] != p or not load(p) > max_load or host_load == 0:
                continue
            room = [q for q in range(n) if load(q) < max_load - host_load]
            if room:
                hosts[host] = room[0]
    return keys, hosts
