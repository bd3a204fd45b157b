"""Aggregates in a job file: `n = "count"`, `total = { sum = "amount" }`, `page = { last = "page", by = "at" }`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from unskew.jobs.settings import Place, Reader, meant, table, text, whole

if TYPE_CHECKING:
    from pyspark.sql import Column

    from unskew.streaming.aggregation import Aggregate

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
    functions = [one for one in given if one in OPTIONS]
    if len(functions) != 1:
        strange = [one for one in given if one not in OPTIONS]
        hint = next(filter(None, (meant(one, OPTIONS) for one in strange)), "")
        raise place.wrong(f"name one aggregate: {hint}choose one of {', '.join(OPTIONS)}")
    function = functions[0]
    inside = {one: place.within(one) for one in given}
    if place.mode == "batch" and function == "top_k":
        raise inside[function].wrong("this is for mode = 'stream' only: leave it out")
    options = OPTIONS[function]
    for one in given:
        if one not in options and one != function:
            takes = f"it takes {', '.join(options)}" if options else "it takes a column and nothing else"
            raise inside[one].wrong(f"{function} has no such option: {meant(one, options)}{takes}")
    if "by" in options and "by" not in given:
        raise place.wrong(f"{function} needs by, the column that says which record is {function}")
    read = {one: options[one](given[one], inside[one]) for one in given if one != function}
    return Kept(name, function, text(given[function], inside[function]), read)


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
