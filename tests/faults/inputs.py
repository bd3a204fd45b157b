"""Difficult input: odd keys, one key with nearly all rows, empty batches, late and poison records."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.faults.outcome import Outcome
from tests.faults.process import Job
from tests.faults.replay import Place, skewed_batches

TEXTS = [None, "", "x" * 50_000, "ключ", "鍵 🗝", "a/../b", "\x00", "NaN", "null", "<b>'\";--", " ", "k"]
DOUBLES = [None, float("nan"), 0.0, -0.0, float("inf"), float("-inf"), 5e-324, 1.5, 2.5, -1e300]


def odd(root: Path) -> Iterator[Outcome]:
    """All in one process, one query after the other."""
    with Job(root / "home") as job:
        for number, (title, (kind, tables)) in enumerate(inputs().items()):
            place = Place.at(root / str(number), kind)
            place.add(*tables)
            yield _right(job, place, title)
        yield poison(job, Place.at(root / "poison", "update"))


def inputs() -> dict[str, tuple[str, list[pa.Table]]]:
    """The kind of operator and its batches, by the title of the case."""
    random = np.random.default_rng(1)
    composite = [(a, b) for a in (None, "", "ключ", "b") for b in (None, 0, -1, 2**62)]
    pairs = [_drawn(random, composite, n) for n in range(6)]
    heavy = [_heavy(random, table) for table in skewed_batches("totals", 6)]
    totals, windows = skewed_batches("totals", 6), skewed_batches("windows", 7)
    return {
        "null, empty, very long and non-ASCII keys": ("totals", _keyed(random, TEXTS, pa.string())),
        "NaN, zeros and infinities as keys": ("double", _keyed(random, DOUBLES, pa.float64())),
        "composite keys": ("composite", pairs),
        "one key with 90 % of the rows": ("totals", heavy),
        "empty batches": (
            "totals",
            [t.slice(0, 0) if i in (0, 2, 3, 5) else t for i, t in enumerate(totals)],
        ),
        "empty batches, windows": (
            "windows",
            [t.slice(0, 0) if i in (2, 6) else t for i, t in enumerate(windows)],
        ),
        "late records across migrations": ("windows", skewed_batches("windows", 8, seed=7)),
    }


def poison(job: Job, place: Place) -> Outcome:
    """The batch fails and names the key, nothing is committed; without the record the query goes on."""
    tables = skewed_batches("update", 6)
    evil = pa.table({"k": ["evil"], "v": pa.array([-1], pa.int64())})
    place.add(*tables[:4], pa.concat_tables([tables[4], evil]))
    started = time.perf_counter()
    title = "poison record"
    for _ in range(2):
        answer = job.run(place.request())
        if answer is None or answer["ok"] or "failed on key 'evil'" not in answer["error"]:
            note = f"expected an error that names the key: {answer}"
            return Outcome(title, "error", time.perf_counter() - started, note)
    if place.committed() != [0, 1, 2, 3]:
        return Outcome(title, "WRONG", time.perf_counter() - started, f"{place.committed()} are committed")
    pq.write_table(tables[4], place.source / "00004.parquet")
    place.add(tables[5])
    outcome = _right(job, place, title)
    return Outcome(title, outcome.kind, round(time.perf_counter() - started, 1), outcome.note)


def _right(job: Job, place: Place, title: str) -> Outcome:
    started = time.perf_counter()
    answer = job.run(place.request())
    spent = time.perf_counter() - started
    if answer is None or not answer["ok"]:
        return Outcome(title, "error", spent, f"{answer}")
    return Outcome.of(title, place.wrong(), spent, f"state moved in {len(place.moved())} batches")


def _keyed(random: np.random.Generator, keys: list[Any], kind: pa.DataType) -> list[pa.Table]:
    """Batches with a different hot key each."""
    tables = []
    for number in range(6):
        drawn = [keys[i] for i in _places(random, len(keys), number)]
        tables.append(pa.table({"k": pa.array(drawn, kind), "v": random.integers(0, 9, len(drawn))}))
    return tables


def _drawn(random: np.random.Generator, pairs: list[tuple[Any, Any]], number: int) -> pa.Table:
    drawn = [pairs[i] for i in _places(random, len(pairs), number)]
    columns = {
        "a": pa.array([a for a, _ in drawn], pa.string()),
        "b": pa.array([b for _, b in drawn], pa.int64()),
    }
    return pa.table({**columns, "v": random.integers(0, 9, len(drawn))})


def _places(random: np.random.Generator, keys: int, hot: int) -> list[int]:
    drawn = np.concatenate([random.integers(0, keys, 60), np.full(30, hot % keys)])
    return [int(i) for i in random.permutation(drawn)]


def _heavy(random: np.random.Generator, table: pa.Table) -> pa.Table:
    mask = random.random(len(table)) < 0.9
    keys = [
        "the one" if is_heavy else key for is_heavy, key in zip(mask, table["k"].to_pylist(), strict=True)
    ]
    return pa.table({"k": keys, "v": table["v"]})
