"""`[source]`: the settings of a job's input, and the records that Spark reads with them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unskew.jobs.errors import locate_errors
from unskew.jobs.settings import check_address, one_of, plain_values, setting, text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from unskew.jobs.job import Job

SOURCES: dict[str, tuple[str, ...]] = {
    "parquet": ("path",),
    "csv": ("path",),
    "json": ("path",),
    "text": ("path",),
    "kafka": ("servers", "topic"),
    "rate": (),
}
"""The formats that a job can read, and the settings that each needs to find its data."""


@dataclass(frozen=True)
class SourceSettings:
    """Where the records come from, and which column is their event time."""

    format: str = setting(one_of(*SOURCES))
    path: str | None = setting(text, None)
    servers: str | None = setting(text, None)
    topic: str | None = setting(text, None)
    schema: str | None = setting(text, None)
    columns: dict[str, Any] = setting(plain_values, {})
    options: dict[str, Any] = setting(plain_values, {})
    time: str | None = setting(text, None, only="stream")
    watermark: str | None = setting(text, None, only="stream")

    def __post_init__(self) -> None:
        check_address(self, ("path", "servers", "topic"), SOURCES[self.format], self.format)
        if self.format in ("rate", "text") and self.schema is not None:
            raise ValueError(f"schema: {self.format} has its own columns: leave it out")
        if self.watermark is not None and self.time is None:
            raise ValueError("watermark: it needs time, the event-time column")

    def __str__(self) -> str:
        if self.format == "kafka":
            return f"the topic {self.topic} of {self.servers}"
        return self.format if self.path is None else f"{self.format} files in {self.path}"


def read_records(job: Job, spark: SparkSession) -> DataFrame:
    """The records of the source with the columns that the job adds; without a schema, Spark infers the types."""
    from pyspark.sql import functions as F

    source = job.source
    with locate_errors(job, "source"):
        reader: Any = spark.readStream if job.is_stream else spark.read
        reader = reader.format(source.format).options(**_reader_options(source))
        if source.schema is not None and source.format != "kafka":
            reader = reader.schema(source.schema)
        df: DataFrame = reader.load(*([job.path(source.path)] if source.path is not None else []))
        if source.format == "kafka":
            df = _kafka_records(df, source.schema)
        columns = {name: F.expr(str(expression)) for name, expression in source.columns.items()}
        return df.withColumns(columns) if columns else df


def _reader_options(source: SourceSettings) -> dict[str, Any]:
    defaults: dict[str, Any] = {}
    if source.format == "csv":
        defaults = {"header": True, "inferSchema": source.schema is None}
    if source.format == "kafka":
        defaults = {"kafka.bootstrap.servers": source.servers, "subscribe": source.topic}
    return defaults | source.options


def _kafka_records(df: DataFrame, schema: str | None) -> DataFrame:
    """The fields of JSON values; without a schema, the key and the value as text, and the timestamp."""
    from pyspark.sql import functions as F

    value = F.col("value").cast("string")
    if schema is None:
        return df.select(F.col("key").cast("string"), value.alias("value"), "timestamp")
    return df.select(F.from_json(value, schema).alias("record")).select("record.*")
