"""`unskew.stream`: a stateful operator whose keys have measured places, which change while it runs."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.utils import is_remote

from unskew.core.hashing import HASH_NAME
from unskew.core.planners import NAMES, SPLITTING
from unskew.core.planning import check_name
from unskew.core.policy import Policy
from unskew.core.protocol import first_turn
from unskew.core.routing import RoutingTable, check_slots
from unskew.core.scaling import Scaling
from unskew.core.transition import Budget
from unskew.spark.keys import Key, KeyColumns, column, field, key_columns
from unskew.spark.planned import cores_of
from unskew.streaming.aggregation import Aggregate, Aggregation
from unskew.streaming.controller import Controller, Settings, Sink
from unskew.streaming.failpoints import failpoint
from unskew.streaming.folder import absolute
from unskew.streaming.ledger import Ledger
from unskew.streaming.lock import Lock
from unskew.streaming.operators import AggregateOperator, Expiry, Operator, Window
from unskew.streaming.packing import SPARK_PACKED, Packer
from unskew.streaming.processor import SlotProcessor, flat
from unskew.streaming.query import LiveQuery
from unskew.streaming.reading import described
from unskew.streaming.sinks import built_in
from unskew.streaming.slot_state import WINDOW
from unskew.streaming.updating import UpdateOperator

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

BUCKETS = 1024
"""Buckets of a live operator: fine enough for tens of slots, and cheap to report every batch."""


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
            if name in self.keys.names or name == "window":
                raise ValueError(f"the name {name!r} is taken by the key or the window: choose another")
        if window is not None and self.time is None:
            raise ValueError("windows need time=: unskew.stream(events, key, time='…')")
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
        )
        used = dict.fromkeys([*operator.aggregation.inputs, *([self.time] if self.time else [])])
        return Operation(self, operator, tuple(used))

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
        return Operation(self, operator, tuple(self.events.columns))

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


@dataclass(frozen=True)
class Operation:
    """An operator that is ready to start."""

    stream: Stream
    operator: Operator
    columns: tuple[str, ...]

    @property
    def schema(self) -> T.StructType:
        """The columns that the sink will get."""
        return from_arrow_schema(self.operator.output)

    def start(
        self,
        sink: Sink | str,
        *,
        checkpoint: str,
        slots: int | None = None,
        max_slots: int | None = None,
        planner: str = "keel",
        policy: Policy | str | None = "default",
        budget: Budget | None = None,
        scaling: Scaling | None = None,
        buckets: int = BUCKETS,
        trigger: Mapping[str, Any] | str | None = None,
        name: str | None = None,
        persist: bool = False,
        options: Mapping[str, Any] | None = None,
    ) -> LiveQuery:
        """Start the query; returns a StreamingQuery with two more methods, `scale` and `journal`.

        `sink` is a function of (DataFrame, batch id), or "console", "memory:NAME" or "parquet:PATH"; after a
        crash it may see a batch id again and must then replace what it wrote for it. A function that runs
        several Spark actions on the batch should say `persist=True`, or the operator runs once for each.
        `slots` is how many slots to begin with (default: one a core), `max_slots` the most there can ever be
        (default: as many; each costs a little every batch, also while it is not used). `policy=None` keeps
        the table fixed. `budget` spreads a migration over batches (`Budget.fluid()`, `Budget.batched(0.1)`),
        `scaling` changes N by a rule (`LoadRange`, `Utilisation`). `trigger` is what
        `DataStreamWriter.trigger` takes, as a dict, or "availableNow", or an interval like "10 seconds".
        `options` are the planner's own.

        A checkpoint knows its operator: starting another one on it is refused before anything is written.
        """
        events = self.stream.events
        slots = slots or cores_of(events) or 4
        most = max_slots if max_slots is not None else slots
        check_slots(slots, buckets)
        check_slots(most, buckets)
        if most < slots:
            raise ValueError(f"max_slots is the most slots there can be: at least {slots}, not {most}")
        check_name(planner)
        if planner in SPLITTING:
            whole = [n for n in NAMES if n not in SPLITTING]
            raise ValueError(
                f"planner {planner!r} splits keys over slots, but a key's state is in one place: "
                f"use one of {', '.join(whole)}"
            )
        if isinstance(policy, str) and policy != "default":
            raise ValueError(f"policy is an unskew.Policy, or None for a fixed table, not {policy!r}")
        settings = Settings(
            planner=planner,
            options=dict(options or {}),
            scaling=scaling,
            max_slots=most,
            persist=persist,
            remote=is_remote(),
            budget=budget or Budget.sudden(),
        )
        if not isinstance(policy, str):
            settings = replace(settings, policy=policy)
        triggered = _trigger(trigger)
        write = built_in(sink) if isinstance(sink, str) else sink
        if not callable(write):
            raise ValueError(f"sink is a function of (DataFrame, batch id) or a name, not {sink!r}")

        checkpoint = absolute(checkpoint)
        lock = Lock(checkpoint).take()
        try:
            ledger, most = self._ledger(checkpoint, slots, most, buckets)
            settings = replace(settings, max_slots=most)
            routed = self._routed(checkpoint, ledger.identity, buckets, most)
            controller = Controller(
                ledger, write, self.stream.keys.names, self.stream.keys.type, buckets, settings
            )
            writer = (
                routed.writeStream.outputMode("update")
                .option("checkpointLocation", checkpoint)
                .foreachBatch(controller)
            )
            if name is not None:
                writer = writer.queryName(name)
            with _configured(events.sparkSession, most):
                query = _triggered(writer, triggered).start()
        except BaseException:
            lock.release()
            raise
        return LiveQuery(query, ledger, lock, most)

    def _ledger(self, checkpoint: str, slots: int, most: int, buckets: int) -> tuple[Ledger, int]:
        """The checkpoint's ledger, begun or found to be that of this very operator."""
        about = self._about(buckets)
        ledger = Ledger(checkpoint)
        before = ledger.operator()
        turns, offsets = ledger.folder.names("turns"), ledger.folder.names("../offsets")
        if before is None:
            if turns:
                raise ValueError(f"{ledger.folder.address}/operator is missing: restore it")
            if offsets:
                raise ValueError(
                    f"{checkpoint} was begun by another query, not by unskew.stream: choose a new checkpoint"
                )
            identity = uuid.uuid4().hex
            before = {**about, "max_slots": most, "identity": identity, "described": described(self.operator)}
            ledger.write_operator(before)
            failpoint("begun", 0)
        for name, value in about.items():
            if before.get(name) != value:
                raise ValueError(
                    f"the {name} of this operator is {value}, but {checkpoint} was begun with {before.get(name)}: "
                    "start with what it was, or on a new checkpoint"
                )
        ledger = Ledger(checkpoint, before["identity"])
        if not turns and not offsets:  # new, or its first driver died right after it wrote down the operator
            table = RoutingTable.hashed(slots, buckets, self.stream.keys.type).with_version(1)
            ledger.publish(first_turn(table))
        return ledger, before["max_slots"]

    def _about(self, buckets: int) -> dict[str, Any]:
        layout = self.operator.layout
        return {
            "key": [f"{f.name}: {f.type}" for f in layout.key],
            "state": [f"{f.name}: {f.type}" for f in layout.state],
            "windows": repr(getattr(self.operator, "window", None)),
            "expiry": layout.expires,
            "hash": HASH_NAME,
            "buckets": buckets,
        }

    def _routed(self, checkpoint: str, identity: str, buckets: int, most: int) -> DataFrame:
        """Records → payloads → slots → what the operator puts out."""
        stream, operator = self.stream, self.operator
        events = stream.events
        if stream.watermark is not None:
            assert stream.time is not None
            events = events.withWatermark(stream.time, stream.watermark)
        keys = stream.keys
        chosen = [keys.hash(), *keys.columns(), *(column(n) for n in self.columns)]
        whole = stream._records()
        records = pa.schema(
            [
                pa.field("hash", pa.int64()),
                *(pa.field(f"key.{i}", f.type) for i, f in enumerate(operator.layout.key)),
                *(whole.field(n) for n in self.columns),
            ]
        )
        packer = Packer(checkpoint, identity, operator, records, most)
        # plain names: mapInArrow takes a dot in a column's name for a field of it; the packer knows the order
        plain = [c.alias(f"c{i}") for i, c in enumerate(chosen)]
        packed = events.select(*plain).mapInArrow(packer, SPARK_PACKED)
        mode = "None"
        if stream.watermark is not None:
            mode = "EventTime"
        elif operator.layout.expires:
            mode = "ProcessingTime"
        travels = from_arrow_schema(flat(operator.output))
        out = packed.groupBy(F.col("label")).transformWithStateInPandas(
            SlotProcessor(checkpoint, identity, operator, buckets, most, mode),
            outputStructType=travels,
            outputMode="Update",
            timeMode=mode,
        )
        if len(travels) == len(self.schema):
            return out
        window = F.struct(column("window.start").alias("start"), column("window.end").alias("end"))
        return out.select(*(window.alias(n) if n == WINDOW else column(n) for n in self.schema.names))


