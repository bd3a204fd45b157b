"""Rows for the Spark tests, and what the tests compare: results, schemas, physical plans."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import unskew

_DAYS = [date(1970, 1, 1), date(1969, 12, 31), date(2024, 2, 29), date(1, 1, 1), date(9999, 12, 31)]
_TIMES = [
    datetime(1970, 1, 1),
    datetime(1969, 12, 31, 23, 59, 59, 999999),
    datetime(2024, 3, 31, 2, 30, 0, 5),
    datetime(2262, 1, 1),
]
_FLOATS = [0.0, float("nan"), -0.0, None, 1.5, -1.5, float("inf"), float("-inf"), 0.1]

POOLS: dict[str, pa.Array] = {
    "string": pa.array(["hot", None, "", "Füße", "日本語", "🙂", "a b", "'`\"\\\n", "spark" * 30, "b", "c"]),
    "byte": pa.array([7, None, 0, -128, 127, 1], pa.int8()),
    "short": pa.array([7, None, 0, -32768, 32767, 1], pa.int16()),
    "int": pa.array([7, None, 0, -(2**31), 2**31 - 1, 1, 2, 3], pa.int32()),
    "long": pa.array([7, None, 0, -(2**63), 2**63 - 1, 1, 2, 3], pa.int64()),
    "boolean": pa.array([True, None, False]),
    "float": pa.array(_FLOATS, pa.float32()),
    "double": pa.array(_FLOATS, pa.float64()),
    "decimal": pa.array([Decimal("1.25"), None, Decimal(0), Decimal("-99999999.99")], pa.decimal128(10, 2)),
    "decimal38": pa.array(
        [Decimal("1.25"), None, Decimal(0), Decimal("-9999999999999999999999999999.0000000001")],
        pa.decimal128(38, 10),
    ),
    "date": pa.array([*_DAYS, None], pa.date32()),
    "timestamp": pa.array([*_TIMES, None], pa.timestamp("us", "UTC")),
    "timestamp_ntz": pa.array([*_TIMES, None], pa.timestamp("us")),
    "binary": pa.array([b"hot", None, b"", b"\x00\xff", b"\x00" * 40], pa.binary()),
    "struct": pa.array(
        [{"a": 1, "b": "x"}, None, {"a": None, "b": "x"}, {"a": 1, "b": None}, {"a": 2, "b": ""}],
        pa.struct([("a", pa.int32()), ("b", pa.string())]),
    ),
}

KEYS: dict[str, list[str]] = {
    **{name: [name] for name in POOLS},
    "composite": ["string", "int"],
    "wide composite": ["double", "decimal38", "timestamp", "boolean"],
}
"""Every kind of key: one column of each type, and several columns."""

FEW_KEYS = ["string", "double", "decimal38", "timestamp", "struct", "composite"]
"""The kinds that differ in how Spark compares them, for tests that would take too long over all kinds."""


QUICK_KEYS = ["string", "decimal38", "wide composite"]
"""The kinds that `make test` tries where another test tries them all."""


def keyed(rows: int, seed: int) -> pa.Table:
    """Random rows with a column of each key type, with few values, the first of them hot; `v` numbers the rows."""
    draw = np.random.default_rng(seed)
    columns: dict[str, Any] = {"v": np.arange(rows), "w": draw.integers(1, 9, rows).astype(float)}
    for name, pool in POOLS.items():
        chance = 1.0 / np.arange(1, len(pool) + 1)
        columns[name] = pool.take(pa.array(draw.choice(len(pool), rows, p=chance / chance.sum())))
    return pa.table(columns)


@dataclass(frozen=True)
class Frames:
    """Two Arrow tables, the same rows as DataFrames, and for each kind of key a plan that differs from hashing."""

    spark: SparkSession
    left_rows: pa.Table
    right_rows: pa.Table

    @cached_property
    def left(self) -> DataFrame:
        return self._frame(self.left_rows)

    @cached_property
    def right(self) -> DataFrame:
        return self._frame(self.right_rows)

    def _frame(self, rows: pa.Table) -> DataFrame:
        # Spark reads every Arrow timestamp as one with a time zone.
        times = F.col("timestamp_ntz").cast("timestamp_ntz")
        return self.spark.createDataFrame(rows).withColumn("timestamp_ntz", times)

    @cached_property
    def measured(self) -> dict[str, unskew.Histogram]:
        """The left side counted by each kind of key, by Spark."""
        return {
            kind: unskew.measure(self.left, names, buckets=64, sample=None) for kind, names in KEYS.items()
        }

    @cached_property
    def plans(self) -> dict[str, unskew.Plan]:
        """Planned without Spark, from the rows: three slots, every value of the key with a table row of its own."""
        return {kind: self._plan(names) for kind, names in KEYS.items()}

    def _plan(self, names: list[str]) -> unskew.Plan:
        histogram = unskew.Histogram.from_keys(key_array(self.left_rows, names), buckets=64)
        return unskew.plan(histogram, slots=3, planner="keel", grain=0.01)


def key_array(rows: pa.Table, names: list[str]) -> pa.Array:
    """The key of every row: a column, or a struct of several."""
    columns = [rows[name].combine_chunks() for name in names]
    return columns[0] if len(names) == 1 else pa.StructArray.from_arrays(columns, names=names)


def rows_of(df: DataFrame) -> list[str]:
    """The rows as sorted text: NaN equals NaN, -0.0 differs from 0.0, null from everything."""
    return sorted(repr(list(row.values())) for row in _rows(df.toArrow()))


def _rows(table: pa.Table) -> list[dict[int, Any]]:
    return table.rename_columns([str(i) for i in range(table.num_columns)]).to_pylist()


def assert_same(ours: DataFrame, plain: DataFrame) -> None:
    """The same rows, and the same columns in the same order with the same types."""
    assert ours.schema == plain.schema
    expected = rows_of(plain)
    assert expected, "the comparison has no rows"
    assert rows_of(ours) == expected


def physical_plan(df: DataFrame) -> str:
    """The physical plan as text, the same way on classic Spark and on Connect."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        df.explain()
    return text.getvalue()


def exchanges(df: DataFrame) -> list[str]:
    """The kinds of the shuffles (and broadcasts) in the physical plan, such as hashpartitioning.

    If this very DataFrame was executed, which only classic Spark remembers, these are the shuffles of AQE's final plan.
    """
    text = physical_plan(df).partition("== Initial Plan ==")[0]
    nodes = re.findall(r"^[\s:+|-]*(?:\*\(\d+\) )?(\w*Exchange)\b ?(\w*)", text, re.MULTILINE)
    return [kind if exchange == "Exchange" else exchange for exchange, kind in nodes]


@contextlib.contextmanager
def setting(spark: SparkSession, **values: str) -> Iterator[None]:
    """Spark SQL settings within the block; underscores in a name stand for dots."""
    names = {f"spark.sql.{name.replace('_', '.')}": value for name, value in values.items()}
    before = {name: spark.conf.get(name, None) for name in names}
    for name, value in names.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)


def importless(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function without the name of its module, which the workers cannot import."""
    function.__module__ = "__main__"
    return function
