"""Aggregates in a job file: `n = "count"`, `total = { sum = "amount" }`, `page = { last = "page", by = "at" }`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from unskew.jobs.settings import Location, Reader, did_you_mean, positive_int, table, text
from unskew.streaming.operators.aggregates import AGGREGATES

if TYPE_CHECKING:
    from pyspark.sql import Column

    from unskew.streaming.operators.aggregation import Aggregate

_READERS: Mapping[str, Reader] = {"str": text, "int": positive_int}


def options_of(function: str) -> dict[str, Reader]:
    """What an aggregate takes besides its column, and the reader of each: the fields of its class."""
    return {
        option.name: _READERS[str(option.type)]
        for option in fields(AGGREGATES[function])
        if option.name != "column"
    }


@dataclass(frozen=True)
class AggregateSettings:
    """One aggregate of a column and the name of its result; without a column, the number of records."""

    name: str
    function: str
    column: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        options = [f"{name}={value}" for name, value in self.options.items()]
        return f"{self.name} = {self.function}({', '.join([*filter(None, [self.column]), *options])})"


def read_aggregates(value: Any, location: Location) -> tuple[AggregateSettings, ...]:
    """The reader of a table of aggregates."""
    values = table(value, location)
    if not values:
        raise location.error("name at least one aggregate, like n = 'count'")
    return tuple(_read_aggregate(name, item, location.child(name)) for name, item in values.items())


def _read_aggregate(name: str, value: Any, location: Location) -> AggregateSettings:
    if value == "count":
        return AggregateSettings(name, "count")
    if isinstance(value, str):
        function = value if value in AGGREGATES else "sum"
        raise location.error(
            f"there is no {value!r} of whole records: {did_you_mean(value, ['count'])}"
            f"write 'count', or {{ {function} = '…' }} with the name of a column"
        )
    values = table(value, location)
    function = _read_function(values, location)
    column = text(values[function], location.child(function))
    return AggregateSettings(name, function, column, _read_options(function, values, location))


def _read_function(values: Mapping[str, Any], location: Location) -> str:
    """The only setting that names an aggregate."""
    functions = [name for name in values if name in AGGREGATES]
    if len(functions) != 1:
        hints = (did_you_mean(name, AGGREGATES) for name in values if name not in AGGREGATES)
        hint = next(filter(None, hints), "")
        raise location.error(f"name one aggregate: {hint}choose one of {', '.join(AGGREGATES)}")
    if location.mode == "batch" and not AGGREGATES[functions[0]].in_batch:
        raise location.child(functions[0]).error("this is for mode = 'stream' only: leave it out")
    return functions[0]


def _read_options(function: str, values: Mapping[str, Any], location: Location) -> dict[str, Any]:
    """What the aggregate takes besides its column."""
    readers = options_of(function)
    options = {name: value for name, value in values.items() if name != function}
    for name in options:
        if name not in readers:
            takes = f"it takes {', '.join(readers)}" if readers else "it takes a column and nothing else"
            hint = did_you_mean(name, readers)
            raise location.child(name).error(f"{function} has no such option: {hint}{takes}")
    if "by" in readers and "by" not in options:
        raise location.error(f"{function} needs by, the column that says which record is {function}")
    return {name: readers[name](value, location.child(name)) for name, value in options.items()}


def stream_aggregate(settings: AggregateSettings) -> Aggregate:
    """The aggregate as `unskew.stream` takes it."""
    return AGGREGATES[settings.function](column=settings.column, **settings.options)


def batch_aggregate(settings: AggregateSettings) -> Column:
    """The aggregate as a Spark expression, for a DataFrame."""
    return stream_aggregate(settings).batch_column().alias(settings.name)
