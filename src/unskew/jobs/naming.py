"""Mistakes that only Spark or the API can see, told with the file and the table that they are in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from unskew.jobs.job import Job


@contextmanager
def naming(job: Job, table: str = "") -> Iterator[None]:
    """Put the job file, and the table if it is known, in front of what is said in here."""
    from pyspark.errors import PySparkException

    try:
        yield
    except (ValueError, PySparkException) as error:
        where = f"{job.file}: [{table}]" if table else f"{job.file}:"
        raise ValueError(f"{where} {str(error).strip().splitlines()[0]}") from error
