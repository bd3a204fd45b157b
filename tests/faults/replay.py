"""What a single thread computes from the input; and what a case wrote, compared with it."""

from __future__ import annotations

import datetime as dt
import os
import re
import shutil
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

import unskew
from tests.streaming.live.live import counted, drifting

WINDOW, DELAY, STRIDE = 300, 600, 240
"""Seconds: of a window, of the watermark's delay (both as in `job.windowed`), and between two batches."""

Values = dict[Any, tuple[int, int]]


@dataclass(frozen=True)
class Place:
    """Where a case has its input, its checkpoint and its output."""

    root: Path
    kind: str
    source: Path
    checkpoint: Path

    @classmethod
    def at(cls, root: Path, kind: str, source: Path | None = None) -> Place:
        source = source or root / "in"
        source.mkdir(parents=True, exist_ok=True)
        root.mkdir(parents=True, exist_ok=True)
        return cls(root, kind, source, root / "checkpoint")

    def request(self, **options: Any) -> dict[str, Any]:
        """The request that has a job run this query."""
        paths = {"root": self.root, "source": self.source, "checkpoint": self.checkpoint}
        return {"kind": self.kind, **{name: str(path) for name, path in paths.items()}, **options}

    def add(self, *batches: pa.Table) -> None:
        """Write one file per batch to come."""
        for table in batches:
            number = len(list(self.source.iterdir()))
            path = self.source / f"{number:05d}.parquet"
            pq.write_table(table, path)
            os.utime(path, (1e9 + number, 1e9 + number))  # Spark takes files by age

    def grow(self, waiting: int) -> None:
        """Add batches until this many are waiting."""
        batches = self.committed()
        taken = self._files_after(batches[-1]) if batches else 0
        while len(list(self.source.iterdir())) - taken < waiting:
            number = len(list(self.source.iterdir()))
            self.add(*skewed_batches(self.kind, 2, seed=number, first=number))

    def copied(self, root: Path) -> Place:
        """A copy of the query with its checkpoint and output; it shares the input."""
        for part in ("checkpoint", "out"):
            shutil.copytree(self.root / part, root / part)
        return Place.at(root, self.kind, self.source)

    def committed(self) -> list[int]:
        """The batches that Spark has committed."""
        return _numbers(self.checkpoint / "commits")

    def moved(self) -> list[int]:
        """The batches in which every operator sent state to another slot, by the journal."""
        moved = []
        for operator in range(2 if self.kind == "chain" else 1):
            lines = unskew.journal(str(self.checkpoint), operator)
            moved.append({line["batch"] for line in lines if line["moved"]["rows"]})
        return sorted(set.intersection(*moved))

    def wrong(self, *, complete: bool = True, journal: bool = True) -> list[str]:
        """What differs from the replay: in the output of committed batches; if `complete`, anywhere."""
        tables = [pq.ParquetFile(file).read() for file in sorted(self.source.iterdir())]
        batches = self.committed()
        ends = [self._files_after(batch) for batch in batches]
        handled = [tables[a:b] for a, b in zip([0, *ends], ends, strict=False)]
        replay = {"windows": _windows, "chain": _chain}.get(self.kind, _totals)
        outputs, final = replay(handled, self.kind)
        problems = []
        if batches != list(range(len(batches))):
            problems.append(f"batches {batches} are committed")
        for batch, expected in zip(batches, outputs, strict=True):
            problem = _difference(self._output(batch), expected)
            if problem:
                problems.append(f"output of batch {batch}: {problem}")
        if not complete:
            return problems
        if not ends or ends[-1] != len(tables):
            problems.append(f"{ends[-1] if ends else 0} of {len(tables)} files were handled")
        if len(list((self.root / "out").glob("batch=*"))) != len(batches):
            problems.append("there is output of batches that were never committed")
        problem = _difference(_read([self.root / "state.parquet"], self.kind), final)
        if problem:
            problems.append(f"state: {problem}")
        lines = [line["batch"] for line in unskew.journal(str(self.checkpoint))]
        if journal and lines != batches:
            problems.append(f"the journal has batches {lines}")
        return problems

    def _output(self, batch: int) -> list[tuple[Any, tuple[int, int]]]:
        return _read(sorted((self.root / "out" / f"batch={batch}").glob("*.parquet")), self.kind)

    def _files_after(self, batch: int) -> int:
        """How many files Spark had taken after a batch."""
        text = (self.checkpoint / "offsets" / str(batch)).read_text()
        return int(re.findall(r'"logOffset":\s*(-?\d+)', text)[-1]) + 1


