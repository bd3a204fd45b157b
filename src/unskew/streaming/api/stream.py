"""`unskew.stream`: a stateful operator whose keys have measured places, which change while it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
from pyspark.sql import types as T

from unskew.core.migration.policy import Policy
from unskew.spark.keys import Key, KeyColumns, check_frame, field, named_key_columns
from unskew.spark.versions.private import from_arrow_schema, to_arrow_schema
from unskew.spark.versions.streams import check_streams
from unskew.streaming.driver.operator_spec import OperatorSpec
from unskew.streaming.driver.placement import Placement
from unskew.streaming.driver.query import LiveQuery
from unskew.streaming.driver.resolve import SavedPlan
from unskew.streaming.driver.sinks import Sink
from unskew.streaming.driver.start import check, start
from unskew.streaming.operators.aggregate_operator import AggregateOperator
from unskew.streaming.operators.aggregates import AGGREGATES
from unskew.streaming.operators.aggregation import Aggregate, Aggregation
from unskew.streaming.operators.operator import MOMENT, Expiry, Operator, Window
from unskew.streaming.operators.update_operator import UpdateOperator
from unskew.streaming.storage.layout import WINDOW

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def stream(
    events: DataFrame, key: Key, *more: str, time: str | None = None, watermark: str | None = None
) -> Stream:
    """A stateful operator over a streaming DataFrame, grouped by one or more key columns.

    `time` names the event-time column, `watermark` how late records may come ("10 minutes"): both are needed for
    windows that close and for expiry by event time. Choose what to keep with `aggregate`, `update` or
    `update_each`, then `start` it.

    >>> clicks = spark.readStream.format("rate").load()
    >>> unskew.stream(clicks, "value").aggregate(n=unskew.count(), last=unskew.max("timestamp"))
    StatefulStream(grouped by value, emits struct<value:bigint,n:bigint,last:timestamp>)
    """
    check_frame(events)
    check_streams(events.sparkSession)
    if not events.isStreaming:
        raise ValueError(
            "events is not a streaming DataFrame: read it with spark.readStream, or use unskew.groupBy"
        )
    keys = named_key_columns(events, key, *more)
    if watermark is not None and time is None:
        raise ValueError("a watermark needs time=, the event-time column")
    if time is not None and not isinstance(
        field(events, time).dataType, T.TimestampType | T.TimestampNTZType
    ):
        raise ValueError(
            f"time column {time!r} is not a timestamp but {field(events, time).dataType.simpleString()}: "
            "cast it with to_timestamp"
        )
    if watermark is not None:
        # Spark and pandas do not read the same texts: "1 h" means nothing to Spark
        watermark = f"{duration(watermark, 'watermark') // 1000} milliseconds"
    return Stream(events, keys, time, watermark)


@dataclass(frozen=True)
class Stream:
    """Records grouped by a key; what `unskew.stream` returns. `upstream` are the operators that they come from."""

    events: DataFrame
    keys: KeyColumns
    time: str | None
    watermark: str | None
    upstream: tuple[OperatorSpec, ...] = ()

    def __repr__(self) -> str:
        return f"Stream(grouped by {', '.join(self.keys.names)}, {len(self.events.columns)} columns)"

    def aggregate(
        self,
        *,
        window: str | None = None,
        slide: str | None = None,
        emit: str | None = None,
        ttl: str | None = None,
        **aggregates: Aggregate,
    ) -> StatefulStream:
        """Keep aggregates per key: `.aggregate(n=unskew.count(), total=unskew.sum("amount"))`.

        Each batch emits the keys it touched, with their new values. With `window` ("5 minutes"; a new one starts every
        `slide`, if that is set) they are kept per key and event-time window; with a watermark each window is emitted
        once, when it closes (`emit="closed"`, the default then), else whenever it changed (`emit="changed"`).
        `ttl` drops a key that has had no record for that long, by event time if there is a watermark, else by the
        clock.
        """
        schema = self._records()
        if not aggregates:
            raise ValueError("name at least one aggregate: .aggregate(n=unskew.count())")
        for name, aggregate in aggregates.items():
            if not isinstance(aggregate, Aggregate) or type(aggregate) is not AGGREGATES.get(aggregate.name):
                raise ValueError(
                    f"{name}={aggregate!r} is not an aggregate: use unskew.count(), unskew.sum(column), …"
                )
            if name in self.keys.names or name == WINDOW:
                raise ValueError(f"the name {name!r} is taken by the key or the window: choose another")
        if window is not None and self.upstream:
            raise ValueError(
                "windows are for the first of several chained operators: what it emits has no event time; "
                "leave window= out"
            )
        if window is not None and self.time is None:
            raise ValueError("windows need time=: unskew.stream(events, key, time='…')")
        if window is not None and WINDOW in self.keys.names:
            raise ValueError("a key column is called 'window', as the window of the result is: rename it")
        if slide is not None and window is None:
            raise ValueError("slide= needs window=")
        if window is not None and ttl is not None:
            raise ValueError("a window ends by itself: leave ttl= out, it is for state without one")
        if emit not in (None, "changed", "closed"):
            raise ValueError(f"emit is 'changed' or 'closed', not {emit!r}")
        if emit == "closed" and (window is None or self.watermark is None):
            raise ValueError("emit='closed' needs window= and a watermark: else nothing ever closes")
        size = duration(window, "window") if window is not None else 0
        step = duration(slide, "slide") if slide is not None else size
        if step > size:
            raise ValueError(
                f"slide {slide!r} is longer than window {window!r}: records between would be lost; "
                "choose a shorter one"
            )
        closes = window is not None and self.watermark is not None
        operator = AggregateOperator(
            self._key_schema(),
            Aggregation(aggregates, schema),
            Window(size, step) if window is not None else None,
            self.time,
            emit or ("closed" if closes else "changed"),
            self._expiry(ttl),
            schema.field(self.time).type if window is not None and self.time is not None else MOMENT,
        )
        used = dict.fromkeys([*operator.aggregation.inputs, *([self.time] if self.time else [])])
        return self._operation(operator, list(used))

    def update(
        self,
        fn: Callable[..., Any],
        *,
        output: str | T.StructType,
        state: str | T.StructType,
        ttl: str | None = None,
        expired: Callable[..., Any] | None = None,
    ) -> StatefulStream:
        """Keep what your own function makes of the records: called once per slot and batch, with all keys of the slot.

        `fn(rows, states)` gets two pandas DataFrames: `states` has one row for each key of the batch (the key's
        columns, then those of `state`, missing for a new key); `rows` has the records, and its index says
        which row of `states` each belongs to, so that `rows.groupby(level=0)` lines up with `states`.
        It returns `(out, states)`: the rows to emit, and the new states under the same index; the state of
        a key that is left out is dropped. `ttl` drops the state of a key that has had no record for that long;
        `expired(states)` may return rows to emit for those.
        """
        return self._updating(fn, output, state, ttl, expired, each=False)

    def update_each(
        self,
        fn: Callable[..., Any],
        *,
        output: str | T.StructType,
        state: str | T.StructType,
        ttl: str | None = None,
        expired: Callable[..., Any] | None = None,
    ) -> StatefulStream:
        """As `update`, but called once per key: `fn(key, rows, state)`.

        `key` is a tuple, `rows` the key's records as a DataFrame, `state` a dict or None. It returns `(out,
        state)`: `out` is a DataFrame, a list of dicts, a dict or None; `state` a dict, or None to drop it.
        Convenient, and slower than `update`: one call per key.
        """
        return self._updating(fn, output, state, ttl, expired, each=True)

    def _updating(
        self, fn: Any, output: Any, state: Any, ttl: str | None, expired: Any, *, each: bool
    ) -> StatefulStream:
        for name, function in (("fn", fn), ("expired", expired)):
            if function is not None and not callable(function):
                raise ValueError(f"{name} is a function, not {function!r}")
        operator = UpdateOperator(
            self._key_schema(),
            _arrow(state, "state"),
            _arrow(output, "output"),
            fn,
            each,
            self.time,
            self._expiry(ttl),
            expired,
            self._records(),
        )
        return self._operation(operator, self.events.columns)

    def _operation(self, operator: Operator, columns: list[str]) -> StatefulStream:
        records = self._records()
        read = pa.schema([records.field(name) for name in columns])
        spec = OperatorSpec(self.events, self.keys, self.time, self.watermark, operator, read)
        return StatefulStream((*self.upstream, spec))

    def _records(self) -> pa.Schema:
        names = self.events.columns
        duplicates = sorted({name for name in names if names.count(name) > 1})
        if duplicates:
            raise ValueError(f"two columns are called {duplicates[0]!r}: rename one")
        return to_arrow_schema(self.events.schema, timezone="UTC")

    def _key_schema(self) -> pa.Schema:
        kind = self.keys.type
        types = [kind] if len(self.keys.names) == 1 else [f.type for f in kind]
        return pa.schema(list(zip(self.keys.names, types, strict=True)))

    def _expiry(self, ttl: str | None) -> Expiry | None:
        return None if ttl is None else Expiry(duration(ttl, "ttl") // 1000, self.watermark is not None)


@dataclass(frozen=True)
class StatefulStream:
    """One or more chained operators that are ready to start, upstream first."""

    specs: tuple[OperatorSpec, ...]

    @property
    def schema(self) -> T.StructType:
        """The columns that the sink will get."""
        return from_arrow_schema(self.specs[-1].operator.output)

    def __repr__(self) -> str:
        keys = " then by ".join(", ".join(spec.keys.names) for spec in self.specs)
        return f"StatefulStream(grouped by {keys}, emits {self.schema.simpleString()})"

    def thenBy(self, key: Key, *more: str) -> Stream:
        """Give what this operator emits to another one in the same query, grouped by another key.

        Each operator has its own table and state. By default they are planned together: where this operator emits its
        own key, keys that occur together are put on one executor, so that most records need not cross the network.
        """
        nothing = self.specs[0].input.sparkSession.createDataFrame([], self.schema)
        return Stream(nothing, named_key_columns(nothing, key, *more), None, None, self.specs)

    def start(
        self,
        sink: Sink | str,
        *,
        checkpoint: str,
        slots: int | None = None,
        plan: SavedPlan | None = None,
        policy: Policy | None = Policy(),
        placement: Placement = Placement(),
        trigger: Mapping[str, Any] | str | None = None,
        name: str | None = None,
        persist: bool = False,
    ) -> LiveQuery:
        """Start the query; returns a StreamingQuery with two more methods, `scale` and `journal`.

        `sink` is a function of (DataFrame, batch id), or "console", "memory:NAME" or "parquet:PATH"; after a
        crash it may see a batch id again and must then replace what it wrote for it. A function that runs
        several Spark actions on the batch should say `persist=True`, or the operator runs once for each.
        `slots` is how many slots to begin with (default: one per core), `plan` a plan to begin with (default:
        hashing). `policy` decides when to switch to a better table; `policy=None` keeps the table fixed. `placement`
        has everything else that steers where keys go: planner, budget, scaling, the most slots there can be.
        `trigger` is what `DataStreamWriter.trigger` takes, as a dict, or "availableNow", or an interval like
        "10 seconds".

        A checkpoint knows its operators: starting others on it is refused before anything is written.
        """
        return start(
            self.specs,
            sink,
            checkpoint=checkpoint,
            slots=slots,
            plan=plan,
            policy=policy,
            placement=placement,
            trigger=trigger,
            name=name,
            persist=persist,
        )

    def check(
        self,
        sink: Sink | str,
        *,
        checkpoint: str,
        slots: int | None = None,
        plan: SavedPlan | None = None,
        policy: Policy | None = Policy(),
        placement: Placement = Placement(),
        trigger: Mapping[str, Any] | str | None = None,
        name: str | None = None,
        persist: bool = False,
    ) -> None:
        """Raise the ValueError that `start` would raise with these arguments, if any; nothing is written."""
        check(
            self.specs,
            sink,
            checkpoint=checkpoint,
            slots=slots,
            plan=plan,
            policy=policy,
            placement=placement,
            trigger=trigger,
            name=name,
            persist=persist,
        )


def duration(text: str, what: str) -> int:
    """Microseconds of "10 minutes" and the like."""
    try:
        length = pd.Timedelta(text)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{what} is a length of time like '10 minutes', not {text!r}") from error
    if pd.isna(length) or length < pd.Timedelta("1 ms"):
        raise ValueError(f"{what} is a length of time, a millisecond or more, not {text!r}")
    return int(length.value // 1000)


def _arrow(schema: str | T.StructType, what: str) -> pa.Schema:
    row_type = T.DataType.fromDDL(schema) if isinstance(schema, str) else schema
    if not isinstance(row_type, T.StructType) or not row_type.fields:
        raise ValueError(f"{what} is a schema with at least one column, like 'n long, last timestamp'")
    return to_arrow_schema(row_type, timezone="UTC")
