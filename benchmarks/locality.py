"""`make bench-locality`: chained operators, on several hosts and on one.

Each section runs in its own process and may be run alone: `python -m benchmarks.locality synthetic`. Those on several
hosts (`synthetic`, `reconfigured`) start a small cluster on this machine, which needs root: see docs/cluster.md.
"""

from __future__ import annotations

from benchmarks.sections import run

SECTIONS = {
    "synthetic": "locality_batch",
    "reconfigured": "locality_stream",
    "chain": "locality_stream",
}

if __name__ == "__main__":
    run("locality", SECTIONS)
