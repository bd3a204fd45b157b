"""The rows of a DataFrame as an Arrow table in the driver, on every version of Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from unskew.spark.versions.running import version_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def arrow_table(df: DataFrame) -> pa.Table:
    """All rows: `DataFrame.toArrow` since 4.0. Before, the batches of each partition are collected as bytes."""
    if version_of(df.sparkSession).has_arrow_tables:
        return df.toArrow()
    from unskew.spark.versions.private import to_arrow_schema

    streams = df.mapInArrow(_serialized(), "batches binary").collect()
    batches = [batch for row in streams for batch in pa.ipc.open_stream(bytes(row[0]))]
    return pa.Table.from_batches(batches) if batches else to_arrow_schema(df.schema).empty_table()


def _serialized() -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function inside a function: workers get it whole, so that unskew is needed on the driver only."""

    def serialized(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for batch in batches:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema) as stream:
                stream.write_batch(batch)
            yield pa.RecordBatch.from_arrays(
                [pa.array([sink.getvalue().to_pybytes()], pa.binary())], ["batches"]
            )

    return serialized
