"""The key of a DataFrame: its columns, resolved by Spark itself, and its type in Arrow."""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from pyspark.sql import types as T

from unskew.spark.settings import setting
from unskew.spark.sql_terms import Term, as_column, call
from unskew.spark.versions.errors import condition_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

Part: TypeAlias = "str | int | Column"
"""One part of a key: the name of a column, its position (the first is 1), or any expression."""

Key: TypeAlias = "Part | Sequence[Part]"
"""One column or several. Functions take `key: Key, *more: Part`: `f(df, "a", "b")` is `f(df, ["a", "b"])`."""


@dataclass(frozen=True)
class KeyColumns:
    """The key of a DataFrame.

    `names` are those that the user wrote (for an expression, the name that Spark gives it), `type` is the type of the
    key's hash and of its measured values: a struct for several columns. `exprs` are the columns that Spark groups by,
    `parts` what the user wrote for them, `fields` their names and types in a result, `texts` what they are in SQL if
    all of them are columns given by name. If rows cannot be placed by this
    key, `obstacle` says why: only plain Spark can group by it then.
    """

    names: tuple[str, ...]
    type: pa.DataType
    exprs: tuple[Column, ...] = dataclasses.field(compare=False, repr=False)
    parts: tuple[Part, ...] = dataclasses.field(compare=False, repr=False)
    fields: tuple[T.StructField, ...] = dataclasses.field(compare=False, repr=False)
    obstacle: str | None = None
    texts: tuple[str, ...] | None = dataclasses.field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return ", ".join(self.names)

    @property
    def result_names(self) -> tuple[str, ...]:
        """The names of the key columns in a result of plain Spark."""
        return tuple(part.name for part in self.fields)

    def columns(self) -> list[Column]:
        """The key as Spark columns."""
        return list(self.exprs)

    def types(self) -> list[pa.DataType]:
        """The type of each key column."""
        return [self.type] if len(self.names) == 1 else [part.type for part in self.type]

    def hash(self) -> Column:
        """The 64-bit hash of the key."""
        return as_column(self.hash_term())

    def hash_term(self) -> Term:
        """The 64-bit hash of the key, as SQL text if the key has one."""
        return call("xxhash64", *(self.texts or self.exprs))

    def values(self) -> list[Column]:
        """The key as columns of its `type`: an interval is the number that its hash is made from."""
        return [as_column(value) for value in self.value_terms()]

    def value_terms(self) -> list[Term]:
        """The same, as SQL text where there is one."""
        terms: Sequence[Term] = self.texts or self.exprs
        return [
            _interval_as_number(as_column(term), part.dataType) if _is_interval(part.dataType) else term
            for term, part in zip(terms, self.fields, strict=True)
        ]

    def positions(self, df: DataFrame) -> list[int | None]:
        """Where each key column is among the columns of `df`; None for an expression. No Spark job runs."""
        return [
            df.columns.index(found.name)
            if isinstance(part, str) and _only_column(df, part) is not None
            else _position(df, expr, found.name)
            for part, expr, found in zip(self.parts, self.exprs, self.fields, strict=True)
        ]


def key_parts(key: Key, *more: Part) -> tuple[Part, ...]:
    """The parts of a key, which are given as one, as several, or as one list.

    >>> key_parts("a"), key_parts("a", "b"), key_parts(["a", "b"])
    (('a',), ('a', 'b'), ('a', 'b'))
    """
    if more or isinstance(key, str) or not isinstance(key, Sequence):
        return (key, *more)  # type: ignore[arg-type]  # what is not a part of a key is refused by `_resolved`
    return tuple(key)


def key_columns(df: DataFrame, key: Key, *more: Part) -> KeyColumns:
    """The key columns, resolved by Spark, or a ValueError if rows cannot be placed by them; no Spark job runs."""
    keys = grouping_columns(df, key, *more)
    if keys.obstacle is not None:
        raise ValueError(keys.obstacle)
    return keys


