"""Caneill et al., Middleware 2016: locality-aware routing, simulated on pairs of keys and measured on several hosts."""

from __future__ import annotations

from research.papers.caneill import drift, edges, flights, hashtag, hosts, online, planning
from research.papers.experiment import Headline, Omitted, Paper

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
        hosts.AVERAGE,
        drift.DRIFT,
        flights.MONTHS,
        planning.MILLION,
    ),
    headlines=(
        Headline(
            "records that stay on their server with 6 servers: online, offline, hash",
            "50 %, 40 %, 16.6 %",
            "caneill-11",
            online.localities,
        ),
        Headline(
            "throughput over hash with 20 kB and a locality of 80 %, by servers",
            "grows with the servers",
            "caneill-9",
            hosts.gains,
        ),
        Headline(
            "throughput after the first reconfiguration of a live stream",
            "up to 2 ×",
            "caneill-13",
            hosts.steps,
        ),
    ),
    machine="Storm on up to six servers of their own with 1 and 10 Gb/s in the paper; here Spark on up to six hosts in "
    "network namespaces that share two cores, with links of 100 Mb/s and 1 Gb/s.",
)
