"""Caneill et al., Middleware 2016: locality-aware routing, simulated on generated and on real pairs of keys."""

from __future__ import annotations

from unskew.papers.caneill import drift, edges, flights, hashtag, online, planning
from unskew.papers.experiment import Omitted, Paper

PAPER = Paper(
    authors="Caneill, El Rheddane, Leroy, De Palma",
    title="Locality-Aware Routing in Stateful Streaming Applications",
    venue="Middleware 2016",
    entries=(
        Omitted("caneill-1", "A simple wordcount stream application", "a diagram"),
        Omitted("caneill-2", "Components with 2, 2 and 3 instances", "a diagram"),
        Omitted("caneill-3", "Deployment of a stateful streaming application", "a diagram"),
        Omitted("caneill-4", "Instances count pairs of keys", "a diagram"),
        Omitted("caneill-5", "A bipartite graph of pairs of keys", "a diagram"),
        Omitted("caneill-6", "The reconfiguration protocol", "a diagram"),
        hashtag.PLACES,
        online.WEEKS,
        edges.EDGES,
        drift.DRIFT,
        flights.MONTHS,
        planning.MILLION,
    ),
)
