"""`unskew.stream`: a stateful operator whose keys have measured places, which change while it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

from unskew.spark.keys import Key, KeyColumns, field, key_columns
from unskew.streaming.driver.start import Operation
from unskew.streaming.operators.aggregation import Aggregate, Aggregation
from unskew.streaming.operators.operator import MOMENT, AggregateOperator, Expiry, Operator, Window
from unskew.streaming.operators.update_operator import UpdateOperator
from unskew.streaming.storage.slot_state import WINDOW

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def stream(events: DataFrame, key: Key, *, time: str | None = None, watermark: str | None = None) -> Stream:
    """A stateful operator over a streaming DataFrame, grouped by `key` (a column name or several).

    `time` names the event-time column, `watermark` how late records may come ("10 minutes"): both are needed for
    windows that close and for expiry by event time. Choose what to keep with `aggregate`, `update` or
    `update_each`, then `start` it.
    """
    if not events.isStreaming:
        raise ValueError(
            "events is not a streaming DataFrame: read it with spark.readStream, or use unskew.groupBy"
        )
    keys = key_columns(events, key)
    if watermark is not None and time is None:
        raise ValueError("a watermark needs time=, the event-time column")
    if time is not None and not isinstance(
        field(events, time).dataType, T.TimestampType | T.TimestampNTZType
    ):
        raise ValueError(
            f"time column {time!r} is not a timestamp but {field(events, time).dataType.simpleString()}"
        )
    if watermark is not None:
        duration(watermark, "watermark")
    return Stream(events, keys, time, watermark)


@dataclass(frozen=True)
class Stream:
    """Records grouped by a key; what `unskew.stream` returns."""

    events: DataFrame
    keys: KeyColumns
    time: str | None
    watermark: str | None
    before: Operation | None = None

    def aggregate(
        self,
        *,
        window: str | None = None,
        slide: str | None = None,
        emit: str | None = None,
        ttl: str | None = None,
        **aggregates: Aggregate,
    ) -> Operation:
        """Keep aggregates per key: `.aggregate(n=unskew.count(), total=unskew.sum("amount"))`.

        Each batch puts out the keys it touched, with their new values. With `window` ("5 minutes", a new one every
        `slide` if given) they are kept per key and event-time window; with a watermark each window is put
        out once, when it closes (`emit="closed"`, the default then), else whenever it changed (`emit="changed"`).
        `ttl` drops a key that had no record for so long, by event time if there is a watermark, else by the
        clock.
        """
        schema = self._records()
        if not aggregates:
            raise ValueError("name at least one aggregate: .aggregate(n=unskew.count())")
        for name, one in aggregates.items():
            if not isinstance(one, Aggregate):
                raise ValueError(f"{name}={one!r} is no aggregate: use unskew.count(), unskew.sum(column), …")
            if name in self.keys.names or name == WINDOW:
                raise ValueError(f"the name {name!r} is taken by the key or the window: choose another")
        if window is not None and self.before is not None:
            raise ValueError(
                "windows are for the first operator of a row: what comes out of it has no event time"
            )
        if window is not None and self.time is None:
            raise ValueError("windows need time=: unskew.stream(events, key, time='…')")
        if window is not None and WINDOW in self.keys.names:
            raise ValueError("a key column is called 'window', as the window of the result is: rename it")
        if slide is not None and window is None:
            raise ValueError("slide= needs window=")
        if window is not None and ttl is not None:
            raise ValueError("a window ends by itself: ttl= is for state without one")
        if emit not in (None, "changed", "closed"):
            raise ValueError(f"emit is 'changed' or 'closed', not {emit!r}")
        if emit == "closed" and (window is None or self.watermark is None):
            raise ValueError("emit='closed' needs window= and a watermark: else nothing ever closes")
        size = duration(window, "window") if window is not None else 0
        step = duration(slide, "slide") if slide is not None else size
        if step > size:
            raise ValueError(
                f"slide {slide!r} is longer than window {window!r}: records between would be lost"
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
    ) -> Operation:
        """Keep what a function of yours makes of the records: called once a slot and batch, with all its keys.

        `fn(rows, states)` gets two pandas DataFrames: `states` has a row for each key of the batch (the key's
        columns, then those of `state`, missing for a new key); `rows` has the records, and its index says
        which row of `states` each belongs to, so that `rows.groupby(level=0)` lines up with `states`.
        It returns `(out, states)`: what to put out, and the new states under the same index; the state of
        a key that is left out is dropped. `ttl` drops the state of a key that had no record for so long;
        `expired(states)` may put something out for those.
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
    ) -> Operation:
        """As `update`, but called once a key: `fn(key, rows, state)`.

        `key` is a tuple, `rows` the key's records as a DataFrame, `state` a dict or None. It returns `(out,
        state)`: `out` is a DataFrame, a list of dicts, a dict or None; `state` a dict, or None to drop it.
        Convenient, and slower than `update`: one call a key.
        """
        return self._updating(fn, output, state, ttl, expired, each=True)

    def _updating(
        self, fn: Any, output: Any, state: Any, ttl: str | None, expired: Any, *, each: bool
    ) -> Operation:
        for name, given in (("fn", fn), ("expired", expired)):
            if given is not None and not callable(given):
                raise ValueError(f"{name} is a function, not {given!r}")
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

    def _operation(self, operator: Operator, columns: list[str]) -> Operation:
        whole = self._records()
        used = pa.schema([whole.field(name) for name in columns])
        return Operation(self.events, self.keys, self.time, self.watermark, operator, used, self.before)

    def _records(self) -> pa.Schema:
        names = self.events.columns
        twice = sorted({n for n in names if names.count(n) > 1})
        if twice:
            raise ValueError(f"two columns are called {twice[0]!r}: rename one")
        return to_arrow_schema(self.events.schema, timezone="UTC")

    def _key_schema(self) -> pa.Schema:
        kind = self.keys.type
        types = [kind] if len(self.keys.names) == 1 else [f.type for f in kind]
        return pa.schema(list(zip(self.keys.names, types, strict=True)))

    def _expiry(self, ttl: str | None) -> Expiry | None:
        return None if ttl is None else Expiry(duration(ttl, "ttl") // 1000, self.watermark is not None)


def duration(text: str, what: str) -> int:
    """Microseconds of "10 minutes" and the like."""
    try:
        found = pd.Timedelta(text)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{what} is a length of time like '10 minutes', not {text!r}") from error
    if pd.isna(found) or found < pd.Timedelta("1 ms"):
        raise ValueError(f"{what} is a length of time, a millisecond or more, not {text!r}")
    return int(found.value // 1000)


def _arrow(schema: str | T.StructType, what: str) -> pa.Schema:
    if isinstance(schema, str):
        schema = T._parse_datatype_string(schema)  # type: ignore[assignment]
    if not isinstance(schema, T.StructType) or not schema.fields:
        raise ValueError(f"{what} is a schema with at least one column, like 'n long, last timestamp'")
    return to_arrow_schema(schema, timezone="UTC")
