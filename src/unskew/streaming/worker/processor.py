"""The slot step inside Spark's own stateful operator: the only place that uses Spark's state API."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import xxhash
from pyspark import TaskContext
from pyspark.sql import types as T

from unskew.spark.versions.streams import StatefulProcessor
from unskew.streaming.operators.frames import frame_of
from unskew.streaming.operators.operator import Clock, Operator
from unskew.streaming.storage.columns import bounded_parts
from unskew.streaming.storage.layout import WINDOW
from unskew.streaming.storage.ledger import Ledger
from unskew.streaming.storage.local_cache import LocalCache
from unskew.streaming.worker.garbage import freeze_once
from unskew.streaming.worker.packing import batch_of
from unskew.streaming.worker.slot_labels import slot_labels
from unskew.streaming.worker.slot_step import SlotStep

if TYPE_CHECKING:
    from pyspark.sql.streaming import StatefulProcessorHandle  # type: ignore[attr-defined]

PIECES, ABOUT = "pieces", "about"

# Types, not text: the worker would ask the JVM to parse a text, several times in every batch.
_ABOUT_TYPE = T.StructType().add("text", T.StringType()).add("counts", T.BinaryType())
_NAME_TYPE = T.StructType().add("name", T.StringType())
_DATA_TYPE = T.StructType().add("data", T.BinaryType())


class SlotProcessor(StatefulProcessor):
    """Called once per slot and batch, with all payloads of the slot."""

    def __init__(
        self,
        ledger: Ledger,
        operator: Operator,
        buckets: int,
        max_slots: int,
        time: str,
    ) -> None:
        self._ledger = ledger
        self._operator = operator
        self._buckets = buckets
        self._max_slots = max_slots
        self._time = time

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state variables."""
        freeze_once()
        self._handle = handle
        self._finished_slots: set[int] = set()
        self._store = _SparkStore(
            handle.getValueState(ABOUT, _ABOUT_TYPE),
            handle.getMapState(PIECES, _NAME_TYPE, _DATA_TYPE),
        )

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        """Handle the payloads of a batch."""
        packed = pd.concat(list(rows)).sort_values("part", kind="stable")
        # the batch comes from the rows, so that a task that outlives its batch still knows which one it belongs to
        yield from self._step(key, list(packed["payload"]), int(packed["batch"].iloc[0]), timerValues)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:  # noqa: ARG002 Spark passes it by name
        """Handle a batch without records: Spark runs one when the watermark moves, and then only timers call a slot."""
        yield from self._step(key, [], None, timerValues)

    def _step(self, key: Any, payloads: list[bytes], batch: int | None, timer_values: Any) -> Iterator[Any]:
        slot = slot_labels(self._max_slots).index(int(key[0]))
        if slot in self._finished_slots:
            if payloads:
                raise RuntimeError(f"Spark called slot {slot} twice with records in one batch")
            return  # timers fire after the records of the same batch
        self._finished_slots.add(slot)
        context = TaskContext.get()
        assert context is not None
        if batch is None:
            batch = batch_of(context, self._ledger)
        clock = Clock(timer_values.getCurrentProcessingTimeInMs(), timer_values.getCurrentWatermarkInMs())
        self._register_timer(clock)
        step = SlotStep(self._ledger, self._operator, self._buckets, _executor())
        attempt = f"{context.stageId()}-{context.attemptNumber()}-{context.taskAttemptId()}"
        cache = LocalCache(f"{self._ledger.folder.address}#{self._ledger.checkpoint_id}")
        if batch % 100 == 0:
            cache.tidy()
        out = step.run(slot, batch, payloads, clock, attempt, self._store, cache)
        for part in bounded_parts(out) if len(out) else []:
            yield frame(part, windowed=self._operator.layout.windowed)

    def _register_timer(self, clock: Clock) -> None:
        """Ask Spark to call this slot again as soon as time moves on, even without records."""
        if self._time == "EventTime":
            self._handle.registerTimer(clock.watermark + 1)
        elif self._time == "ProcessingTime":
            self._handle.registerTimer(clock.now + 1)

    def close(self) -> None:
        """There is nothing to release."""


class _SparkStore:
    """Spark's state store for one slot."""

    def __init__(self, about: Any, pieces: Any) -> None:
        self._about, self._pieces = about, pieces

    def describe(self) -> tuple[str, bytes] | None:
        row = self._about.get()
        return None if row is None else (row[0], bytes(row[1]))

    def note(self, text: str, counts: bytes) -> None:
        self._about.update((text, counts))

    def get(self, piece: str) -> bytes:
        row = self._pieces.getValue((piece,))
        if row is None:
            raise RuntimeError(
                f"the state store has lost {piece}, which the slot's description names: restore the checkpoint"
            )
        return bytes(row[0])

    def put(self, piece: str, data: bytes) -> None:
        self._pieces.updateValue((piece,), (data,))

    def remove(self, piece: str) -> None:
        self._pieces.removeKey((piece,))


def _executor() -> str:
    """A name for the executor that runs this task: no two executors share folders for shuffle files."""
    place = f"{socket.gethostname()} {os.environ.get('SPARK_LOCAL_DIRS', '')}"
    return xxhash.xxh64_hexdigest(place.encode())


def flat(schema: pa.Schema, *, windowed: bool) -> pa.Schema:
    """The columns in which results travel to Spark: the start and end of an operator's own window side by side.

    A window of its own is never null. A user's column of that name may be, and travels as it is.
    """
    fields = []
    for f in schema:
        fields += _window_fields(f) if windowed and f.name == WINDOW else [f]
    return pa.schema(fields)


def frame(out: pa.Table, *, windowed: bool) -> pd.DataFrame:
    """The result for Spark: pandas around the Arrow columns themselves, so that no value changes."""
    columns: list[pa.ChunkedArray] = []
    for name, column in zip(out.column_names, out.columns, strict=True):
        columns += column.flatten() if windowed and name == WINDOW else [column]
    schema = flat(out.schema, windowed=windowed)
    table = pa.table(columns, schema=schema).combine_chunks()  # Spark takes one chunk per column
    return frame_of(table, pd.ArrowDtype)


def _window_fields(f: pa.Field) -> list[pa.Field]:
    return [pa.field(f"{WINDOW}.{p.name}", p.type) for p in f.type]
