"""Guo and Zhou: load balancing that takes the moved state into account, eager (ELB) or correlation-based (CLB)."""

from __future__ import annotations

from research.papers.experiment import Omitted, Paper
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
)
