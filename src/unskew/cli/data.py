"""The options of commands that read data, and the DataFrame that they name."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

import typer

from unskew.cli.console import Step
from unskew.cli.options import spark_settings
from unskew.core.routing import check_slots
from unskew.core.text_enum import TextEnum

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from unskew.spark.measure import Sample


class Format(TextEnum):
    """How the data is stored."""

    PARQUET = "parquet"
    CSV = "csv"
    JSON = "json"


PathArgument = Annotated[
    str | None, typer.Argument(metavar="PATH", help="A Parquet, CSV or JSON file or folder.")
]
KeyOption = Annotated[
    list[str] | None,
    typer.Option("--key", metavar="COLUMN", help="A key column; repeat it for a composite key."),
]
TableOption = Annotated[str | None, typer.Option("--table", help="A table of the catalog instead of PATH.")]
FormatOption = Annotated[
    Format | None, typer.Option("--format", help="Format of PATH  [default: by its extension]")
]
WeightOption = Annotated[
    str | None,
    typer.Option("--weight", help="A column with the cost of a record  [default: each weighs 1]"),
]
SampleOption = Annotated[
    str,
    typer.Option(
        "--sample",
        metavar="auto|all|SHARE|ROWS",
        help="Records to measure: auto (a bounded sample of big data), all, a share (0.1) or a number of rows.",
    ),
]
MasterOption = Annotated[
    str, typer.Option("--master", help="Where Spark runs, as for spark-submit; sc://… for Spark Connect.")
]


def key_names(names: list[str] | None) -> list[str]:
    """The key columns of `--key`."""
    if not names:
        raise ValueError("name the key: --key COLUMN, once per column")
    return names


def check_sizes(slots: int | None, buckets: int) -> None:
    """Refuse numbers of slots and buckets that do not go together."""
    if buckets < 1:
        raise ValueError(f"--buckets {buckets}: use at least 1")
    check_slots(1 if slots is None else slots, buckets)


def check_source(path: str | None, table: str | None, master: str) -> None:
    """Refuse anything but one source, and a local path that does not exist."""
    if (path is None) == (table is None):
        raise ValueError("name either a PATH or --table NAME")
    if path is not None and master.startswith("local"):
        from unskew.spark.sources import check_path

        check_path(path)


def data_frame(
    path: str | None, table: str | None, form: Format | None, master: str, conf: list[str] | None, step: Step
) -> DataFrame:
    """The data that the command line names; starts Spark."""
    from unskew.spark.session import quiet_session
    from unskew.spark.sources import guess_format, read

    settings = spark_settings(conf)
    format_name = None
    if path is not None:
        format_name = guess_format(path) if form is None else form.value
    step("starting Spark")
    spark = quiet_session(master, settings)
    step(f"reading {table or path}")
    if table is not None:
        return spark.table(table)
    assert path is not None  # check_source has checked that there is a path or a table
    return read(spark, path, format_name)


def parse_sample(text: str) -> Sample:
    """The sample that `--sample` asks for."""
    if text == "all":
        return None
    if text == "auto":
        return "auto"
    try:
        return int(text) if re.fullmatch(r"\d+", text) else float(text)
    except ValueError:
        raise ValueError(
            f"--sample {text}: write auto, all, a share such as 0.1, or a number of rows"
        ) from None
