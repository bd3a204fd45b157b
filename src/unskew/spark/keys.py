"""The key of a DataFrame: its columns checked, its type in Arrow's words."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql import types as T

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

Key = str | Sequence[str]


@dataclass(frozen=True)
class KeyColumns:
    """The key's column names as the user wrote them, and its type; a struct for several columns."""

    names: tuple[str, ...]
    type: pa.DataType

    def columns(self) -> list[Column]:
        """The key as Spark columns."""
        return [column(name) for name in self.names]

    def hash(self) -> Column:
        """The 64-bit hash of the key."""
        return F.xxhash64(*self.columns())


def key_columns(df: DataFrame, key: Key) -> KeyColumns:
    """Check the key's columns against the schema; no Spark job runs."""
    names = (key,) if isinstance(key, str) else tuple(key)
    if not names:
        raise ValueError("name at least one key column")
    types = [_arrow_type(field(df, name).dataType, name) for name in names]
    if len(set(names)) < len(names):
        raise ValueError(f"a key column is named twice: {', '.join(names)}")
    if len(names) == 1:
        return KeyColumns(names, types[0])
    return KeyColumns(names, pa.struct(list(zip(names, types, strict=True))))


def field(df: DataFrame, name: str) -> T.StructField:
    """The one column of that name, or a ValueError that says what there is instead."""
    if not isinstance(name, str):
        raise ValueError(
            f"give the column by name, not as {name!r}: add it with withColumn first if it is an expression"
        )
    found = [f for f in df.schema.fields if f.name.lower() == name.lower()]
    if len(found) > 1:
        exact = [f for f in found if f.name == name]
        if len(exact) != 1:
            raise ValueError(
                f"column {name!r} is ambiguous: {len(found)} columns have that name; rename all but one"
            )
        return exact[0]
    if not found:
        close = difflib.get_close_matches(name, df.columns, 1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise ValueError(f"there is no column {name!r}: {hint}the columns are {', '.join(df.columns)}")
    return found[0]


def column(name: str) -> Column:
    """A column by its name, whatever characters that has."""
    return F.col("`" + name.replace("`", "``") + "`")


def free_name(df: DataFrame, wanted: str) -> str:
    """A column name that `df` does not have."""
    taken = {name.lower() for name in df.columns}
    while wanted.lower() in taken:
        wanted += "_"
    return wanted


_SIMPLE: dict[type[T.DataType], pa.DataType] = {
    T.BinaryType: pa.binary(),
    T.ByteType: pa.int8(),
    T.ShortType: pa.int16(),
    T.IntegerType: pa.int32(),
    T.LongType: pa.int64(),
    T.BooleanType: pa.bool_(),
    T.FloatType: pa.float32(),
    T.DoubleType: pa.float64(),
    T.DateType: pa.date32(),
    T.TimestampType: pa.timestamp("us", "UTC"),
    T.TimestampNTZType: pa.timestamp("us"),
    T.NullType: pa.null(),
}


def _arrow_type(spark_type: T.DataType, name: str) -> pa.DataType:
    if isinstance(spark_type, T.DecimalType):
        return pa.decimal128(spark_type.precision, spark_type.scale)
    if isinstance(spark_type, T.StructType):
        return pa.struct([(f.name, _arrow_type(f.dataType, f"{name}.{f.name}")) for f in spark_type.fields])
    if isinstance(spark_type, T.CharType | T.VarcharType):
        return pa.string()
    if isinstance(spark_type, T.StringType):
        if getattr(spark_type, "collation", "UTF8_BINARY") not in (None, "UTF8_BINARY"):
            raise ValueError(
                f"key column {name!r} has the collation {spark_type.collation}, under which different strings are "
                "equal: use collate(col, 'UTF8_BINARY') or a normalised copy as the key"
            )
        return pa.string()
    if type(spark_type) in _SIMPLE:
        return _SIMPLE[type(spark_type)]
    raise ValueError(
        f"key column {name!r} has the type {spark_type.simpleString()}, which cannot be a key of unskew: use a string, "
        "number, boolean, date, timestamp, binary or struct column, or turn it into one first (to_json, hex, …)"
    )
