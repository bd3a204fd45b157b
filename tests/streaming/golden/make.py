"""How the golden checkpoint was created. It is never recreated for the same format: that would prove nothing.

    python -m tests.streaming.golden.make tests/streaming/golden/format-3.tar.gz

A new format gets a new file, and the old files stay: every one of them must restart for ever.
"""

from __future__ import annotations

import sys
import tarfile
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import unskew

ROWS = 60
"""Records per batch."""

PLACEHOLDER = b"file:/checkpoint"


class Always(unskew.Policy):
    """Switches whenever the planner proposes another table, so that the checkpoint contains handoffs."""

    def decide(self, current: Any, candidate: Any, *_: Any, **__: Any) -> unskew.Decision:
        return unskew.Decision(not current.same_routes(candidate), "always")


def events(spark: SparkSession) -> DataFrame:
    """Records whose values are 0, 1, 2, …; a few keys get most of them."""
    source = (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", ROWS)
        .option("numPartitions", 2)
        .option("startTimestamp", 1_700_000_000_000)
        .option("advanceMillisPerBatch", 1000)
        .load()
    )
    key = F.when(F.col("value") % 3 == 0, "hot").otherwise(F.concat(F.lit("k"), F.col("value") % 11))
    return source.select(
        key.alias("user"),
        F.col("value").alias("amount"),
        (F.col("value") % 4).cast("double").alias("rating"),
        F.col("timestamp").alias("time"),
    )


def totals(spark: SparkSession) -> unskew.StatefulStream:
    """One operator with every aggregate."""
    return unskew.stream(events(spark), "user").aggregate(
        n=unskew.count(),
        rated=unskew.count("rating"),
        total=unskew.sum("amount"),
        least=unskew.min("amount"),
        most=unskew.max("amount"),
        average=unskew.mean("rating"),
        spread=unskew.variance("rating"),
        earliest=unskew.first("amount", by="time"),
        latest=unskew.last("amount", by="time"),
        values=unskew.approx_distinct("amount", k=16),
        top=unskew.top_k("rating", k=2),
    )


def run(stream: unskew.StatefulStream, checkpoint: Path, batches: int) -> unskew.LiveQuery:
    """Handle this many more batches."""
    placement = unskew.Placement(max_slots=3, buckets=32)

    def sink(df: DataFrame, batch: int) -> None:
        df.collect()

    query = stream.start(
        sink, checkpoint=str(checkpoint), slots=2, policy=Always(), placement=placement, trigger="2 seconds"
    )
    last = max((line["batch"] for line in query.journal()), default=-1) + batches
    while query.isActive and not any(line["batch"] >= last for line in query.journal()):
        query.awaitTermination(0.2)
    query.stop()
    return query


def main() -> None:
    from tests.spark.session import make_session

    archive = Path(sys.argv[1])
    with TemporaryDirectory() as name:
        checkpoint = Path(name, "totals")
        spark = make_session()
        run(totals(spark), checkpoint, 5)
        spark.stop()
        pack(checkpoint, archive)


def pack(checkpoint: Path, archive: Path) -> None:
    """Store the checkpoint as one file. Spark writes the checkpoint's address into it: a placeholder replaces it."""
    with tarfile.open(archive, "w:gz") as tar:
        for file in sorted(path for path in checkpoint.rglob("*") if path.is_file()):
            if not file.name.startswith("."):
                data = file.read_bytes().replace(f"file:{checkpoint}".encode(), PLACEHOLDER)
                entry = tarfile.TarInfo(str(file.relative_to(checkpoint)))
                entry.size = len(data)
                tar.addfile(entry, BytesIO(data))


def unpack(archive: Path, checkpoint: Path) -> None:
    """Restore the checkpoint at another address."""
    with tarfile.open(archive) as tar:
        for entry in tar.getmembers():
            target = checkpoint / entry.name
            target.parent.mkdir(parents=True, exist_ok=True)
            content = tar.extractfile(entry)
            assert content is not None
            target.write_bytes(content.read().replace(PLACEHOLDER, f"file:{checkpoint}".encode()))


if __name__ == "__main__":
    main()
