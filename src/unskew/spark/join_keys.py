"""Which columns of two DataFrames a join compares for equality.

A condition may be any expression, and PySpark's columns cannot be taken apart, so Spark is asked: its physical plan
lists the keys of a join, such as `SortMergeJoin [cast(k#1 as bigint)], [j#9L], Inner`. The number after # says which
column that is. It is no use to compare it with another plan, since Spark renumbers the columns of a self-join, and
those of every plan on Spark Connect. So the plan that is read is that of a join of marked inputs: below the join each
side has a column `k#1 AS <marker>`, and within one plan a number stands for one column. A repartition below the markers
keeps Spark from computing anything else there, and a projection above leaves little else to read.

Why a mapped key is equal on both sides of every pair of rows that the join matches, whatever its type: the marked join
is an inner join under the same condition, so it returns exactly these pairs, and Spark joins only rows whose keys are
equal. A pair `coalesce(a, …), isnull(a)` of keys is how Spark compares `a <=> b`; if both are equal on both sides, both
columns are null, or neither is and they are equal.

The text is matched as a whole against a grammar that has no room for quotes, brackets or spaces inside a name. What
does not match is not mapped, and the join is left to Spark.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from unskew.spark.explained import Node, explained
from unskew.spark.keys import column, names_in_text, quoted
from unskew.spark.worth import operator_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql import types as T

_ATTRIBUTE = r"\w+#\d+L?"
_TYPE = r"\w+(?:\(\d+,\s?\d+\))?"
_VALUE = rf"(?:{_ATTRIBUTE}|cast\({_ATTRIBUTE} as {_TYPE}\))"
# Spark compares -0.0 and 0.0, and all NaN, as equal; so does xxhash64
_KEY = rf"(?:{_VALUE}|knownfloatingpointnormalized\(normalizenanandzero\({_VALUE}\)\))"
_ITEM = rf"(?:coalesce\({_KEY}, [\w.: -]*\), isnull\({_VALUE}\)|{_KEY})"
_LIST = rf"{_ITEM}(?:, {_ITEM})*"
_JOIN = re.compile(
    rf"(?:SortMergeJoin|ShuffledHashJoin|BroadcastHashJoin) \[({_LIST})\], \[({_LIST})\], (?:Inner|Cross)\b"
)
_PROJECTED = rf"{_ATTRIBUTE}(?: AS {_ATTRIBUTE})?"
_PROJECT = re.compile(rf"Project \[({_PROJECTED}(?:, {_PROJECTED})*)\]")
_CHAR = "__CHAR_VARCHAR_TYPE_STRING"
"""Where Spark notes that a column of strings is a CHAR or VARCHAR, and of which length."""

_BELOW_JOIN = ("Sort", "Exchange", "BroadcastExchange", "Filter")


@dataclass(frozen=True)
class KeyPart:
    """A column that a join compares, after a cast if Spark needs one; `null_safe` if null equals null.

    With `tries`, a value that cannot be cast is null. In ANSI mode the cast would fail, also on rows that the join
    never compares because of its other conditions. Without ANSI mode no cast fails, and it accepts more than a try.
    """

    name: str
    cast: str = ""
    null_safe: bool = False
    tries: bool = False

    @property
    def text(self) -> str:
        """The compared value in SQL."""
        if not self.cast:
            return quoted(self.name)
        return f"{'try_cast' if self.tries else 'cast'}({quoted(self.name)} as {self.cast})"

    def column(self) -> Column:
        """The compared value as a column of its DataFrame."""
        return F.expr(self.text)


@dataclass(frozen=True)
class JoinKeys:
    """What a join compares: part i of the left with part i of the right."""

    left: tuple[KeyPart, ...]
    right: tuple[KeyPart, ...]


def named_keys(left: DataFrame, right: DataFrame, names: Sequence[str]) -> JoinKeys | None:
    """The keys of a join by names that both sides have; None if Spark compares them in a way that cannot be read.

    Names that SQL text cannot hold are left to Spark as well.
    """
    if len(names_in_text(left, names)) < len(set(names)):
        return None
    types = [[_compared_type(df, name) for name in names] for df in (left, right)]
    if types[0] == types[1]:
        parts = tuple(map(KeyPart, names))
        return JoinKeys(parts, parts)
    return _marked_keys(left, right, list(names), names, names)


def condition_keys(
    left: DataFrame, right: DataFrame, condition: Sequence[Column], plain: Node
) -> JoinKeys | None:
    """The keys of a join under conditions, whose plain form Spark would execute as `plain`; None if it has none.

    All keys must be columns, or casts of columns, with ordinary and unambiguous names.
    """
    match = re.search(r"Join(?:\(skew=true\))? \[([^\[\]]*)\], \[([^\[\]]*)\]", operator_of(plain).text)
    if match is None:
        return None
    wanted = [
        [name for name in dict.fromkeys(re.findall(r"(\w+)#\d+", text)) if _unambiguous(df, name)]
        for df, text in ((left, match[1]), (right, match[2]))
    ]
    return _marked_keys(left, right, reduce(and_, condition), *wanted) if all(wanted) else None


def _marked_keys(
    left: DataFrame, right: DataFrame, on: Any, left_names: Sequence[str], right_names: Sequence[str]
) -> JoinKeys | None:
    mark = f"__unskew_{uuid.uuid4().hex}_"
    sides = []
    for side, (df, names) in enumerate(((left, left_names), (right, right_names))):
        markers = {f"{mark}{side}_{i}": column(name) for i, name in enumerate(names)}
        sides.append((df.repartition(2).withColumns(markers), list(markers)))
    (marked_left, left_markers), (marked_right, right_markers) = sides
    joined = marked_left.join(marked_right, on, "inner").select(*left_markers, *right_markers)
    plan = explained(joined)
    if plan is None:
        return None
    operator = operator_of(plan.physical)
    match = _JOIN.match(operator.text)
    if match is None or len(operator.children) != 2:
        return None
    marked = (
        dict(zip(left_markers, left_names, strict=True)),
        dict(zip(right_markers, right_names, strict=True)),
    )
    parts = [
        _parts(text, _names_by_attribute(child, names_by_marker))
        for text, child, names_by_marker in zip(match.groups(), operator.children, marked, strict=True)
    ]
    both = list(zip(*parts, strict=True)) if len(parts[0]) == len(parts[1]) else []
    pairs = [(a, b) for a, b in both if a and b and a.null_safe == b.null_safe]
    if not pairs:
        return None
    tries = left.sparkSession.conf.get("spark.sql.ansi.enabled") == "true"
    return JoinKeys(*(tuple(replace(pair[side], tries=tries) for pair in pairs) for side in (0, 1)))


def _names_by_attribute(child: Node, marked: dict[str, str]) -> dict[str, str]:
    """For each attribute below the join that a marker copies, and for the marker, the name of the marked column."""
    match = _PROJECT.fullmatch(child.below(_BELOW_JOIN).text)
    names = {}
    for item in match[1].split(", ") if match else []:
        source, _, alias = item.partition(" AS ")
        name = marked.get(alias.partition("#")[0])
        if name is not None:
            names[source] = names[alias] = name
    return names


def _parts(text: str, names: dict[str, str]) -> list[KeyPart | None]:
    """The parts of a key in Spark's text; None for one that is not a marked column."""
    parts = []
    for item in re.findall(_ITEM, text):
        values = re.findall(rf"(?<!\w){_VALUE}", item)
        null_safe = len(values) == 2
        attribute, _, cast = values[0].removeprefix("cast(").removesuffix(")").partition(" as ")
        # of a null-safe key, the value that is tested for null must be the one that is compared
        name = names.get(attribute) if len(set(values)) == 1 else None
        parts.append(None if name is None else KeyPart(name, cast, null_safe))
    return parts


def _compared_type(df: DataFrame, name: str) -> tuple[T.DataType, object]:
    """The type of a column, and its length if it is a CHAR: Spark pads the shorter of two before it compares them."""
    (described,) = df.select(column(name)).schema.fields
    return described.dataType, described.metadata.get(_CHAR)


def _unambiguous(df: DataFrame, name: str) -> bool:
    return sum(other.lower() == name.lower() for other in df.columns) == 1