def skewed_batches(kind: str, batches: int, seed: int = 0, first: int = 0) -> list[pa.Table]:
    """Skewed batches whose hot keys change every other batch; their numbers, from `first` on, set their event times."""
    tables = drifting(batches, rows=300, keys=60, exponent=1.3, change=2, seed=seed)
    if kind != "windows":
        return tables
    random = np.random.default_rng(seed)
    timed_tables = []
    for number, table in enumerate(tables, first):
        newest = 1_760_000_000 + number * STRIDE
        # a few are too late, the others fall into windows that are still open
        ages = np.where(random.random(300) < 0.05, 2 * DELAY, 0) + random.integers(0, DELAY, 300)
        at = pa.array((newest - ages) * 1_000_000, pa.int64()).cast(pa.timestamp("us", "UTC"))
        timed_tables.append(pa.table({"k": table["k"], "at": at, "v": table["v"]}))
    return timed_tables


def _totals(batches: list[list[pa.Table]], kind: str) -> tuple[list[Values], Values]:
    outputs = counted([pa.concat_tables(tables) for tables in batches], lambda row: key_of(row, kind))
    return outputs, {key: values for touched in outputs for key, values in touched.items()}


def _chain(batches: list[list[pa.Table]], kind: str) -> tuple[list[Values], Values]:
    """Counts records per key; then per value its records, and the sum of their keys' counts after the batch."""
    counts: Counter[str] = Counter()
    state: Values = {}
    outputs = []
    for tables in batches:
        rows = pa.concat_tables(tables).to_pylist()
        counts.update(row["k"] for row in rows)
        for row in rows:
            n, total = state.get(row["v"], (0, 0))
            state[row["v"]] = (n + 1, total + counts[row["k"]])
        outputs.append({row["v"]: state[row["v"]] for row in rows})
    return outputs, state


def _windows(batches: list[list[pa.Table]], kind: str) -> tuple[list[Values], Values]:
    """Windows are emitted when the watermark passes their end; records of windows closed before are dropped."""
    state: Values = {}
    outputs = []
    newest, watermark = None, 0
    for tables in batches:
        watermark_before = watermark
        if newest is not None:
            watermark = max(watermark, newest - DELAY * 1_000_000)
        for row in [row for table in tables for row in table.to_pylist()]:
            at = micros(row["at"])
            newest = at if newest is None else max(newest, at)
            start = at // (WINDOW * 1_000_000) * WINDOW * 1_000_000
            if start + WINDOW * 1_000_000 > watermark_before:
                n, total = state.get((row["k"], start), (0, 0))
                state[row["k"], start] = (n + 1, total + row["v"])
        closed = [key for key in state if key[1] + WINDOW * 1_000_000 <= watermark]
        outputs.append({key: state.pop(key) for key in closed})
    return outputs, state


def key_of(row: dict[str, Any], kind: str) -> Any:
    """The key of a record or a result, in a form in which keys that Spark treats as equal are equal."""
    if kind == "chain":
        return row["v"]
    if kind == "composite":
        return row["a"], row["b"]
    if kind == "double":
        return repr(row["k"] if row["k"] is None else row["k"] + 0.0)  # -0.0 + 0.0 is 0.0
    if kind == "windows" and "window" in row:
        return row["k"], micros(row["window"]["start"])
    return row["k"]


def micros(moment: dt.datetime) -> int:
    stamp = pd.Timestamp(moment)  # Spark writes Parquet in UTC, without saying so
    return int((stamp.tz_localize("UTC") if stamp.tzinfo is None else stamp).value // 1000)


def _read(files: list[Path], kind: str) -> list[tuple[Any, tuple[int, int]]]:
    rows = [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]
    return [(key_of(row, kind), (row["n"], row["total"])) for row in rows]


def _difference(rows: list[tuple[Any, tuple[int, int]]], expected: Values) -> str | None:
    repeated = [key for key, times in Counter(key for key, _ in rows).items() if times > 1]
    if repeated:
        return f"{len(repeated)} keys occur more than once, such as {repeated[0]!r:.60}"
    values = dict(rows)
    wrong = [key for key in {**values, **expected} if values.get(key) != expected.get(key)]
    if not wrong:
        return None
    key = wrong[0]
    return (
        f"{len(wrong)} keys are wrong, such as {key!r:.60}: {values.get(key)} instead of {expected.get(key)}"
    )


def _numbers(folder: Path) -> list[int]:
    return sorted(int(f.name) for f in folder.glob("*") if f.name.isdigit())
