"""Zvara et al.: Dynamic Repartitioning with the Key Isolator Partitioner (KIP)."""

from __future__ import annotations

from research.papers.experiment import Headline, Omitted, Paper
from research.papers.kip import crawling, grouping, hashing, live, shifted

PAPER = Paper(
    authors="Zvara, Szabó, Lóránt, Benczúr",
    title="System-aware dynamic partitioning for batch and streaming workloads",
    venue="arXiv 2105.15023, 2021",
    entries=(
        Omitted("kip-1", "Integration of Dynamic Repartitioning with DDPS", "a diagram"),
        hashing.PARALLELISM,
        hashing.UPDATES,
        grouping.BY_EXPONENT,
        shifted.SHIFTED,
        grouping.BY_PARTITIONS,
        live.THROUGHPUT,
        crawling.LAST_ROUND,
        crawling.ROUNDS_AND_TEXTS,
    ),
    headlines=(
        Headline(
            "imbalance of KIP below that of Hash, Scan, Readj on a stream of tags",
            "41 %, 29 %, 26 %",
            "kip-3",
            hashing.improvements,
        ),
        Headline(
            "throughput of a stream with re-planning between batches over that without",
            "1.5 to 2 ×",
            "kip-6",
            live.gains,
        ),
        Headline(
            "speedup in the 7th crawl round",
            "2.8 ×",
            "kip-7",
            crawling.round_speedups,
        ),
        Headline(
            "speedup of named entity recognition",
            "6 ×",
            "kip-8",
            crawling.text_speedups,
        ),
    ),
    machine="Spark on 40 to 64 cores and Flink on 14 nodes of 4 cores in the paper; here Spark on two cores, with 14 "
    "to 64 threads that wait.",
)
