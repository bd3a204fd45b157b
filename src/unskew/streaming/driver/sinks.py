"""Built-in sinks: each writes a batch once, no matter how often it is called with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


Sink: TypeAlias = Callable[["DataFrame", int], Any]
"""What a batch is handed to: a function of its rows and its id."""


def built_in_sink(name: str) -> Sink:
    """The sink called "console", "memory:NAME", "parquet:PATH" or "kafka:SERVERS/TOPIC"."""
    kind, _, what = name.partition(":")
    if kind == "console" and not what:
        return console
    if kind == "memory" and what:
        if not what.isidentifier():
            raise ValueError(
                f"memory:{what} needs a name that SQL accepts without quotes, such as memory:totals"
            )
        return Memory(what)
    if kind == "parquet" and what:
        return Parquet(what)
    if kind == "kafka" and "/" in what:
        servers, _, topic = what.rpartition("/")
        return Kafka(servers, topic)
    raise ValueError(
        f"there is no sink {name!r}: use a function of (DataFrame, batch id), 'console', 'memory:NAME', "
        "'parquet:PATH' or 'kafka:SERVERS/TOPIC'"
    )


def console(df: DataFrame, batch: int) -> None:
    """Print the first rows of each batch."""
    rows = df.toArrow().to_pandas()
    text = f"-- batch {batch}: {len(rows)} rows\n{rows.head(20).to_string(index=False)}"
    print(text, flush=True)  # noqa: T201 printing is its purpose


@dataclass(frozen=True)
class Parquet:
    """A folder `batch=N` per batch under `path`; a replayed batch replaces its folder."""

    path: str

    def __call__(self, df: DataFrame, batch: int) -> None:
        """Write the batch's folder."""
        df.write.mode("overwrite").parquet(f"{self.path.rstrip('/')}/batch={batch}")


@dataclass(frozen=True)
class Memory:
    """The view `global_temp.NAME` with the rows of all batches and a column `batch`; for trying things out.

    All queries of the application share their views, so a query that begins a checkpoint drops the view first.
    """

    name: str

    def drop(self, spark: SparkSession) -> None:
        """Forget the rows of another query."""
        spark.catalog.dropGlobalTempView(self.name)

    def __call__(self, df: DataFrame, batch: int) -> None:
        """Add the batch's rows, in place of those of an earlier run of the same batch."""
        import pyarrow as pa
        from pyspark.sql import functions as F

        spark = df.sparkSession
        rows = df.toArrow()
        rows = rows.append_column("batch", pa.array([batch] * len(rows), pa.int64()))
        view = f"global_temp.{self.name}"
        if spark.catalog.tableExists(view):
            earlier = spark.table(view).toArrow()
            other_batches = earlier.filter(pa.compute.not_equal(earlier["batch"], batch))
            rows = pa.concat_tables([other_batches, rows.cast(earlier.schema)])
        # Connect cannot infer a schema if there are no rows
        schema = df.withColumn("batch", F.lit(batch).cast("long")).schema
        spark.createDataFrame(rows, schema).createOrReplaceGlobalTempView(self.name)


@dataclass(frozen=True)
class Kafka:
    """JSON records to a topic. Kafka cannot delete a record: a replayed one has the same `batch` header."""

    servers: str
    topic: str

    def __call__(self, df: DataFrame, batch: int) -> None:
        """Send the batch."""
        from pyspark.sql import functions as F

        value = F.to_json(F.struct(*df.columns)).alias("value")
        header = F.array(
            F.struct(F.lit("batch").alias("key"), F.lit(str(batch)).cast("binary").alias("value"))
        )
        (
            df.select(value, header.alias("headers"))
            .write.format("kafka")
            .option("kafka.bootstrap.servers", self.servers)
            .option("includeHeaders", "true")
            .option("topic", self.topic)
            .save()
        )


def check_columns(sink: Sink, names: Sequence[str]) -> None:
    """Refuse an output column that the sink's own column `batch` would hide; Spark does not tell them apart by case."""
    if not isinstance(sink, Parquet | Memory):
        return
    for name in names:
        if name.lower() == "batch":
            raise ValueError(
                f"the output has a column {name!r}, but the sinks parquet: and memory: add a column 'batch' of their "
                "own: rename the column, or pass a function of (DataFrame, batch id) as the sink"
            )


def reads_whole_batch(sink: Sink) -> bool:
    """Whether the sink is known to read every row; a user's own may stop early."""
    return sink is console or isinstance(sink, Parquet | Memory | Kafka)