def named_key_columns(df: DataFrame, key: Key, *more: Part) -> KeyColumns:
    """As `key_columns`, where every part is the name of a column, each named once; no Spark job runs."""
    parts = key_parts(key, *more)
    names = [field(df, part).name for part in parts]  # type: ignore[arg-type]  # refuses what is no name
    if len(set(names)) < len(names):
        raise ValueError(f"a key column is named twice: {', '.join(map(str, parts))}; name each once")
    keys = key_columns(df, [column(name) for name in names])
    for part in keys.fields:
        if _is_interval(part.dataType):
            raise ValueError(_refused(part.dataType, part.name))
    return replace(keys, names=tuple(map(str, parts)))


def grouping_columns(df: DataFrame, key: Key, *more: Part) -> KeyColumns:
    """The key columns as `df.groupBy` resolves them, also those that only plain Spark can group by.

    What Spark cannot resolve is a ValueError. No Spark job runs.
    """
    check_frame(df)
    parts = key_parts(key, *more)
    if not parts:
        raise ValueError("name at least one key column")
    exprs = [_expression(df, part) for part in parts]
    fields = _resolved(df, parts, exprs)
    names = [part if isinstance(part, str) else found.name for part, found in zip(parts, fields, strict=True)]
    obstacles = [*_expression_obstacles(df, parts, exprs, names)]
    types = []
    for name, found in zip(names, fields, strict=True):
        arrow_type = _arrow_type(found.dataType, name)
        if isinstance(arrow_type, str):
            obstacles.append(arrow_type)
        else:
            types.append(arrow_type)
    key_type = pa.null()
    if not obstacles:
        parts_of_key = list(zip(distinct_names(names), types, strict=True))
        key_type = types[0] if len(types) == 1 else pa.struct(parts_of_key)
    texts = [_text(df, part) for part in parts]
    return KeyColumns(
        tuple(names),
        key_type,
        tuple(exprs),
        parts,
        tuple(fields),
        obstacles[0] if obstacles else None,
        None if None in texts else tuple(filter(None, texts)),
    )


def check_frame(df: DataFrame) -> None:
    """Refuse what is not a DataFrame of Spark."""
    # the class of which both classic's and Connect's DataFrames are
    from pyspark.sql import DataFrame

    if not isinstance(df, DataFrame):
        kind = type(df)
        is_pandas_on_spark = kind.__module__.startswith("pyspark.pandas")
        remedy = "call its to_spark()" if is_pandas_on_spark else "make one with spark.createDataFrame"
        raise ValueError(f"a Spark DataFrame is needed, not a {kind.__module__}.{kind.__name__}: {remedy}")


def check_batch(df: DataFrame) -> None:
    """Refuse what is not a DataFrame of a batch job."""
    check_frame(df)
    if df.isStreaming:
        raise ValueError("the DataFrame is a stream: use unskew.stream(df, key)")


def _expression(df: DataFrame, part: Part) -> Column:
    """The column that Spark groups by if it is given this part of a key."""
    from pyspark.sql import Column

    if isinstance(part, Column):
        return part
    if isinstance(part, str):
        return column(part) if _only_column(df, part) is not None else F.col(part)
    if isinstance(part, int) and not isinstance(part, bool):
        if not 1 <= part <= len(df.columns):
            raise ValueError(
                f"there is no column {part}: the positions of the {len(df.columns)} columns start with 1"
            )
        return df[part - 1]
    raise ValueError(f"a key column is a name, a Column or a position, not {part!r}")


def _text(df: DataFrame, part: Part) -> str | None:
    """This part of a key in SQL, if it is a column given by name."""
    if not isinstance(part, str) or _only_column(df, part) is None or part not in names_in_text(df, [part]):
        return None
    return quoted(part)


