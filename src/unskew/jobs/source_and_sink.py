"""The two ends of a job: records from its source, results to its sink."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unskew.jobs.code import load_function
from unskew.jobs.errors import naming
from unskew.jobs.job import Job

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from unskew.streaming.driver.callback import Sink


def records(job: Job, spark: SparkSession) -> DataFrame:
    """The records of the source with the columns that the job adds; of files without a schema, the types are read."""
    from pyspark.sql import functions as F

    source = job.source
    with naming(job, "source"):
        reader: Any = spark.readStream if job.is_stream else spark.read
        reader = reader.format(source.format).options(**_options(job))
        if source.schema is not None and source.format != "kafka":
            reader = reader.schema(source.schema)
        df: DataFrame = reader.load(*([job.path(source.path)] if source.path is not None else []))
        if source.format == "kafka":
            df = _of_kafka(df, source.schema)
        added = {name: F.expr(str(text)) for name, text in source.columns.items()}
        return df.withColumns(added) if added else df


def sink_of(job: Job) -> Sink | str:
    """The sink of a stream, as `start` takes it."""
    sink = job.sink
    match sink.format:
        case None:
            assert sink.function is not None  # a sink has a format or a function
            with naming(job, "sink"):
                return load_function(sink.function, job.folder)
        case "memory":
            return f"memory:{sink.name}"
        case "parquet":
            return f"parquet:{job.path(str(sink.path))}"
        case "kafka":
            return f"kafka:{sink.servers}/{sink.topic}"
    return sink.format


def write(job: Job, result: DataFrame) -> None:
    """Run a batch job: its result goes to the sink. A function or Kafka gets it as batch 0 of a stream would come."""
    from unskew.streaming.driver.sinks import built_in_sink

    sink = job.sink
    if sink.path is not None:
        writer = result.write.mode(sink.mode or "error").options(**sink.options)
        writer.format(str(sink.format)).save(job.path(sink.path))
        return
    given = sink_of(job)
    (built_in_sink(given) if isinstance(given, str) else given)(result, 0)


def _options(job: Job) -> dict[str, Any]:
    source = job.source
    usual: dict[str, Any] = {}
    if source.format == "csv":
        usual = {"header": True, "inferSchema": source.schema is None}
    if source.format == "kafka":
        usual = {"kafka.bootstrap.servers": source.servers, "subscribe": source.topic}
    return usual | source.options


def _of_kafka(df: DataFrame, schema: str | None) -> DataFrame:
    """The fields of JSON values; without a schema the key and the value as text, and the time."""
    from pyspark.sql import functions as F

    value = F.col("value").cast("string")
    if schema is None:
        return df.select(F.col("key").cast("string"), value.alias("value"), "timestamp")
    return df.select(F.from_json(value, schema).alias("record")).select("record.*")
