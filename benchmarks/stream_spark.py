"""What the sections of the streaming benchmark share: a session, input files, contenders, batch times."""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import unskew

os.environ["PYSPARK_PYTHON"] = sys.executable
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
SCHEMA = "user string, amount long"
OUTPUT = "user string, n long, total long"


def session(master: str, more: Mapping[str, str] | None = None) -> SparkSession:
    """A quiet session with RocksDB and its changelog, the same for all contenders; `more` settings take precedence."""
    builder = SparkSession.builder.master(master).appName("unskew-bench")
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "6g",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.sql.streaming.numRecentProgressUpdates": "1000",
    }
    for key, value in {**settings, **(more or {})}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


class Input:
    """A stream of batches, two files each, in a new folder or in one that has some."""

    def __init__(self, root: Path | None = None) -> None:
        self.root = root or Path(tempfile.mkdtemp(prefix="unskew-stream-"))
        (self.root / "in").mkdir(exist_ok=True)
        self.batches = len(list((self.root / "in").iterdir())) // 2

    def add(self, keys: np.ndarray[Any, Any], values: np.ndarray[Any, Any] | None = None) -> None:
        """Add a batch."""
        if values is None:
            values = np.ones(len(keys), np.int64)
        for part in range(2):
            names = np.char.add("user-", keys[part::2].astype(str))
            path = self.root / "in" / f"{self.batches:05d}-{part}.parquet"
            pq.write_table(pa.table({"user": names, "amount": values[part::2]}), path)
            os.utime(path, (1e9 + self.batches, 1e9 + self.batches))
        self.batches += 1

    def read(self, spark: SparkSession) -> DataFrame:
        """The batches as a stream, one at a time."""
        return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 2).parquet(str(self.root / "in"))

    def checkpoint(self, name: str) -> str:
        """A folder for a contender's checkpoint."""
        return str(self.root / "checkpoints" / name)


class Sink:
    """Computes every row and keeps only the answers of the last batch, for checking."""

    def __init__(self, last: int) -> None:
        self.last = last
        self.answers: pa.Table | None = None

    def __call__(self, df: DataFrame, batch: int) -> None:  # noqa: D102
        if batch == self.last:
            self.answers = df.toArrow()
        else:
            df.write.format("noop").mode("overwrite").save()


def native(events: DataFrame) -> DataFrame:
    """Spark's own aggregation."""
    return events.groupBy("user").agg(F.count("*").alias("n"), F.sum("amount").alias("total"))


def with_state(events: DataFrame) -> DataFrame:
    """The same with `applyInPandasWithState`."""

    def step(key: Any, frames: Iterator[Any], state: Any) -> Iterator[Any]:
        import pandas as pd

        n, total = state.get if state.exists else (0, 0)
        for frame in frames:
            n, total = n + len(frame), total + int(frame["amount"].sum())
        state.update((n, total))
        yield pd.DataFrame({"user": [key[0]], "n": [n], "total": [total]})

    return events.groupBy("user").applyInPandasWithState(
        step, OUTPUT, "n long, total long", "update", "NoTimeout"
    )


def with_processor(events: DataFrame) -> DataFrame:
    """The same with `transformWithStateInPandas`, a processor called for each key."""
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    class Totals(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.totals = handle.getValueState("totals", "n long, total long")

        def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: ARG002
            import pandas as pd

            n, total = self.totals.get() or (0, 0)
            for frame in rows:
                n, total = n + len(frame), total + int(frame["amount"].sum())
            self.totals.update((n, total))
            yield pd.DataFrame({"user": [key[0]], "n": [n], "total": [total]})

        def close(self) -> None:
            pass

    return events.groupBy("user").transformWithStateInPandas(Totals(), OUTPUT, "Update", "None")


def run_spark(
    spark: SparkSession, source: Input, name: str, build: Callable[[DataFrame], DataFrame]
) -> tuple[list[dict[str, Any]], pa.Table]:
    """Run all batches through one of Spark's own operators; progress by batch, and the last answers."""
    sink = Sink(source.batches - 1)
    writer = build(source.read(spark)).writeStream.outputMode("update").foreachBatch(sink)
    query = writer.option("checkpointLocation", source.checkpoint(name)).trigger(availableNow=True).start()
    query.awaitTermination()
    return query.recentProgress, sink.answers


def run_unskew(
    spark: SparkSession, source: Input, name: str, **options: Any
) -> tuple[list[dict[str, Any]], pa.Table, list[dict[str, Any]]]:
    """Run all batches through the live operator; progress by batch, the last answers, and the journal."""
    sink = Sink(source.batches - 1)
    operation = unskew.stream(source.read(spark), "user").aggregate(
        n=unskew.count(), total=unskew.sum("amount")
    )
    query = operation.start(sink, checkpoint=source.checkpoint(name), trigger="availableNow", **options)
    query.awaitTermination()
    assert sink.answers is not None
    return query.recentProgress, sink.answers, query.journal()


def seconds(progress: list[dict[str, Any]], warm_up: int) -> float:
    """The median batch time after the warm-up."""
    return statistics.median(p["batchDuration"] for p in progress[warm_up:]) / 1e3


def same(ours: pa.Table, theirs: pa.Table) -> bool:
    """Whether both hold the same rows."""
    columns = ["user", "n", "total"]
    order = [(c, "ascending") for c in columns]
    our_rows, their_rows = (t.select(columns).sort_by(order).to_pydict() for t in (ours, theirs))
    return bool(our_rows == their_rows)


def zipf(rows: int, keys: int, exponent: float, random: np.random.Generator) -> np.ndarray[Any, Any]:
    """Ranks drawn from a Zipf distribution, 0 the hottest."""
    shares = np.cumsum(1.0 / np.arange(1, keys + 1) ** exponent)
    return np.searchsorted(shares / shares[-1], random.random(rows))
