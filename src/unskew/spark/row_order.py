"""What of a row stays the same when a task runs again: its number in a fixed order, or a hash of its content.

A task whose output was lost runs again, and must send every row where it sent it before: a reducer that has read the
first output and one that reads the second would else both get a row, or neither. Rows that are equal in every column
are interchangeable.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql import types as T

from unskew.spark.explained import Node, explained
from unskew.spark.keys import names_in_text, quoted
from unskew.spark.versions.types import is_variant

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_FIXED_ORDER = frozenset(
    (
        "CollectMetrics",
        "ColumnarToRow",
        "EmptyRelation",
        "FileScan",
        "Filter",
        "LocalTableScan",
        "Project",
        "Range",
        "Union",
    )
)
"""Operators that yield the rows of a partition in the same order whenever they run."""


_MAY_DIFFER = re.compile(
    # random, or made from where a row is
    r"\b(?:rand|randn|random|randstr|uniform|uuid|shuffle|reflect|java_method|try_reflect|spark_partition_id"
    r"|monotonically_increasing_id"
    # depends on the order in which rows arrive
    r"|first|last|any_value|first_value|last_value|max_by|min_by|mode|collect_list|array_agg|listagg|string_agg)\("
    r"|UDF|Python|InPandas|InArrow|MapPartitions|MapElements|ScriptTransformation|Window|Sample|Limit|Offset"
    # a database that others write to
    r"|JDBCRelation|JDBCScan|[kK]afka"
)
"""In the text of a plan: what may yield other rows or other values when it runs again."""


def may_differ(logical: Node) -> bool:
    """Whether a query may yield other rows or other values when it runs again."""
    return any(_MAY_DIFFER.search(node.text) for node in logical.walk())


def has_fixed_order(df: DataFrame) -> bool:
    """Whether the rows of a partition come in the same order whenever it is computed; no Spark job runs."""
    plan = explained(df)
    return plan is not None and all(node.name in _FIXED_ORDER for node in plan.physical.walk())


def content_hashes(df: DataFrame) -> tuple[str, str] | None:
    """Two 64-bit hashes, in SQL, both equal only for rows that are equal in every byte; None if not all can be hashed.

    What cannot be hashed are variants, maps inside other values, and columns that share a name or have one that SQL
    text cannot hold.
    """
    content = _content(df)
    if content is None:
        return None
    # the second hash starts from another state, so that what collides in the first does not collide in it
    return f"xxhash64({', '.join(content)})", f"xxhash64({', '.join(['1', *content])})"


def rough_hash(df: DataFrame) -> str:
    """A 64-bit hash, in SQL, of all that can be hashed of a row."""
    return f"xxhash64({', '.join(['0', *_hashable(df)])})"


def _content(df: DataFrame) -> list[str] | None:
    """Expressions whose hashes are equal only if rows are equal in every byte; None if there are none that say so.

    Spark hashes 0.0 and -0.0 alike, and strings that a collation takes for equal: their text tells them apart.
    """
    columns = _hashable(df)
    if len(columns) < len(df.columns):
        return None
    texts = [
        f"cast({each} as string)"
        for each, field in zip(columns, df.schema.fields, strict=True)
        if _hides_differences(field.dataType)
    ]
    return [*columns, *texts]


def _hashable(df: DataFrame) -> list[str]:
    """The columns, in SQL, that Spark can hash and whose names are unambiguous there."""
    count = Counter(name.lower() for name in df.columns)
    nameable = names_in_text(df, df.columns)
    columns = [
        _as_hashed(quoted(each.name), each.dataType)
        for each in df.schema.fields
        if count[each.name.lower()] == 1 and each.name in nameable
    ]
    return [each for each in columns if each is not None]


def _as_hashed(value: str, data_type: T.DataType) -> str | None:
    """The value, or the entries of a map, which Spark can hash although it refuses maps; None for what it cannot."""
    if isinstance(data_type, T.MapType):
        hashable = _is_hashable(data_type.keyType) and _is_hashable(data_type.valueType)
        return f"map_entries({value})" if hashable else None
    return value if _is_hashable(data_type) else None


def _is_hashable(data_type: T.DataType) -> bool:
    if isinstance(data_type, T.ArrayType):
        return _is_hashable(data_type.elementType)
    if isinstance(data_type, T.StructType):
        return all(_is_hashable(each.dataType) for each in data_type.fields)
    return not isinstance(data_type, T.MapType | T.UserDefinedType) and not is_variant(data_type)


def _hides_differences(data_type: T.DataType) -> bool:
    return any(
        is_collated(part) or isinstance(part, T.FloatType | T.DoubleType) for part in _parts(data_type)
    )


def is_collated(data_type: T.DataType) -> bool:
    """Whether values of the type may be equal although their text differs: strings under a collation."""
    return any(isinstance(part, T.StringType) and part != T.StringType() for part in _parts(data_type))


def _parts(data_type: T.DataType) -> Iterator[T.DataType]:
    """The simple types that values of the type are made of."""
    if isinstance(data_type, T.ArrayType):
        yield from _parts(data_type.elementType)
    elif isinstance(data_type, T.StructType):
        for each in data_type.fields:
            yield from _parts(each.dataType)
    elif isinstance(data_type, T.MapType):
        yield from _parts(data_type.keyType)
        yield from _parts(data_type.valueType)
    else:
        yield data_type
