"""Zvara et al.: Dynamic Repartitioning with the Key Isolator Partitioner (KIP)."""

from __future__ import annotations

from research.papers.experiment import Omitted, Paper
from research.papers.kip import crawling, grouping, hashing

PAPER = Paper(
    authors="Zvara, Szabó, Lóránt, Benczúr",
    title="System-aware dynamic partitioning for batch and streaming workloads",
    venue="arXiv 2105.15023, 2021",
    entries=(
        Omitted("kip-1", "Integration of Dynamic Repartitioning with DDPS", "a diagram"),
        hashing.PARALLELISM,
        hashing.UPDATES,
        grouping.BY_EXPONENT,
        grouping.BY_PARTITIONS,
        Omitted(
            "kip-6",
            "Throughput and running time of Flink with DR",
            "measured on Flink, which unskew does not run on; kip-4 is the same on Spark",
        ),
        crawling.LAST_ROUND,
        crawling.ROUNDS_AND_TEXTS,
    ),
)
