"""Errors that appear only once Spark runs: which table of the job file they are about, or what a function raised."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unskew.jobs.job import Job


@contextmanager
def locate_errors(job: Job, table: str = "") -> Iterator[None]:
    """Put the job file, and the table if there is one, in front of an error's first line."""
    from pyspark.errors import PySparkException

    try:
        yield
    except (ValueError, PySparkException) as error:
        location = f"{job.file}: [{table}]" if table else f"{job.file}:"
        raise ValueError(f"{location} {str(error).strip().splitlines()[0]}") from error


@contextmanager
def unwrap_failures() -> Iterator[None]:
    """Raise what a function of the job raised, which Spark buries in the tracebacks of two languages."""
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        messages = _RAISED.findall(str(error))
        if not messages:
            raise
        # the last error of a chain knows the most, such as the key
        raise RuntimeError(messages[-1].strip()) from error


_RAISED = re.compile(r"^(?!py4j|pyspark|org\.|java|scala)[A-Za-z_][\w.]*(?:Error|Exception): .+$", re.M)
"""The line of a Python traceback that names the exception, unless it is Spark's own."""
