"""Joins with skew that nobody here generated: flights by carrier, and the words of Python's own documentation.

Both are joined with themselves, so a hot key emits the square of its rows: each pair of flights of one carrier, and
each pair of places where one word stands. `run(scale)` returns the figures of every case and contender, as
`split_joins` does.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.bars import Bar
from benchmarks.split_joins import FEW, join_bars, profiles
from benchmarks.split_runs import logged_session
from research.papers.nyc_flights import flights

DAYS, WORDS = 31, 64_000
"""Flights of so many days, and so many words, at scale 1: 5 · 10⁷ to 10⁸ pairs each."""

HOT = 8
"""Keys that whoever salts by hand takes for hot."""


def run(scale: float, turns: int, done: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """All cases at a scale that are not done yet, one after the other; profile → contender → figures."""
    with logged_session(FEW) as (spark, log, folder):
        for number, (name, keys) in enumerate({"flights": carriers(scale), "words": words(scale)}.items()):
            if name in done:
                continue
            left, right = (
                spark.read.parquet(_written(folder / f"{side}-{number}", keys, side)) for side in "vw"
            )
            hot_keys = [key for key, _ in Counter(keys).most_common(HOT)]
            yield name, profiles(spark, log, left, right, "inner", hot_keys, turns)


def bars(cases: Mapping[str, Any]) -> list[Bar]:
    """What the figures must meet."""
    return [bar for name, case in cases.items() for bar in join_bars(name, case, hot=True)]


def carriers(scale: float) -> list[str]:
    """The carrier of every flight from New York in the first days of 2013."""
    frame = flights()
    first_days = frame[(frame["month"] == 1) & (frame["day"] <= max(1, int(DAYS * scale)))]
    return [str(carrier) for carrier in first_days["carrier"]]


def words(scale: float) -> list[str]:
    """The first words of the reference that comes with Python (`help("topics")`)."""
    text = " ".join(topics[name] for name in sorted(topics))
    return re.findall(r"[a-z]+", text.lower())[: int(WORDS * scale)]


def _written(folder: Path, keys: list[str], value: str) -> str:
    """A file of keys, each with the number of its row."""
    folder.mkdir()
    pq.write_table(pa.table({"k": keys, value: range(len(keys))}), folder / "rows.parquet")
    return str(folder)
