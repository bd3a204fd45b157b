"""Live queries for tests: one input file per batch, output read back by batch, and a plain replay to compare with."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

import unskew

Rows = list[dict[str, Any]]


@dataclass
class Live:
    """One stream of files, one checkpoint, one folder of output."""

    spark: SparkSession
    root: Path
    schema: str

    def __post_init__(self) -> None:
        self.source.mkdir(exist_ok=True)

    @property
    def source(self) -> Path:
        return self.root / "in"

    @property
    def checkpoint(self) -> str:
        return str(self.root / "checkpoint")

    def add(self, *batches: pa.Table) -> None:
        """Write one file per batch to come."""
        for table in batches:
            number = len(list(self.source.iterdir()))
            path = self.source / f"{number:05d}.parquet"
            # Spark, which may be listing the folder right now, ignores names that begin with a dot
            unready = path.with_name(f".{path.name}")
            pq.write_table(table, unready)
            os.utime(unready, (1e9 + number, 1e9 + number))  # Spark takes files by age
            unready.rename(path)

    def events(self) -> DataFrame:
        reader = self.spark.readStream.schema(self.schema).option("maxFilesPerTrigger", 1)
        return reader.parquet(str(self.source))

    def start(self, stream: Any, sink: Any, **options: Any) -> Any:
        """Start a query with options of `start` and fields of a placement."""
        arguments: dict[str, Any] = {"checkpoint": self.checkpoint, "slots": 3, "buckets": 64, **options}
        placed = {f.name: arguments.pop(f.name) for f in fields(unskew.Placement) if f.name in arguments}
        return stream.start(sink, placement=unskew.Placement(**placed), **arguments)

    def run(self, stream: Any, **options: Any) -> Any:
        """Handle the files that exist, and stop; like a supervisor, restart if the machine was merely too busy."""
        for _ in range(5):
            query = self.start(
                stream, f"parquet:{self.root / 'out'}", **{"trigger": "availableNow", **options}
            )
            try:
                query.awaitTermination()
            except StreamingQueryException as error:
                # Spark gives a new Python worker ten seconds, and no setting changes that
                if "worker failed to connect back" not in str(error):
                    raise
            else:
                break
        return query

    def output(self, batch: int) -> Rows:
        """What a batch emitted."""
        folder = self.root / "out" / f"batch={batch}"
        rows: Rows = []
        for file in sorted(folder.glob("*.parquet")):
            rows += pq.ParquetFile(file).read().to_pylist()
        return rows

    def outputs(self) -> dict[int, Rows]:
        folder = self.root / "out"
        batches = sorted(int(f.name.partition("=")[2]) for f in folder.glob("batch=*"))
        return {batch: self.output(batch) for batch in batches}


def counted(tables: list[pa.Table], key: Callable[[dict[str, Any]], Any]) -> list[dict[Any, tuple[int, int]]]:
    """For each batch the keys it touches, with their count and total so far, as a single thread computes them."""
    totals: dict[Any, tuple[int, int]] = {}
    outputs = []
    for table in tables:
        touched = {}
        for row in table.to_pylist():
            n, total = totals.get(key(row), (0, 0))
            totals[key(row)] = touched[key(row)] = (n + 1, total + row["v"])
        outputs.append(touched)
    return outputs


def drifting(
    batches: int, rows: int, keys: int, exponent: float, change: int, seed: int = 0
) -> list[pa.Table]:
    """Zipf batches whose hot keys change every `change` batches."""
    random = np.random.default_rng(seed)
    shares = np.cumsum(1 / np.arange(1, keys + 1) ** exponent)
    tables = []
    names = np.arange(keys)
    for batch in range(batches):
        if batch % change == 0:
            names = random.permutation(keys)
        drawn = names[np.searchsorted(shares / shares[-1], random.random(rows))]
        tables.append(pa.table({"k": [f"key-{d}" for d in drawn], "v": random.integers(0, 9, rows)}))
    return tables