def _only_column(df: DataFrame, name: str) -> T.StructField | None:
    """The only top-level column that Spark, too, finds by this name; a dot in a name may point into a struct."""
    folded = str if _case_sensitive(df) else str.lower
    matches = [candidate for candidate in df.schema.fields if folded(candidate.name) == folded(name)]
    if len(matches) != 1:
        return None
    head = folded(name).partition(".")[0]
    is_path = head != folded(name) and any(folded(candidate.name) == head for candidate in df.schema.fields)
    return None if is_path else matches[0]


def _resolved(df: DataFrame, parts: Sequence[Part], exprs: Sequence[Column]) -> list[T.StructField]:
    """The name and type of each part of the key, by Spark's own analysis where a name is not enough."""
    fields = {i: _only_column(df, part) for i, part in enumerate(parts) if isinstance(part, str)}
    unknown = [i for i in range(len(parts)) if fields.get(i) is None]
    for i in unknown:
        part = parts[i]
        if isinstance(part, str) and (_count(df, part) > 1 or not set(".`") & set(part)):
            field(df, part)  # says that the name is ambiguous, or unknown; Spark would also log it
    if unknown:
        try:
            resolved = df.select(*(exprs[i] for i in unknown)).schema.fields
        except PySparkException as error:
            raise _refusal(df, [parts[i] for i in unknown], error) from error
        if len(resolved) != len(unknown):
            raise ValueError("a key column is one column, not a * or a function that returns several")
        fields |= dict(zip(unknown, resolved, strict=True))
    return [found for i in range(len(parts)) if (found := fields[i]) is not None]


def _refusal(df: DataFrame, parts: Sequence[Part], error: PySparkException) -> ValueError:
    """What Spark found wrong with the key, in one line."""
    for part in parts:
        if isinstance(part, str) and not set(".`") & set(part):
            try:
                field(df, part)
            except ValueError as refusal:
                return refusal
    line = str(error).splitlines()[0] if str(error) else type(error).__name__
    return ValueError(f"the key cannot be resolved: {line}; the columns are {', '.join(df.columns)}")


def _expression_obstacles(
    df: DataFrame, parts: Sequence[Part], exprs: Sequence[Column], names: Sequence[str]
) -> Iterator[str]:
    """Why rows cannot be placed by an expression, although Spark can group by it."""
    computed = [
        (expr, name)
        for part, expr, name in zip(parts, exprs, names, strict=True)
        if not isinstance(part, str | int)
    ]
    for expr, name in computed:
        if re.fullmatch(r"Column<'\d+'>", str(expr)):
            yield f"key {name} is a number, which Spark takes for the position of a result column"
            return
    try:
        if computed:
            # Spark refuses an aggregate of a random number in the analysis, and tells nothing about it elsewhere.
            _ = df.agg(*(F.count(expr) for expr, _ in computed)).schema
    except PySparkException as error:
        if condition_of(error) != "AGGREGATE_FUNCTION_WITH_NONDETERMINISTIC_EXPRESSION":
            raise _refusal(df, [], error) from error
        yield f"key {', '.join(name for _, name in computed)} is not deterministic, so a row has no fixed place"


def _position(df: DataFrame, expr: Column, name: str) -> int | None:
    if df.columns.count(name) != 1:
        return None
    try:
        is_column = df.select(expr).sameSemantics(df.select(column(name)))
    except PySparkException:
        return None  # two names that differ in case only
    return df.columns.index(name) if is_column else None


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


def _count(df: DataFrame, name: str) -> int:
    folded = str if _case_sensitive(df) else str.lower
    return sum(folded(candidate) == folded(name) for candidate in df.columns)


def column(name: str) -> Column:
    """A column by its name, which may contain any character."""
    return F.col(quoted(name))


def names_in_text(df: DataFrame, names: Sequence[str]) -> set[str]:
    """Those of the names by which SQL text can name a column.

    In text Spark replaces `${…}` by a setting, also between quotes; and it may be told to take a quoted name for a
    regular expression. Neither is true of a name that `column` takes.
    """
    odd = {name for name in names if not re.fullmatch(r"\w+", name)}
    if odd and setting(df.sparkSession, "spark.sql.parser.quotedRegexColumnNames") != "true":
        odd = {name for name in odd if "${" in name}
    return set(names) - odd


