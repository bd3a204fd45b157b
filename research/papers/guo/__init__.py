"""Guo and Zhou: load balancing that takes the moved state into account, eager (ELB) or correlation-based (CLB)."""

from __future__ import annotations

from research.papers.experiment import Headline, Omitted, Paper
from research.papers.guo import balancing, live, skewness

PAPER = Paper(
    authors="Guo, Zhou",
    title="Stateful Load Balancing for Parallel Stream Processing",
    venue="Euro-Par 2017 Workshops",
    entries=(
        Omitted("guo-1", "A simple topology with 3 operators", "a diagram"),
        skewness.SKEWNESS,
        balancing.IMBALANCE,
        balancing.SUMMARY,
        balancing.MOVED,
        live.LATENCY,
        live.RATIOS,
        live.THROUGHPUT,
    ),
    headlines=(
        Headline(
            "state moved per window by ELB, PKG, UHLB",
            "14.5 %, 21.2 %, 24.2 %",
            "guo-4",
            lambda record: balancing.shares(record, "ELB", "PKG", "UHLB"),
        ),
        Headline(
            "var(L) of CLB, ELB, PKG, UHLB",
            "6.1e4, 5.1e4, 3.1e4, 2.9e4",
            "guo-table-1",
            balancing.means,
        ),
        Headline(
            "mean latency of ELB over that of UHLB on a live stream",
            "0.72; CLB 0.76, ELB 0.73, PKG 0.92, UHLB 1.01 ms",
            "guo-table-2",
            live.summary,
        ),
    ),
    machine="Storm on EC2, a virtual machine per instance held to 1000 tuples per second, in the paper; here slots of "
    "a live stream on Spark that wait a millisecond per tuple, on two cores.",
)
