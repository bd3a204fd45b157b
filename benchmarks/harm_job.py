"""What an everyday job is: one function that is run twice, with Spark's own words and with unskew's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from pyspark.sql import Column, DataFrame, Window, WindowSpec

import unskew
from benchmarks.harm_data import Inputs


class Word(Protocol):
    """The calls in which the two versions of a job differ; what they return has the same methods in both."""

    def groupBy(self, df: DataFrame, *cols: Any) -> Any:
        """Group the rows by key."""

    def join(self, left: DataFrame, right: DataFrame, on: Any, how: str = "inner") -> DataFrame:
        """Join two inputs."""

    def window(self, df: DataFrame, *cols: Any) -> tuple[DataFrame, WindowSpec]:
        """The rows and a window over them."""


class _Plain:
    def groupBy(self, df: DataFrame, *cols: Any) -> Any:
        return df.groupBy(*cols)

    def join(self, left: DataFrame, right: DataFrame, on: Any, how: str = "inner") -> DataFrame:
        return left.join(right, on, how)

    def window(self, df: DataFrame, *cols: Any) -> tuple[DataFrame, WindowSpec]:
        return df, Window.partitionBy(*cols)


PLAIN: Word = _Plain()
UNSKEW: Word = unskew  # type: ignore[assignment]  # a module has functions where a class has methods
WORDS = {"plain": PLAIN, "unskew": UNSKEW}

SHUFFLED = {"spark.sql.autoBroadcastJoinThreshold": "-1"}
"""Settings for a join of two large inputs: at any scale, neither of them is broadcast."""


def noop(df: DataFrame, _folder: Path) -> None:
    """Compute every row and write none."""
    df.write.format("noop").mode("overwrite").save()


def write_by(*columns: str) -> Callable[[DataFrame, Path], None]:
    """Write a folder per value of the columns."""

    def write(df: DataFrame, folder: Path) -> None:
        df.write.partitionBy(*columns).mode("overwrite").parquet(str(folder))

    return write


def count(df: DataFrame, _folder: Path) -> None:
    """Count the rows."""
    df.count()


def _unchanged(df: DataFrame) -> DataFrame:
    return df


@dataclass(frozen=True)
class Job:
    """An everyday job.

    `run` builds it from a word and the inputs. `act` runs it. `settings` are Spark's while it is built and run.
    `comparable` makes of the result what must be equal (the order within collect_list is anyone's guess), and `loose`
    names columns that only have to agree up to this share, because the plain job does not repeat them exactly either.
    """

    name: str
    run: Callable[[Word, Inputs], DataFrame]
    family: str = ""
    act: Callable[[DataFrame, Path], None] = noop
    settings: Mapping[str, str] = field(default_factory=dict)
    comparable: Callable[[DataFrame], DataFrame] = _unchanged
    loose: Mapping[str, float] = field(default_factory=dict)
    long: bool = False


def sorted_arrays(df: DataFrame) -> DataFrame:
    """The rows with every array sorted."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import ArrayType

    columns: list[Column] = [
        F.sort_array(df[f"`{name}`"]).alias(name)
        if isinstance(df.schema[name].dataType, ArrayType)
        else df[f"`{name}`"]
        for name in df.columns
    ]
    return df.select(*columns)
