"""Aggregates in a job file: `n = "count"`, `total = { sum = "amount" }`, `page = { last = "page", by = "at" }`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from unskew.jobs.settings import Place, Reader, meant, table, text, whole

if TYPE_CHECKING:
    from pyspark.sql import Column

    from unskew.streaming.operators.aggregation import Aggregate

OPTIONS: Mapping[str, Mapping[str, Reader]] = {
    "count": {},
    "sum": {},
    "min": {},
    "max": {},
    "mean": {},
    "variance": {},
    "first": {"by": text},
    "last": {"by": text},
    "approx_distinct": {"k": whole},
    "top_k": {"k": whole},
}
"""The aggregates, and what each takes besides its column."""


@dataclass(frozen=True)
class Kept:
    """One aggregate of a column under a name; of no column it is the number of records."""

    name: str
    function: str
    column: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        options = [f"{name}={value}" for name, value in self.options.items()]
        return f"{self.name} = {self.function}({', '.join([*filter(None, [self.column]), *options])})"


def aggregates(value: Any, place: Place) -> tuple[Kept, ...]:
    """The reader of a table of aggregates."""
    given = table(value, place)
    if not given:
        raise place.wrong("name at least one aggregate, like n = 'count'")
    return tuple(_kept(name, one, place.within(name)) for name, one in given.items())


def _kept(name: str, value: Any, place: Place) -> Kept:
    if value == "count":
        return Kept(name, "count")
    if isinstance(value, str):
        function = value if value in OPTIONS else "sum"
        raise place.wrong(
            f"there is no {value!r} of whole records: {meant(value, ['count'])}"
            f"write 'count', or {{ {function} = '…' }} with the name of a column"
        )
    given = table(value, place)
    function = _function(given, place)
    column = text(given[function], place.within(function))
    return Kept(name, function, column, _options(function, given, place))


def _function(given: Mapping[str, Any], place: Place) -> str:
    """The one aggregate that is named."""
    named = [one for one in given if one in OPTIONS]
    if len(named) != 1:
        hints = (meant(one, OPTIONS) for one in given if one not in OPTIONS)
        hint = next(filter(None, hints), "")
        raise place.wrong(f"name one aggregate: {hint}choose one of {', '.join(OPTIONS)}")
    if place.mode == "batch" and named[0] == "top_k":
        raise place.within("top_k").wrong("this is for mode = 'stream' only: leave it out")
    return named[0]


def _options(function: str, given: Mapping[str, Any], place: Place) -> dict[str, Any]:
    """What it takes besides its column."""
    known = OPTIONS[function]
    options = {one: value for one, value in given.items() if one != function}
    for one in options:
        if one not in known:
            takes = f"it takes {', '.join(known)}" if known else "it takes a column and nothing else"
            raise place.within(one).wrong(f"{function} has no such option: {meant(one, known)}{takes}")
    if "by" in known and "by" not in options:
        raise place.wrong(f"{function} needs by, the column that says which record is {function}")
    return {one: known[one](value, place.within(one)) for one, value in options.items()}


def for_stream(kept: Kept) -> Aggregate:
    """The aggregate of `unskew.stream`."""
    import unskew

    arguments = () if kept.column is None else (kept.column,)
    made: Aggregate = getattr(unskew, kept.function)(*arguments, **kept.options)
    return made


def for_batch(kept: Kept) -> Column:
    """The same of a DataFrame, as an expression of Spark's."""
    from pyspark.sql import functions as F

    from unskew.spark.keys import column

    if kept.column is None:
        return F.count(F.lit(1)).alias(kept.name)
    value = column(kept.column)
    match kept.function:
        case "first":
            made = F.min_by(value, column(kept.options["by"]))
        case "last":
            made = F.max_by(value, column(kept.options["by"]))
        case "approx_distinct":
            made = F.approx_count_distinct(value, kept.options.get("k", 256) ** -0.5)
        case _:
            made = getattr(F, _SPARK.get(kept.function, kept.function))(value)
    return made.alias(kept.name)


_SPARK = {"variance": "var_samp"}
