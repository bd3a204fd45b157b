"""Mistakes that only Spark or the API can see, told with the file and the table that they are in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from unskew.jobs.job import Job


@contextmanager
def naming(job: Job, table: str) -> Iterator[None]:
    """Put the job file and the table in front of what is said in here."""
    from pyspark.errors import PySparkException

    try:
        yield
    except (ValueError, PySparkException) as error:
        raise ValueError(f"{job.file}: [{table}] {str(error).strip().splitlines()[0]}") from error
