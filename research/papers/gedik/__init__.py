"""Gedik, VLDB Journal 2014: partitioning functions for stateful data parallelism."""

from __future__ import annotations

from research.papers.experiment import Headline, Omitted, Paper
from research.papers.gedik import channels, live, resources, sizes, times, toy, workload
from research.papers.gedik.growing import OURS, listed, shown

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
        live.LIVE,
    ),
    headlines=(
        Headline(
            "b of uniform and consistent hashing, scan, redist, readj (LLL, z = 1)",
            "1.55, 1.75, 1.32, 1.32, 1.2",
            "gedik-3",
            lambda record: listed(record, "b", record.parameters["planner"], resources="LLL"),
        ),
        Headline(
            "m of scan, redist, readj: close to the ideal, where uniform hashing moves more than 8 × (LLL)",
            "1.23, 1.23, 1.34",
            "gedik-3",
            lambda record: listed(record, "m", ("uniform", *OURS), resources="LLL"),
        ),
        Headline(
            "m of redist over N stays flat, up to N = 32",
            "1.15",
            "gedik-6",
            lambda record: shown(record, "m", planner="redist", slots=record.parameters["slots"][-1]),
        ),
        Headline(
            "the same functions on a live stream on Spark, N growing from 2 to 16 by rule",
            "no live system",
            "gedik-live",
            live.summary,
        ),
    ),
    machine="the paper simulates and has no stream engine; the live stream here has 16 threads that wait on two cores "
    "with Spark.",
)
