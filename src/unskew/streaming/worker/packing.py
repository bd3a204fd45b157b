"""Before the shuffle: the records of a map task become one payload per slot."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from unskew.core.migration.protocol import Turn
from unskew.streaming.failpoints import failpoint
from unskew.streaming.operators.operator import CHUNK_BYTES, CHUNK_ROWS, Operator
from unskew.streaming.storage.columns import bounded_parts, take_rows
from unskew.streaming.storage.layout import HASH
from unskew.streaming.storage.ledger import Ledger
from unskew.streaming.storage.run_codec import encoded
from unskew.streaming.worker.garbage import freeze_once
from unskew.streaming.worker.pair_counting import PairCounter
from unskew.streaming.worker.slot_labels import slot_labels

if TYPE_CHECKING:
    from pyspark import TaskContext

PACKED = pa.schema(
    [("label", pa.int32()), ("batch", pa.int64()), ("part", pa.int64()), ("payload", pa.binary())]
)
SPARK_PACKED = "label int, batch long, part long, payload binary"


@dataclass(frozen=True)
class Packer:
    """Packs the records of one map task: hashed, routed by the table of the batch, partly aggregated.

    Every slot in use gets at least one payload per batch, an empty one (from the first task) if it has no records,
    so that Spark calls it: it can import, expire, export and acknowledge even when it has nothing to handle.

    `late_lag` is None without event time. With it, records are late by the watermark of `late_lag` batches before: 1,
    as for Spark's own operators, so that what an operator emits in a batch is not late for the next one. And slots that
    are not in use yet are called once: then they have a timer, which calls them in batches without records.

    With `pairs` the last column is the hash of the key that the record had at the previous operator. The pairs of
    keys are then counted and written to the ledger, and the column is dropped.
    """

    ledger: Ledger
    operator: Operator
    records: pa.Schema
    max_slots: int
    pairs: bool = False
    late_lag: int | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The payloads of this Spark task."""
        from pyspark import TaskContext

        freeze_once()
        context = TaskContext.get()
        assert context is not None
        batch, task = batch_of(context, self.ledger), context.partitionId()
        turn = self.ledger.turn(batch)
        counter = PairCounter()
        watermark = None if self.late_lag is None else self.ledger.watermark(batch - self.late_lag)
        yield from self.pack(counter.count(batches) if self.pairs else batches, turn, task, watermark)
        if self.pairs:
            self.ledger.write_pairs(batch, task, counter.histogram())
        failpoint("packed", batch)

    def pack(
        self, batches: Iterator[pa.RecordBatch], turn: Turn, task: int, watermark: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The payloads of one task; `watermark` (milliseconds) says which records are late."""
        part = task << 32
        if task == 0:
            empty = encoded(self.operator.payload.empty_table())
            slots = called_slots(turn, self.max_slots if self.late_lag is not None else 0)
            yield self._rows(turn, slots, part, [empty] * len(slots))
        for rows in _chunks(batches, self.records):
            # records may be in many windows, and Spark takes at most 2 GiB of payloads at once
            for packed in bounded_parts(self.operator.pack(normal_keys(rows), watermark)):
                part += 1
                yield self._routed(packed, turn, part)

    def _routed(self, packed: pa.Table, turn: Turn, part: int) -> pa.RecordBatch:
        """One payload for each slot that has packed rows."""
        slot_of_row = turn.table.slot_of_hashes(packed[HASH].to_numpy())
        order = np.argsort(slot_of_row, kind="stable")
        packed = take_rows(packed, order)
        used_slots, starts = np.unique(slot_of_row[order], return_index=True)
        bounds = [*starts.tolist(), len(order)]
        payloads = [encoded(packed.slice(start, end - start)) for start, end in pairwise(bounds)]
        return self._rows(turn, used_slots.tolist(), part, payloads)

    def _rows(self, turn: Turn, slots: list[int], part: int, payloads: list[bytes]) -> pa.RecordBatch:
        labels = slot_labels(self.max_slots)
        columns = [
            pa.array([labels[slot] for slot in slots], pa.int32()),
            pa.array([turn.batch] * len(slots), pa.int64()),
            pa.array([part] * len(slots), pa.int64()),
            pa.array(payloads, pa.binary()),
        ]
        return pa.record_batch(columns, schema=PACKED)


def batch_of(context: TaskContext, ledger: Ledger) -> int:
    """The batch that a task belongs to. Spark knows it, except on Connect: there the callback stores it."""
    batch = context.getLocalProperty("streaming.sql.batchId")
    return ledger.current() if batch is None else int(batch)


def active_slots(turn: Turn) -> list[int]:
    """The slots that have something to do: those that records can reach, and those that state is moving to."""
    return sorted({*range(turn.table.slots), *(h.destination for h in turn.pending)})


def called_slots(turn: Turn, timed_slots: int) -> list[int]:
    """The slots that a batch with records must call.

    Those are the active ones, and of the first `timed_slots` slots all that were never called: in a batch without
    records only timers call a slot, and by then state may be on its way to it.
    """
    return sorted({*active_slots(turn), *(slot for slot in range(timed_slots) if slot not in turn.imported)})


def normal_keys(rows: pa.Table) -> pa.Table:
    """The rows with 0.0 for -0.0 and one NaN for all in the key columns: Spark's grouping treats them as equal."""
    for i, f in enumerate(rows.schema):
        if f.name.startswith("key.") and _has_floats(f.type):
            chunks = [_normal(chunk) for chunk in rows.column(i).chunks]
            rows = rows.set_column(i, f.name, pa.chunked_array(chunks, f.type))
    return rows


def _has_floats(t: pa.DataType) -> bool:
    if pa.types.is_struct(t):
        return any(_has_floats(t.field(i).type) for i in range(t.num_fields))
    return bool(pa.types.is_floating(t))


def _normal(array: pa.Array) -> pa.Array:
    if pa.types.is_struct(array.type):
        parts = [_normal(array.field(i)) for i in range(array.type.num_fields)]
        return pa.StructArray.from_arrays(parts, fields=list(array.type), mask=array.is_null())
    if not pa.types.is_floating(array.type):
        return array
    without_negative_zero = pc.add(array, pa.scalar(0.0, array.type))
    nan = pa.scalar(float("nan"), array.type)
    return pc.if_else(pc.is_nan(without_negative_zero), nan, without_negative_zero)


def _chunks(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    """The records in tables of bounded size, with the columns and types of `schema`."""
    chunk: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        chunk.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= CHUNK_ROWS or size >= CHUNK_BYTES:
            yield _table(chunk, schema)
            chunk, rows, size = [], 0, 0
    if rows:
        yield _table(chunk, schema)


def _table(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    table = pa.Table.from_batches(batches).rename_columns(schema.names)
    table = table if table.schema.equals(schema) else table.cast(schema)
    return table.combine_chunks()
