"""`[sink]`: where the results of a job go.

A format is one entry of `SINKS`: the settings it needs, how `--check` describes it, and what builds its sink.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from unskew.jobs.code import load_function
from unskew.jobs.errors import locate_errors
from unskew.jobs.settings import (
    Mode,
    boolean,
    check_address,
    function_name,
    one_of,
    plain_values,
    setting,
    text,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from unskew.jobs.job import Job
    from unskew.streaming.driver.sinks import Sink

Build: TypeAlias = Callable[["Job"], "Sink"]


@dataclass(frozen=True)
class SinkFormat:
    """A format of `[sink]`.

    `needs` are the settings that say where the results go, and `description` is filled in with them. `stream` and
    `batch` build the sink for a job of that mode; None where the mode has no such sink.
    """

    needs: tuple[str, ...]
    description: str
    stream: Build | None = None
    batch: Build | None = None

    def build_for(self, mode: Mode) -> Build | None:
        """What builds the sink of a job of this mode."""
        return self.stream if mode == "stream" else self.batch


def _files(job: Job) -> Sink:
    """Files of a batch job, as Spark's own writer makes them."""
    sink = job.sink

    def write(df: DataFrame, _batch: int) -> None:
        writer = df.write.mode(sink.mode or "error").options(**sink.options)
        writer.format(str(sink.format)).save(job.path(str(sink.path)))

    return write


def _parquet_folders(job: Job) -> Sink:
    from unskew.streaming.driver.sinks import Parquet

    return Parquet(job.path(str(job.sink.path)))


def _kafka(job: Job) -> Sink:
    from unskew.streaming.driver.sinks import Kafka

    return Kafka(str(job.sink.servers), str(job.sink.topic))


def _console(_job: Job) -> Sink:
    from unskew.streaming.driver.sinks import console

    return console


def _memory(job: Job) -> Sink:
    from unskew.streaming.driver.sinks import Memory

    return Memory(str(job.sink.name))


SINKS = {
    "parquet": SinkFormat(("path",), "parquet files in {path}", stream=_parquet_folders, batch=_files),
    "csv": SinkFormat(("path",), "csv files in {path}", batch=_files),
    "json": SinkFormat(("path",), "json files in {path}", batch=_files),
    "text": SinkFormat(("path",), "text files in {path}", batch=_files),
    "kafka": SinkFormat(("servers", "topic"), "the topic {topic} of {servers}", stream=_kafka, batch=_kafka),
    "console": SinkFormat((), "console", stream=_console, batch=_console),
    "memory": SinkFormat(("name",), "the view global_temp.{name}", stream=_memory),
}
"""The formats that a job can write."""


@dataclass(frozen=True)
class SinkSettings:
    """A format with its address, or a function that writes the results."""

    format: str | None = setting(one_of(*SINKS), None)
    function: str | None = setting(function_name, None)
    path: str | None = setting(text, None)
    servers: str | None = setting(text, None)
    topic: str | None = setting(text, None)
    name: str | None = setting(text, None)
    mode: str | None = setting(one_of("error", "overwrite", "append"), None, only="batch")
    options: dict[str, Any] = setting(plain_values, {}, only="batch")
    persist: bool = setting(boolean, False, only="stream")

    def __post_init__(self) -> None:
        if (self.format is None) == (self.function is None):
            raise ValueError("format: name either a format or a function that writes the results")
        needs = () if self.format is None else SINKS[self.format].needs
        check_address(self, ("path", "servers", "topic", "name"), needs, self.format or "a function")
        if self.name is not None and not self.name.isidentifier():
            raise ValueError(f"name: SQL must take it without quotes, like totals, not {self.name!r}")
        if self.options and self.path is None:
            raise ValueError(
                f"options: this is for files only, not for {self.format or 'a function'}: leave it out"
            )
        if self.mode is not None and self.path is None:
            raise ValueError(
                f"mode: this is for files only, which may exist already, not for {self.format or 'a function'}: "
                "leave it out"
            )

    def check_mode(self, mode: Mode) -> None:
        """Refuse a format that jobs of this mode cannot write."""
        if self.format is not None and SINKS[self.format].build_for(mode) is None:
            formats = [name for name, sink in SINKS.items() if sink.build_for(mode) is not None]
            job = "a stream" if mode == "stream" else "a batch job"
            raise ValueError(
                f"[sink] format: {job} does not write {self.format}: use {', '.join(formats)} or a function"
            )

    def __str__(self) -> str:
        if self.format is None:
            return f"the function {self.function}"
        return SINKS[self.format].description.format_map(vars(self))


def build_sink(job: Job) -> Sink:
    """The sink of a job: a function of a DataFrame and the batch's number, which a batch job calls once, with 0."""
    sink = job.sink
    if sink.function is not None:
        with locate_errors(job, "sink"):
            return load_function(sink.function, job.folder)
    build = SINKS[str(sink.format)].build_for(job.mode)
    assert build is not None  # check_mode refuses the others
    return build(job)
