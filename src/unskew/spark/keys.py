"""The key of a DataFrame: the names of its columns, checked against the schema, and its type in Arrow."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql import types as T

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

Key: TypeAlias = str | Sequence[str]
"""One column name or several. Functions take `key: Key, *more: str`: `f(df, "a", "b")` is `f(df, ["a", "b"])`."""


@dataclass(frozen=True)
class KeyColumns:
    """The names of the key columns as the user wrote them, and the type of the key: a struct for several columns."""

    names: tuple[str, ...]
    type: pa.DataType

    def __str__(self) -> str:
        return ", ".join(self.names)

    def columns(self) -> list[Column]:
        """The key as Spark columns."""
        return [column(name) for name in self.names]

    def types(self) -> list[pa.DataType]:
        """The type of each key column."""
        return [self.type] if len(self.names) == 1 else [part.type for part in self.type]

    def hash(self) -> Column:
        """The 64-bit hash of the key."""
        return F.xxhash64(*self.columns())


def key_names(key: Key, *more: str) -> tuple[str, ...]:
    """The names of the key columns, which are given as one name, as several, or as one list.

    >>> key_names("a"), key_names("a", "b"), key_names(["a", "b"])
    (('a',), ('a', 'b'), ('a', 'b'))
    """
    if more or isinstance(key, str) or not isinstance(key, Sequence):
        return (key, *more)  # type: ignore[arg-type]  # what is not a name is refused by `field`
    return tuple(key)


def key_columns(df: DataFrame, key: Key, *more: str) -> KeyColumns:
    """The key columns, checked against the schema; no Spark job runs."""
    names = key_names(key, *more)
    if not names:
        raise ValueError("name at least one key column")
    fields = [field(df, name) for name in names]
    types = [_arrow_type(part.dataType, name) for part, name in zip(fields, names, strict=True)]
    if len({part.name for part in fields}) < len(names):
        raise ValueError(f"a key column is named twice: {', '.join(names)}")
    if len(names) == 1:
        return KeyColumns(names, types[0])
    return KeyColumns(names, pa.struct(list(zip(names, types, strict=True))))


def field(df: DataFrame, name: str) -> T.StructField:
    """The only column of this name, or a ValueError that lists the columns there are."""
    if not isinstance(name, str):
        raise ValueError(
            f"give the column by name, not as {name!r}: add it with withColumn first if it is an expression"
        )
    folded = str if _case_sensitive(df) else str.lower
    matches = [candidate for candidate in df.schema.fields if folded(candidate.name) == folded(name)]
    if len(matches) > 1:
        raise ValueError(
            f"column {name!r} is ambiguous: {len(matches)} columns have that name; rename all but one"
        )
    if not matches:
        close = difflib.get_close_matches(name, df.columns, 1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise ValueError(f"there is no column {name!r}: {hint}the columns are {', '.join(df.columns)}")
    return matches[0]


def column(name: str) -> Column:
    """A column by its name, which may contain any character."""
    return F.col(quoted(name))


def quoted(name: str) -> str:
    """The name of a column, quoted for SQL."""
    return "`" + name.replace("`", "``") + "`"


def lots() -> Column:
    """A random number between 0 and 1 for each row, the same in every run.

    Spark draws the same numbers for the same seed and partition. With a common seed, a sample might be drawn
    by the very numbers that the key was made from.
    """
    return F.rand(seed=6_364_136_223_846_793_005)


def free_name(name: str, *taken: Sequence[str]) -> str:
    """The name, with as many underscores appended as it takes to differ from all names in `taken`."""
    lower = {column_name.lower() for names in taken for column_name in names}
    while name.lower() in lower:
        name += "_"
    return name


def hashable(df: DataFrame) -> list[Column]:
    """The columns of `df` that Spark can hash and whose names are unambiguous."""
    count = Counter(name.lower() for name in df.columns)
    return [
        column(part.name)
        for part in df.schema.fields
        if count[part.name.lower()] == 1
        and (isinstance(part.dataType, T.DecimalType) or type(part.dataType) in _SIMPLE)
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
        return pa.struct(
            [(part.name, _arrow_type(part.dataType, f"{name}.{part.name}")) for part in spark_type.fields]
        )
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
