"""Starting a live query: its options checked, its checkpoint begun or recognised, its plan put together."""

from __future__ import annotations

import contextlib
import inspect
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.utils import is_remote

from unskew.core.chains.locality import check_options
from unskew.core.chains.metis import pymetis_module
from unskew.core.chains.plan import ChainPlan
from unskew.core.hashing import HASH_NAME
from unskew.core.migration.policy import Policy
from unskew.core.migration.protocol import first_turn
from unskew.core.migration.scaling import Scaling
from unskew.core.migration.transition import Budget
from unskew.core.plan import Plan
from unskew.core.planners import PLANNERS, planner_named
from unskew.core.routing import RoutingTable, check_slots
from unskew.spark.keys import KeyColumns, column, key_columns
from unskew.spark.options import cores_of
from unskew.streaming.api.state import described
from unskew.streaming.driver.callback import Callback, Sink
from unskew.streaming.driver.controller import Controller, Settings
from unskew.streaming.driver.joint_planning import Together
from unskew.streaming.driver.query import LiveQuery
from unskew.streaming.driver.sinks import built_in
from unskew.streaming.failpoints import failpoint
from unskew.streaming.operators.operator import Operator
from unskew.streaming.storage.folder import absolute
from unskew.streaming.storage.lease import Lock
from unskew.streaming.storage.ledger import Ledger
from unskew.streaming.storage.slot_state import WINDOW
from unskew.streaming.worker.packing import SPARK_PACKED, Packer
from unskew.streaming.worker.processor import SlotProcessor, flat

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from unskew.streaming.api.stream import Stream

BUCKETS = 1024
"""Buckets of a live operator: fine enough for tens of slots, and cheap to report every batch."""


