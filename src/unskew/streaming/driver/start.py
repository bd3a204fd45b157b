"""Starting a live query: resolve the options, open the checkpoint, build the query, launch it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from unskew.core.migration.policy import Policy
from unskew.streaming.driver.build import BuiltQuery, build
from unskew.streaming.driver.checkpoint import Checkpoint, check_checkpoint, open_checkpoint
from unskew.streaming.driver.operator_spec import OperatorSpec
from unskew.streaming.driver.placement import Placement
from unskew.streaming.driver.query import LiveQuery
from unskew.streaming.driver.resolve import Resolved, SavedPlan, resolve
from unskew.streaming.driver.sinks import Memory, Sink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_STARTING = threading.Lock()
"""Held while a query starts: the settings that it captures are the session's, which all threads share."""

_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def start(
    specs: Sequence[OperatorSpec],
    sink: Sink | str,
    *,
    checkpoint: str,
    slots: int | None,
    plan: SavedPlan | None,
    policy: Policy | None,
    placement: Placement,
    trigger: Mapping[str, Any] | str | None,
    name: str | None,
    persist: bool,
) -> LiveQuery:
    """Start the operators as one query; see `StatefulStream.start` for the arguments."""
    # 1. Resolve the options: a mistake is refused before anything is written.
    resolved = resolve(
        specs,
        sink,
        slots=slots,
        plan=plan,
        policy=policy,
        placement=placement,
        trigger=trigger,
        name=name,
        persist=persist,
    )
    # 2. Open the checkpoint: recognised or begun, and held until the query ends.
    opened = open_checkpoint(checkpoint, resolved)
    try:
        # 3. Build the query.
        query = build(resolved, opened)
        _begin_sink(resolved.sink, opened, specs[0].input.sparkSession)
        # 4. Launch it.
        return _launch(query, resolved, opened)
    except BaseException:
        opened.lease.release()
        raise


def check(
    specs: Sequence[OperatorSpec],
    sink: Sink | str,
    *,
    checkpoint: str,
    slots: int | None,
    plan: SavedPlan | None,
    policy: Policy | None,
    placement: Placement,
    trigger: Mapping[str, Any] | str | None,
    name: str | None,
    persist: bool,
) -> None:
    """Refuse what `start` would refuse, and write nothing."""
    resolved = resolve(
        specs,
        sink,
        slots=slots,
        plan=plan,
        policy=policy,
        placement=placement,
        trigger=trigger,
        name=name,
        persist=persist,
    )
    check_checkpoint(checkpoint, resolved)


def _begin_sink(sink: Sink, checkpoint: Checkpoint, spark: SparkSession) -> None:
    """Let a query that begins a checkpoint start with an empty view; one that goes on keeps its rows."""
    if isinstance(sink, Memory) and not checkpoint.has_committed:
        sink.drop(spark)


def _launch(query: BuiltQuery, resolved: Resolved, checkpoint: Checkpoint) -> LiveQuery:
    writer = (
        query.rows.writeStream.outputMode(query.output_mode)
        .option("checkpointLocation", checkpoint.address)
        .foreachBatch(query.callback)
    )
    if resolved.name is not None:
        writer = writer.queryName(resolved.name)
    if resolved.trigger:
        writer = writer.trigger(**resolved.trigger)
    specs = resolved.specs
    time_modes = {spec.time_mode for spec in specs}
    with _configured(specs[0].input.sparkSession, checkpoint.max_slots, time_modes):
        running = writer.start()
    checkpoint.lease.run(running)
    return LiveQuery(running, checkpoint.ledgers, checkpoint.lease, checkpoint.max_slots)


@contextlib.contextmanager
def _configured(spark: SparkSession, partitions: int, time_modes: Collection[str]) -> Iterator[None]:
    """The settings that the query captures when it starts; the session gets its own back afterwards."""
    settings = {
        "spark.sql.shuffle.partitions": str(partitions),
        "spark.sql.streaming.stateStore.providerClass": _ROCKSDB,
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    }
    if "ProcessingTime" in time_modes:
        # the clock always moves on, so Spark would run empty batches without end; records call the slots often enough
        settings["spark.sql.streaming.noDataMicroBatches.enabled"] = "false"
    with _STARTING:
        before = {name: spark.conf.get(name, None) for name in settings}
        try:
            for name, value in settings.items():
                spark.conf.set(name, value)
            yield
        finally:
            for name, previous in before.items():
                if previous is None:
                    spark.conf.unset(name)
                else:
                    spark.conf.set(name, previous)
