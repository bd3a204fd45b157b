"""Mistakes that only Spark or the API can see, told by the table that they are in, and failures by what was raised."""

from __future__ import annotations

import re
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


@contextmanager
def plain_failures() -> Iterator[None]:
    """Tell what a function of the job raised, which Spark buries in the tracebacks of both languages."""
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        raised = _RAISED.findall(str(error))
        if not raised:
            raise
        raise RuntimeError(
            raised[-1].strip()
        ) from error  # the last of a chain knows the most: the key, for one


_RAISED = re.compile(r"^(?!py4j|pyspark|org\.|java|scala)[A-Za-z_][\w.]*(?:Error|Exception): .+$", re.M)