def quoted(name: str) -> str:
    """The name of a column, quoted for SQL."""
    return "`" + name.replace("`", "``") + "`"


LOTS = "rand(6364136223846793005)"
"""In SQL, a random number between 0 and 1 for each row, the same in every run.

Spark draws the same numbers for the same seed and partition. With a common seed, a sample might be drawn by the very
numbers that the key was made from.
"""


def lots() -> Column:
    """The same as a column."""
    return F.expr(LOTS)


def free_name(name: str, *taken: Sequence[str]) -> str:
    """The name, with as many underscores appended as it takes to differ from all names in `taken`."""
    lower = {column_name.lower() for names in taken for column_name in names}
    while name.lower() in lower:
        name += "_"
    return name


def distinct_names(names: Sequence[str]) -> list[str]:
    """The names, with underscores appended to those that occurred before.

    >>> distinct_names(["a", "b", "A"])
    ['a', 'b', 'A_']
    """
    distinct: list[str] = []
    for name in names:
        distinct.append(free_name(name, distinct))
    return distinct


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
    # Spark hashes these as numbers.
    T.DayTimeIntervalType: pa.int64(),
    T.YearMonthIntervalType: pa.int32(),
}


def _arrow_type(spark_type: T.DataType, name: str) -> pa.DataType | str:
    """The type of the hash and of the measured values of a key column, or why rows cannot be placed by it."""
    if isinstance(spark_type, T.DecimalType):
        return pa.decimal128(spark_type.precision, spark_type.scale)
    if isinstance(spark_type, T.StructType):
        types = {part.name: _arrow_type(part.dataType, f"{name}.{part.name}") for part in spark_type.fields}
        for part_type in types.values():
            if isinstance(part_type, str):
                return part_type
        if len(types) < len(spark_type.fields) or not types or _has_interval(spark_type):
            return _refused(spark_type, name)
        return pa.struct(list(types.items()))
    if isinstance(spark_type, T.CharType | T.VarcharType):
        return pa.string()
    if isinstance(spark_type, T.StringType):
        if getattr(spark_type, "collation", "UTF8_BINARY") not in (None, "UTF8_BINARY"):
            return (
                f"key column {name!r} has the collation {spark_type.collation}, under which different strings are "
                "equal: use collate(col, 'UTF8_BINARY') or a normalised copy as the key"
            )
        return pa.string()
    return _SIMPLE.get(type(spark_type)) or _refused(spark_type, name)


def _refused(spark_type: T.DataType, name: str) -> str:
    return (
        f"key column {name!r} has the type {spark_type.simpleString()}, which cannot be a key of unskew: use a string, "
        "number, boolean, date, timestamp, binary or struct column, or turn it into one first (to_json, hex, …)"
    )


def _has_interval(spark_type: T.StructType) -> bool:
    return any(_is_interval(part.dataType) for part in spark_type.fields)


def _is_interval(spark_type: T.DataType) -> bool:
    return isinstance(spark_type, T.DayTimeIntervalType | T.YearMonthIntervalType)


def _interval_as_number(expr: Column, spark_type: T.DataType) -> Column:
    """A day-time interval in microseconds, a year-month interval in months: the numbers that Spark hashes."""

    def unit(name: str, whole: Column) -> Column:
        return F.extract(F.lit(name), whole).cast("long")

    if isinstance(spark_type, T.YearMonthIntervalType):
        months = expr.cast("interval year to month")
        return (unit("YEAR", months) * 12 + unit("MONTH", months)).cast("int")
    time = expr.cast("interval day to second")
    minutes = (unit("DAY", time) * 24 + unit("HOUR", time)) * 60 + unit("MINUTE", time)
    micros = (F.extract(F.lit("SECOND"), time) * 1_000_000).cast("long")
    return minutes * 60_000_000 + micros