def duration(text: str, what: str) -> int:
    """Microseconds of "10 minutes" and the like."""
    try:
        found = pd.Timedelta(text)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{what} is a length of time like '10 minutes', not {text!r}") from error
    if pd.isna(found) or found <= pd.Timedelta(0):
        raise ValueError(f"{what} is a length of time above 0, not {text!r}")
    return int(found.value // 1000)


def _arrow(schema: str | T.StructType, what: str) -> pa.Schema:
    if isinstance(schema, str):
        schema = T._parse_datatype_string(schema)  # type: ignore[assignment]
    if not isinstance(schema, T.StructType) or not schema.fields:
        raise ValueError(f"{what} is a schema with at least one column, like 'n long, last timestamp'")
    return to_arrow_schema(schema, timezone="UTC")


def _trigger(trigger: Mapping[str, Any] | str | None) -> dict[str, Any]:
    if trigger is None:
        return {}
    if isinstance(trigger, str):
        return {"availableNow": True} if trigger == "availableNow" else {"processingTime": trigger}
    return dict(trigger)


def _triggered(writer: DataStreamWriter, trigger: dict[str, Any]) -> DataStreamWriter:
    return writer.trigger(**trigger) if trigger else writer


@contextlib.contextmanager
def _configured(spark: Any, partitions: int) -> Iterator[None]:
    """The settings that the query captures when it starts; the session has its own again afterwards."""
    wanted = {
        "spark.sql.shuffle.partitions": str(partitions),
        "spark.sql.streaming.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    }
    before = {name: spark.conf.get(name, None) for name in wanted}
    for name, value in wanted.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, value)
