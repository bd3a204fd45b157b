"""Caneill et al., Middleware 2016: locality-aware routing, simulated on pairs of keys and measured on several hosts."""

from __future__ import annotations

from research.papers.caneill import drift, edges, flights, hashtag, hosts, online, planning
from research.papers.experiment import Omitted, Paper

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
        hosts.PARALLELISM,
        hosts.LOCALITY,
        hosts.PADDING,
        hashtag.PLACES,
        online.WEEKS,
        edges.EDGES,
        hosts.STEP,
        Omitted(
            "caneill-14",
            "Average throughput over parallelism, with and without reconfiguration",
            "live streams were measured on four hosts (caneill-13); all hosts here share two cores, so more hosts add "
            "links but no processors, which caneill-7 shows without streams",
        ),
        drift.DRIFT,
        flights.MONTHS,
        planning.MILLION,
    ),
)
