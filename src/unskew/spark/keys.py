"""The key of a DataFrame: its columns checked, its type in Arrow's words."""

from __future__ import annotations

import difflib
from collections import Counter
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


def key_columns(df: DataFrame, key: Key, *more: str) -> KeyColumns:
    """Check the key's columns against the schema; no Spark job runs."""
    names = names_of((key, *more) if more else key)  # type: ignore[arg-type]
    if not names:
        raise ValueError("name at least one key column")
    fields = [field(df, name) for name in names]
    types = [_arrow_type(f.dataType, name) for f, name in zip(fields, names, strict=True)]
    if len({f.name for f in fields}) < len(names):
        raise ValueError(f"a key column is named twice: {', '.join(names)}")
    if len(names) == 1:
        return KeyColumns(names, types[0])
    return KeyColumns(names, pa.struct(list(zip(names, types, strict=True))))


def names_of(key: Key) -> tuple[str, ...]:
    """The names, given as one, as several or as one list of them, as PySpark takes them."""
    if isinstance(key, str) or not isinstance(key, Sequence):
        return (key,)
    if len(key) == 1 and not isinstance(key[0], str) and isinstance(key[0], Sequence):
        return tuple(key[0])
    return tuple(key)


def field(df: DataFrame, name: str) -> T.StructField:
    """The one column of that name, or a ValueError that says what there is instead."""
    if not isinstance(name, str):
        raise ValueError(
            f"give the column by name, not as {name!r}: add it with withColumn first if it is an expression"
        )
    same = str if _case_sensitive(df) else str.lower
    found = [f for f in df.schema.fields if same(f.name) == same(name)]
    if len(found) > 1:
        raise ValueError(
            f"column {name!r} is ambiguous: {len(found)} columns have that name; rename all but one"
        )
    if not found:
        close = difflib.get_close_matches(name, df.columns, 1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise ValueError(f"there is no column {name!r}: {hint}the columns are {', '.join(df.columns)}")
    return found[0]


def column(name: str) -> Column:
    """A column by its name, whatever characters that has."""
    return F.col(quoted(name))


def quoted(name: str) -> str:
    """The name of a column as SQL has it."""
    return "`" + name.replace("`", "``") + "`"


def lots() -> Column:
    """A number between 0 and 1 for each row, the same each time.

    Spark draws the same numbers for the same seed and partition, so with a seed that people use a sample might be drawn
    by the very column that the key was made with.
    """
    return F.rand(seed=6_364_136_223_846_793_005)


def free_name(wanted: str, *names: Sequence[str]) -> str:
    """A column name like `wanted` that is not among `names`."""
    taken = {name.lower() for several in names for name in several}
    while wanted.lower() in taken:
        wanted += "_"
    return wanted


def hashable(df: DataFrame) -> list[Column]:
    """The columns of `df` that could be a key: those that Spark can hash and that a name is enough to find."""
    count = Counter(f.name.lower() for f in df.schema.fields)
    return [
        column(f.name)
        for f in df.schema.fields
        if count[f.name.lower()] == 1
        and (isinstance(f.dataType, T.DecimalType) or type(f.dataType) in _SIMPLE)
    ]


def _case_sensitive(df: DataFrame) -> bool:
    return df.sparkSession.conf.get("spark.sql.caseSensitive") == "true"


_SIMPLE: dict[type[T.DataType], pa.DataType] = {
    T.StringType: pa.string(),
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
