"""Rivetti et al., DEBS 2015: distribution-aware key grouping (DKG), simulated and as a prototype on Spark."""

from __future__ import annotations

from research.papers.dkg import instances, prototype, trace, tuning
from research.papers.experiment import Omitted, Paper

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
)
