"""Gedik, VLDB Journal 2014: partitioning functions for stateful data parallelism."""

from __future__ import annotations

from research.papers.experiment import Omitted, Paper
from research.papers.gedik import channels, resources, sizes, times, toy, workload

PAPER = Paper(
    authors="Gedik",
    title="Partitioning Functions for Stateful Data Parallelism in Stream Processing",
    venue="The VLDB Journal 23(4), 2014",
    entries=(
        toy.TOY,
        Omitted("gedik-2", "Three lossy counters that emulate a sliding window", "a diagram"),
        Omitted(
            "gedik-table-1", "Experimental parameters", "the defaults of the experiments below, not a result"
        ),
        resources.RESOURCES,
        workload.SKEW,
        channels.SCALER,
        channels.CHANNELS,
        resources.UTILITIES,
        workload.DOMAIN,
        sizes.SCALER,
        sizes.SKEW,
        sizes.CHANNELS,
        times.SCALER,
        times.CHANNELS,
        times.SKEW,
    ),
)
