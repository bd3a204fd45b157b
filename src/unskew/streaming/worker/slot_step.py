"""One slot in one batch: import, handle, expire, export, store, acknowledge."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import xxhash

from unskew.core.hashing import buckets_of
from unskew.core.migration.protocol import Acknowledgement, Exported, Turn
from unskew.core.routing import RoutingTable
from unskew.streaming.failpoints import failpoint
from unskew.streaming.operators.operator import RECORDS, Clock, Operator, loads_of
from unskew.streaming.storage.layout import HASH
from unskew.streaming.storage.ledger import Ledger, Report
from unskew.streaming.storage.run_codec import decoded
from unskew.streaming.storage.slot_state import Cache, SlotState, Store
from unskew.streaming.worker.packing import active_slots

TRACKED = 512
"""Keys whose load a slot reports one by one; it reports the others by bucket."""


@dataclass(frozen=True)
class SlotStep:
    """What a slot does when it is called. Needs no Spark: the store and the clock are passed in.

    The order keeps the protocol's invariant. It imports before it handles records, so it has the state of every key
    whose records it gets. It exports afterwards, so the exported state includes this batch. It acknowledges last, so
    the handoffs that an acknowledgement names are on disk, flushed (its own state is as durable as Spark's state
    store makes it).
    """

    ledger: Ledger
    operator: Operator
    buckets: int
    executor: str = ""

    def run(
        self,
        slot: int,
        batch: int,
        payloads: Sequence[bytes],
        clock: Clock,
        attempt: str,
        store: Store,
        cache: Cache,
    ) -> pa.Table:
        """Handle the payloads of a batch; returns the rows that the operator emits.

        Without payloads the batch has no records: Spark ran it because the watermark moved, and it may be the last.
        """
        stopwatch = _Stopwatch()
        turn = self.ledger.turn(batch)
        if not payloads and slot not in active_slots(turn):
            return self.operator.output.empty_table()  # a timer called it, but no state is or will be here
        state = SlotState.load(self.operator.layout, self.buckets, store, cache)
        stopwatch.lap("load")

        # 1. import
        imports = turn.imports(slot, state.applied, state.exported)
        for handoff in imports:
            state.update(self.ledger.read_handoff(handoff))
        failpoint("imported", batch)
        stopwatch.lap("import")

        # 2. and 3. handle the records, expire
        empty = self.operator.payload.empty_table()
        payload = pa.concat_tables([empty, *(decoded(p) for p in payloads)]).combine_chunks()
        out, late = self.operator.step(payload, state, clock)
        failpoint("handled", batch)
        stopwatch.lap("handle")

        # 4. export
        exported: tuple[Exported, ...] | None = None
        target = self._export_target(turn, slot, quiet=not payloads)
        if target is not None:
            files, source = [], _digest(payloads)
            for destination, rows in state.leaving(target, slot).items():
                files.append(self.ledger.write_handoff(batch, slot, destination, attempt, rows, source))
                state.remove(rows)
            exported = tuple(files)
            failpoint("exported", batch)
        stopwatch.lap("export")

        # 5. store
        state.applied = batch
        state.exported = tuple(file.digest for file in exported or ())
        written = state.save(store, cache)
        failpoint("stored", batch)
        stopwatch.lap("store")

        # 6. acknowledge
        loads = loads_to_report(loads_of(payload, len(self.operator.layout.key)), state.state_rows)
        stopwatch.lap("report")
        figures: dict[str, Any] = {
            "records": int(payload[RECORDS].to_numpy().sum()),
            "late": late,
            "state_rows": len(state),
            "state_bytes": state.size,
            "written": written,
            "imported": sum(handoff.rows for handoff in imports),
            "executor": self.executor,
            "seconds": stopwatch.seconds,
        }
        ack = Acknowledgement(slot, batch, batch, exported)
        self.ledger.write_report(Report(ack, loads, figures))
        failpoint("acknowledged", batch)
        return out

    def _export_target(self, turn: Turn, slot: int, *, quiet: bool) -> RoutingTable | None:
        """The table towards which the slot exports, or None.

        In a quiet batch nothing is sent: if no batch follows, it would not arrive. A replay repeats what counted.
        """
        if turn.target is None:
            return None
        after = self.ledger.find_turn(turn.batch + 1)
        return None if quiet and after is None else turn.exports(slot, after)


def _digest(payloads: Sequence[bytes]) -> str:
    """Tells one input of a slot from another."""
    digest = xxhash.xxh3_128()
    for payload in payloads:
        digest.update(payload)
    return digest.hexdigest()


def loads_to_report(loads: pa.Table, state_rows: np.ndarray[Any, Any]) -> pa.Table:
    """The loads in a report: the heaviest keys one by one, then the other keys by bucket, with null as the key.

    Columns: hash (the bucket's number if `bucket` is true), bucket, records, state, distinct, and the key's columns.
    """
    records = loads[RECORDS].to_numpy()
    buckets = len(state_rows)
    heavy = np.arange(len(records))
    if len(records) > TRACKED:
        heavy = np.sort(np.argpartition(records, -TRACKED)[-TRACKED:])
    rest = np.ones(len(records), np.bool_)
    rest[heavy] = False
    hashes = loads[HASH].to_numpy()
    bucket_of = buckets_of(hashes, buckets)
    by_bucket = np.bincount(bucket_of[rest], records[rest], buckets)
    distinct = np.bincount(bucket_of[rest], minlength=buckets)
    state = np.maximum(state_rows - np.bincount(bucket_of[heavy], minlength=buckets), 0)
    used = np.flatnonzero((by_bucket > 0) | (state > 0))
    columns: dict[str, Any] = {
        HASH: np.concatenate([hashes[heavy], used]),
        "bucket": np.concatenate([np.zeros(len(heavy), np.bool_), np.ones(len(used), np.bool_)]),
        RECORDS: np.concatenate([records[heavy], by_bucket[used]]).astype(np.float64),
        "state": np.concatenate([np.ones(len(heavy)), state[used]]).astype(np.float64),
        "distinct": np.concatenate([np.ones(len(heavy)), distinct[used]]).astype(np.float64),
    }
    table = pa.table(columns)
    heavy_loads = loads.take(pa.array(heavy))
    for name in loads.column_names:
        if name.startswith("key."):
            column = heavy_loads[name]
            nulls = pa.nulls(len(used), column.type)
            table = table.append_column(name, pa.chunked_array([*column.chunks, nulls], column.type))
    return table


@dataclass
class _Stopwatch:
    """Seconds per part of the work."""

    seconds: dict[str, float] = field(default_factory=dict)
    since: float = field(default_factory=time.perf_counter)

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.seconds[name] = round(now - self.since, 6)
        self.since = now