@dataclass(frozen=True)
class Operation:
    """An operator that is ready to start; `before` is the one whose output it takes, if there is one."""

    events: DataFrame
    keys: KeyColumns
    time: str | None
    watermark: str | None
    operator: Operator
    records: pa.Schema
    before: Operation | None = None

    @property
    def schema(self) -> T.StructType:
        """The columns that the sink will get."""
        return from_arrow_schema(self.operator.output)

    @property
    def row(self) -> tuple[Operation, ...]:
        """The operators of the query, upstream first."""
        return (*(self.before.row if self.before is not None else ()), self)

    def thenBy(self, *key: str) -> Stream:
        """Give what this operator puts out to another one in the same query, grouped by another key.

        Each has its own table and state. By default they are planned together: where this operator puts out its own
        key, keys that come together are put on one executor, so that most records need not cross the network.
        """
        from unskew.streaming.api.stream import Stream  # it stands on this module

        nothing = self.events.sparkSession.createDataFrame([], self.schema)
        return Stream(nothing, key_columns(nothing, key), None, None, self)

    def start(
        self,
        sink: Sink | str,
        *,
        checkpoint: str,
        slots: int | None = None,
        max_slots: int | None = None,
        planner: str | None = None,
        policy: Policy | str | None = "default",
        budget: Budget | None = None,
        scaling: Scaling | None = None,
        plan: Plan | ChainPlan | str | Path | None = None,
        buckets: int | None = None,
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
        (default: as many; each costs a little every batch, also while it is not used). `planner` is one of
        `unskew.planners()` (default: "keel", and "locality" for operators in a row); `policy=None` keeps the
        table fixed, and `plan` is one to begin with (default: hashing). `budget` spreads a migration over
        batches (`Budget.fluid()`, `Budget.batched(0.1)`), `scaling` changes N by a rule (`LoadRange`,
        `Utilisation`). `trigger` is what `DataStreamWriter.trigger` takes, as a dict, or "availableNow", or an
        interval like "10 seconds". `options` are the planner's own; of "locality" for operators in a row
        `every` (how many batches pass until the tables are thought over), `imbalance`, `worth`, `target`, `seed`.

        A checkpoint knows its operators: starting others on it is refused before anything is written.
        """
        events, row = self.row[0].events, self.row
        begun = _tables(row, plan)
        if begun:
            if slots not in (None, begun[0].slots) or buckets not in (None, len(begun[0].buckets)):
                raise ValueError(
                    "the plan has its own numbers of slots and buckets: leave slots and buckets out"
                )
            slots, buckets = begun[0].slots, len(begun[0].buckets)
        slots = slots if slots is not None else cores_of(events) or 4
        buckets = buckets if buckets is not None else BUCKETS
        most = max_slots if max_slots is not None else slots
        check_slots(slots, buckets)
        check_slots(most, buckets)
        if most < slots:
            raise ValueError(f"max_slots is the most slots there can be: at least {slots}, not {most}")
        planner = planner or ("locality" if len(row) > 1 else "keel")
        joint = planner == "locality" and len(row) > 1
        together = _steered(planner, policy, options, row)
        settings = Settings(
            planner=planner,
            options={} if joint else dict(options or {}),
            scaling=scaling,
            max_slots=most,
            operators=len(row),
            remote=is_remote(),
            budget=budget or Budget.sudden(),
        )
        if not isinstance(policy, str):
            settings = replace(settings, policy=policy)
        triggered = _trigger(trigger)
        write = built_in(sink) if isinstance(sink, str) else sink
        if not callable(write):
            raise ValueError(f"sink is a function of (DataFrame, batch id) or a name, not {sink!r}")
        times = {one._time_mode() for one in row}
        if {"EventTime", "ProcessingTime"} <= times:
            raise ValueError(
                "one operator goes by event time and another expires by the clock: Spark runs empty batches for one of "
                "them only; give both the same, or run two queries"
            )

        checkpoint = absolute(checkpoint)
        known = [one._before(checkpoint, buckets, at, len(row)) for at, one in enumerate(row)]
        lock = Lock(checkpoint).take()
        try:
            controllers, out = [], events
            for at, one in enumerate(row):
                about = known[at] or one._begin(checkpoint, most, buckets, at, len(row))
                most = about["max_slots"]
                ledger = Ledger(checkpoint, about["identity"], at, len(row) - 1 - at)
                if not ledger.folder.names("turns"):  # new, or its first driver died right after it began
                    table = (
                        begun[at] if begun else RoutingTable.hashed(min(slots, most), buckets, one.keys.type)
                    )
                    ledger.publish(first_turn(table.with_version(1)))
                mode = "Append" if len(row) > 1 else "Update"
                out = one._routed(out, ledger, buckets, most, mode, counted=together is not None)
                controllers.append(
                    Controller(
                        ledger, one.keys.names, one.keys.type, buckets, replace(settings, max_slots=most)
                    )
                )
            writer = (
                out.writeStream.outputMode("append" if len(row) > 1 else "update")
                .option("checkpointLocation", checkpoint)
                .foreachBatch(Callback(controllers, write, persist, together))
            )
            if name is not None:
                writer = writer.queryName(name)
            with _configured(events.sparkSession, most, times):
                query = _triggered(writer, triggered).start()
        except BaseException:
            lock.release()
            raise
        lock.run(query)
        return LiveQuery(query, [c.ledger for c in controllers], lock, most)

    def _before(self, checkpoint: str, buckets: int, number: int, operators: int) -> dict[str, Any] | None:
        """What the checkpoint says of its operator, refused where that is another one; None if it is new."""
        ledger = Ledger(checkpoint, number=number)
        before = ledger.operator()
        if before is None:
            if ledger.folder.names("turns"):
                raise ValueError(f"{ledger.folder.address}/operator is missing: restore it")
            if ledger.spark.names("offsets"):
                raise ValueError(
                    f"{checkpoint} was begun by another query, not by this one: choose a new checkpoint"
                )
            return None
        for name, value in self._about(buckets, operators).items():
            found = before.get(name, 1 if name == "operators" else None)  # which was not always written
            if found != value:
                raise ValueError(
                    f"the {name} of this operator is {value}, but {checkpoint} was begun with {found}: "
                    "start with what it was, or on a new checkpoint"
                )
        if not ledger.folder.names("turns") and ledger.spark.names("offsets"):
            raise ValueError(
                f"{ledger.folder.address}/turns is empty: nobody knows where the state is; restore it"
            )
        return before

    def _begin(self, checkpoint: str, most: int, buckets: int, number: int, operators: int) -> dict[str, Any]:
        """Write down what the operator is."""
        about = {
            **self._about(buckets, operators),
            "max_slots": most,
            "identity": uuid.uuid4().hex,
            "described": described(self.operator),
        }
        Ledger(checkpoint, number=number).write_operator(about)
        failpoint("begun", 0)
        return about

    def _about(self, buckets: int, operators: int) -> dict[str, Any]:
        layout = self.operator.layout
        return {
            "operators": operators,
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

    def _routed(
        self, events: DataFrame, ledger: Ledger, buckets: int, most: int, mode: str, *, counted: bool
    ) -> DataFrame:
        """Records → payloads → slots → what the operator puts out; pairs of keys are `counted` on the way."""
        operator = self.operator
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
        met = self._met() if counted else None
        if met is not None:
            chosen.append(met)
        packer = Packer(ledger, operator, records, most, met is not None)
        # plain names: mapInArrow takes a dot in a column's name for a field of it; the packer knows the order
        plain = [c.alias(f"c{i}") for i, c in enumerate(chosen)]
        packed = events.select(*plain).mapInArrow(packer, SPARK_PACKED)
        time = self._time_mode()
        travels = from_arrow_schema(flat(operator.output))
        out = packed.groupBy(F.col("label")).transformWithStateInPandas(
            SlotProcessor(ledger, operator, buckets, most, time),
            outputStructType=travels,
            outputMode=mode,
            timeMode=time,
        )
        if len(travels) == len(self.schema):
            return out
        window = F.struct(column("window.start").alias("start"), column("window.end").alias("end"))
        return out.select(*(window.alias(n) if n == WINDOW else column(n) for n in self.schema.names))

    def _met(self) -> Column | None:
        """The hash of the key that a record had at the operator before, if that puts its key out unchanged."""
        if self.before is None:
            return None
        keys = self.before.keys
        try:
            kept = key_columns(self.events, keys.names)
        except ValueError:
            return None
        return kept.hash() if kept.type.equals(keys.type) else None


def _tables(row: Sequence[Operation], plan: Plan | ChainPlan | str | Path | None) -> list[RoutingTable]:
    """The tables to begin with, checked against the operators; none where none are given."""
    if plan is None:
        return []
    if isinstance(plan, str | Path):
        plan = ChainPlan.load(plan) if len(row) > 1 else Plan.load(plan)
    if not isinstance(plan, Plan | ChainPlan):
        raise ValueError(
            f"plan is what unskew.plan or unskew.plan_chain returns, or its path, not a {type(plan).__name__}"
        )
    tables = list(plan.tables) if isinstance(plan, ChainPlan) else [plan.table]
    if len(tables) != len(row):
        raise ValueError(f"the plan has tables for {len(tables)} operators, but there are {len(row)}")
    for one, table in zip(row, tables, strict=True):
        if not table.key_type.equals(one.keys.type):
            raise ValueError(
                f"the plan is for {table.key_type} keys, but the key here is {one.keys.type}: measure and plan anew"
            )
        if table.is_split:
            raise ValueError("the plan splits keys over slots, but a key's state is in one place: plan anew")
    if len({(table.slots, len(table.buckets)) for table in tables}) > 1:
        raise ValueError("the operators of one query have as many slots and buckets each: plan anew")
    return tables


def _steered(
    planner: str, policy: Policy | str | None, options: Mapping[str, Any] | None, row: Sequence[Operation]
) -> Together | None:
    """What plans the operators together, or None where each is planned by itself; the planner's options checked."""
    declared = planner_named(planner)
    if declared.splits:
        whole = [name for name, each in PLANNERS.items() if not each.splits]
        raise ValueError(
            f"planner {planner!r} splits keys over slots, but a key's state is in one place: "
            f"use one of {', '.join(whole)}"
        )
    if isinstance(policy, str) and policy != "default":
        raise ValueError(f"policy is an unskew.Policy, or None for a fixed table, not {policy!r}")
    joint = planner == "locality" and len(row) > 1
    if joint and isinstance(policy, Policy):
        raise ValueError(
            "operators in a row are planned together, which weighs by options={'worth': …, 'every': …}: leave policy "
            "out, or plan each by itself, as with planner='keel'"
        )
    if joint and options and policy is None:
        raise ValueError("policy=None keeps the tables fixed: leave the planner's options out")
    known = {"every", *inspect.signature(check_options).parameters} if joint else set(declared.options)
    strange = sorted(set(options or {}) - known)
    if strange:
        named = ", ".join(sorted(known)) or "none"
        raise ValueError(f"planner {planner!r} has no option {strange[0]!r}: its options are {named}")
    if not joint or policy is None:
        return None
    given = dict(options or {})
    together = Together(given.pop("every", Together.every), given)
    check_options(**given)
    if any(one._met() is None for one in row[1:]):
        return None  # what an operator gets does not say which key it had before: each is balanced by itself
    pymetis_module()
    return together


def _trigger(trigger: Mapping[str, Any] | str | None) -> dict[str, Any]:
    if trigger is None:
        return {}
    if isinstance(trigger, str):
        return {"availableNow": True} if trigger == "availableNow" else {"processingTime": trigger}
    return dict(trigger)


def _triggered(writer: DataStreamWriter, trigger: dict[str, Any]) -> DataStreamWriter:
    return writer.trigger(**trigger) if trigger else writer


@contextlib.contextmanager
def _configured(spark: Any, partitions: int, time_modes: Collection[str]) -> Iterator[None]:
    """The settings that the query captures when it starts; the session has its own again afterwards."""
    wanted = {
        "spark.sql.shuffle.partitions": str(partitions),
        "spark.sql.streaming.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    }
    if "ProcessingTime" in time_modes:
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
