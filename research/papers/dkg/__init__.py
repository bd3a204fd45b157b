"""Rivetti et al., DEBS 2015: distribution-aware key grouping (DKG), simulated and as a prototype on Spark."""

from __future__ import annotations

from research.papers.dkg import instances, prototype, trace, tuning
from research.papers.experiment import Headline, Omitted, Paper

PAPER = Paper(
    authors="Rivetti, Querzoni, Anceaume, Busnel, Sericola",
    title="Efficient Key Grouping for Near-Optimal Load Balancing in Stream Processing Systems",
    venue="DEBS 2015",
    entries=(
        Omitted("dkg-1", "DKG architecture and working phases", "a diagram"),
        instances.IMBALANCE,
        instances.COEFFICIENTS,
        instances.DEVIATION,
        instances.DISTRIBUTION,
        instances.QUADRATIC,
        tuning.MU,
        tuning.THETA,
        tuning.BOTH,
        tuning.LEARNED,
        trace.TRACE,
        prototype.USAGE,
        prototype.THROUGHPUT,
        tuning.WOSIM,
        instances.PARTIAL,
    ),
    headlines=(
        Headline(
            "λ ≈ a·k + b of DKG, mean and worst: that of the best placement known",
            "60.7, −100 and 62.0, −100",
            "dkg-table-1",
            lambda record: instances.coefficients(record, "DKG", "DKG worst"),
        ),
        Headline(
            "λ ≈ a·k + b of a universal hash, mean and worst",
            "60.7, −60.7 and 87.3, −73.0",
            "dkg-table-1",
            lambda record: instances.coefficients(record, "Universal", "Universal worst"),
        ),
        Headline(
            "throughput over that of modulo grouping for k in 4, 5, 6, 8, 10",
            "2 ×",
            "dkg-12",
            prototype.gains,
        ),
    ),
    machine="Storm on one server with 8 cores, a JVM per instance, in the paper; here Spark on two cores, where "
    "instances wait instead of computing.",
)
