"""Job files for tests: a valid stream and a valid batch job, and a way to change one setting."""

from __future__ import annotations

import copy
from typing import Any

STREAM: dict[str, Any] = {
    "mode": "stream",
    "checkpoint": "checkpoint",
    "source": {"format": "json", "path": "in", "schema": "user string, amount long, at timestamp"},
    "operator": {"key": "user", "aggregates": {"n": "count", "total": {"sum": "amount"}}},
    "sink": {"format": "parquet", "path": "out"},
}
BATCH: dict[str, Any] = {
    "mode": "batch",
    "source": {"format": "csv", "path": "in.csv"},
    "operator": {"key": ["user", "day"], "apply": "scores:score", "output": "user string, score double"},
    "sink": {"format": "parquet", "path": "out"},
}


def changed(job: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """The job with one setting, named like `source.path`, set to a value; None removes it."""
    copied = copy.deepcopy(job)
    *path_to_table, name = path.split(".")
    table = copied
    for part in path_to_table:
        table = table.setdefault(part, {})
    if value is None:
        del table[name]
    else:
        table[name] = value
    return copied
