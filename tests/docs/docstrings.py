"""The examples in docstrings that need a Spark session: they begin from `spark`, as in PySpark's shell."""

from __future__ import annotations

import doctest


def needs_spark(test: doctest.DocTest) -> bool:
    """Whether an example uses the session."""
    return any("spark." in example.source for example in test.examples)
