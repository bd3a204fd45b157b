"""Job files for tests: a sound stream and a sound batch job, and ways to spoil them."""

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
    """The job with one setting, named like `source.path`, put to a value; None takes it out."""
    made = copy.deepcopy(job)
    *tables, name = path.split(".")
    inside = made
    for table in tables:
        inside = inside.setdefault(table, {})
    if value is None:
        del inside[name]
    else:
        inside[name] = value
    return made
