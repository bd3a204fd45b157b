"""Starting a live query: its options checked, its checkpoint begun or recognised, its plan put together."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.utils import is_remote

from unskew.core.hashing import HASH_NAME
from unskew.core.planners import NAMES, SPLITTING
from unskew.core.planning import check_name, options_of
from unskew.core.policy import Policy
from unskew.core.protocol import first_turn
from unskew.core.routing import RoutingTable, check_slots
from unskew.core.scaling import Scaling
from unskew.core.transition import Budget
from unskew.spark.keys import KeyColumns, column
from unskew.spark.planned import cores_of
from unskew.streaming.controller import Controller, Settings, Sink
from unskew.streaming.failpoints import failpoint
from unskew.streaming.folder import absolute
from unskew.streaming.ledger import Ledger
from unskew.streaming.lock import Lock
from unskew.streaming.operators import Operator
from unskew.streaming.packing import SPARK_PACKED, Packer
from unskew.streaming.processor import SlotProcessor, flat
from unskew.streaming.query import LiveQuery
from unskew.streaming.reading import described
from unskew.streaming.sinks import built_in
from unskew.streaming.slot_state import WINDOW

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

BUCKETS = 1024
"""Buckets of a live operator: fine enough for tens of slots, and cheap to report every batch."""


@dataclass(frozen=True)
class Operation:
    """An operator that is ready to start."""

    events: DataFrame
    keys: KeyColumns
    time: str | None
    watermark: str | None
    operator: Operator
    records: pa.Schema

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
        events = self.events
        if slots is None:
            slots = cores_of(events) or 4
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
        strange = sorted(set(options or {}) - set(options_of(planner)))
        if strange:
            known = ", ".join(sorted(options_of(planner))) or "none"
            raise ValueError(f"planner {planner!r} has no option {strange[0]!r}: its options are {known}")
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
        before = self._before(checkpoint, buckets)
        lock = Lock(checkpoint).take()
        try:
            about = before or self._begin(checkpoint, most, buckets)
            ledger, most = Ledger(checkpoint, about["identity"]), about["max_slots"]
            if not ledger.folder.names("turns"):  # new, or its first driver died right after it began
                table = RoutingTable.hashed(min(slots, most), buckets, self.keys.type)
                ledger.publish(first_turn(table.with_version(1)))
            routed = self._routed(checkpoint, ledger.identity, buckets, most)
            controller = Controller(
                ledger,
                write,
                self.keys.names,
                self.keys.type,
                buckets,
                replace(settings, max_slots=most),
            )
            writer = (
                routed.writeStream.outputMode("update")
                .option("checkpointLocation", checkpoint)
                .foreachBatch(controller)
            )
            if name is not None:
                writer = writer.queryName(name)
            with _configured(events.sparkSession, most, self._time_mode()):
                query = _triggered(writer, triggered).start()
        except BaseException:
            lock.release()
            raise
        lock.run(query)
        return LiveQuery(query, ledger, lock, most)

    def _before(self, checkpoint: str, buckets: int) -> dict[str, Any] | None:
        """What the checkpoint says of its operator, refused where that is another one; None if it is new."""
        ledger = Ledger(checkpoint)
        before = ledger.operator()
        if before is None:
            if ledger.folder.names("turns"):
                raise ValueError(f"{ledger.folder.address}/operator is missing: restore it")
            if ledger.spark.names("offsets"):
                raise ValueError(
                    f"{checkpoint} was begun by another query, not by unskew.stream: choose a new checkpoint"
                )
            return None
        for name, value in self._about(buckets).items():
            if before.get(name) != value:
                raise ValueError(
                    f"the {name} of this operator is {value}, but {checkpoint} was begun with {before.get(name)}: "
                    "start with what it was, or on a new checkpoint"
                )
        if not ledger.folder.names("turns") and ledger.spark.names("offsets"):
            raise ValueError(
                f"{ledger.folder.address}/turns is empty: nobody knows where the state is; restore it"
            )
        return before

    def _begin(self, checkpoint: str, most: int, buckets: int) -> dict[str, Any]:
        """Write down what the operator is."""
        about = {
            **self._about(buckets),
            "max_slots": most,
            "identity": uuid.uuid4().hex,
            "described": described(self.operator),
        }
        Ledger(checkpoint).write_operator(about)
        failpoint("begun", 0)
        return about

    def _about(self, buckets: int) -> dict[str, Any]:
        layout = self.operator.layout
        return {
            "key": [f"{f.name}: {f.type}" for f in layout.key],
            "state": [f"{f.name}: {f.type}" for f in layout.state],
            "windows": repr(getattr(self.operator, "window", None)),
            "expiry": layout.expires,
            "hash": HASH_NAME,
            "buckets": buckets,
            "aggregates": described(self.operator).get("aggregates"),
        }

    def _time_mode(self) -> str:
        if self.watermark is not None:
            return "EventTime"
        return "None" if self.operator.expiry is None else "ProcessingTime"

    def _routed(self, checkpoint: str, identity: str, buckets: int, most: int) -> DataFrame:
        """Records → payloads → slots → what the operator puts out."""
        operator, events = self.operator, self.events
        if self.watermark is not None:
            assert self.time is not None
            events = events.withWatermark(self.time, self.watermark)
        names = self.records.names
        chosen = [self.keys.hash(), *self.keys.columns(), *(column(n) for n in names)]
        records = pa.schema(
            [
                pa.field("hash", pa.int64()),
                *(pa.field(f"key.{i}", f.type) for i, f in enumerate(operator.layout.key)),
                *self.records,
            ]
        )
        packer = Packer(checkpoint, identity, operator, records, most)
        # plain names: mapInArrow takes a dot in a column's name for a field of it; the packer knows the order
        plain = [c.alias(f"c{i}") for i, c in enumerate(chosen)]
        packed = events.select(*plain).mapInArrow(packer, SPARK_PACKED)
        mode = self._time_mode()
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


def _trigger(trigger: Mapping[str, Any] | str | None) -> dict[str, Any]:
    if trigger is None:
        return {}
    if isinstance(trigger, str):
        return {"availableNow": True} if trigger == "availableNow" else {"processingTime": trigger}
    return dict(trigger)


def _triggered(writer: DataStreamWriter, trigger: dict[str, Any]) -> DataStreamWriter:
    return writer.trigger(**trigger) if trigger else writer


@contextlib.contextmanager
def _configured(spark: Any, partitions: int, mode: str) -> Iterator[None]:
    """The settings that the query captures when it starts; the session has its own again afterwards."""
    wanted = {
        "spark.sql.shuffle.partitions": str(partitions),
        "spark.sql.streaming.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    }
    if mode == "ProcessingTime":
        # time always moves on, so Spark would run empty batches without end; records call the slots often enough
        wanted["spark.sql.streaming.noDataMicroBatches.enabled"] = "false"
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
