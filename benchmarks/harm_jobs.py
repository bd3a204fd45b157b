"""The corpus of everyday jobs, by name."""

from __future__ import annotations

from benchmarks import harm_chains, harm_groups, harm_joins
from benchmarks.harm_job import Job

JOBS: dict[str, Job] = {
    f"{job.family}: {job.name}": job for job in [*harm_groups.JOBS, *harm_joins.JOBS, *harm_chains.JOBS]
}
"""A job's full name begins with its family."""
