"""One slot in one batch: import, handle, expire, export, store, acknowledge."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from unskew.core.hashing import buckets_of
from unskew.core.migration.protocol import Acknowledgement, Exported
from unskew.streaming.failpoints import failpoint
from unskew.streaming.operators.operator import RECORDS, Clock, Operator, loads_of
from unskew.streaming.storage.ledger import Ledger, Report
from unskew.streaming.storage.slot_state import HASH, Cache, SlotState, Store, decoded

TRACKED = 512
"""Keys whose load a slot reports one by one; the others it reports by bucket."""


@dataclass(frozen=True)
class SlotStep:
    """What a slot does when it is called. Needs no Spark: the store and the clock are handed in.

    The order keeps the protocol's invariant. It imports before it handles records, so it has the state of every key
    it is sent. It exports after, so what leaves is what this batch made of it. It acknowledges last, so the handoffs
    that an acknowledgement names are on disk, flushed (its own state is as durable as Spark's state store makes it).
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
        """Take the payloads of a batch; returns the rows that the operator emits."""
        watch = _Watch()
        turn = self.ledger.turn(batch)
        state = SlotState.load(self.operator.layout, self.buckets, store, cache)
        watch.lap("load")

        # 1. import
        arrived = turn.imports(slot, state.applied)
        for handoff in arrived:
            state.update(self.ledger.read_handoff(handoff))
        failpoint("imported", batch)
        watch.lap("import")

        # 2. and 3. handle the records, expire
        empty = self.operator.payload.empty_table()
        payload = pa.concat_tables([empty, *(decoded(p) for p in payloads)]).combine_chunks()
        out, late = self.operator.step(payload, state, clock)
        failpoint("handled", batch)
        watch.lap("handle")

        # 4. export
        exported: tuple[Exported, ...] | None = None
        target = None if turn.target is None else turn.exports(slot, self.ledger.find_turn(batch + 1))
        if target is not None:
            files = []
            for to, rows in state.leaving(target, slot).items():
                files.append(self.ledger.write_handoff(batch, slot, to, attempt, rows))
                state.remove(rows)
            exported = tuple(files)
            failpoint("exported", batch)
        watch.lap("export")

        # 5. store
        state.applied = batch
        written = state.save(store, cache)
        failpoint("stored", batch)
        watch.lap("store")

        # 6. acknowledge
        loads = reported(loads_of(payload, len(self.operator.layout.key)), state.state_rows)
        watch.lap("report")
        figures: dict[str, Any] = {
            "records": int(payload[RECORDS].to_numpy().sum()),
            "late": late,
            "state_rows": len(state),
            "state_bytes": state.size,
            "written": written,
            "imported": sum(h.rows for h in arrived),
            "executor": self.executor,
            "seconds": watch.seconds,
        }
        ack = Acknowledgement(slot, batch, batch, exported)
        self.ledger.write_report(Report(ack, loads, figures))
        failpoint("acknowledged", batch)
        return out


def reported(loads: pa.Table, state_rows: np.ndarray[Any, Any]) -> pa.Table:
    """The loads as they travel: the heaviest keys one by one, then the buckets (row of a bucket: key null).

    Columns: hash (a bucket's number where `bucket` is true), bucket, records, state, and the key's columns.
    """
    records = loads[RECORDS].to_numpy()
    buckets = len(state_rows)
    heavy = np.arange(len(records))
    if len(records) > TRACKED:
        heavy = np.sort(np.argpartition(records, -TRACKED)[-TRACKED:])
    rest = np.ones(len(records), np.bool_)
    rest[heavy] = False
    hashes = loads[HASH].to_numpy()
    homes = buckets_of(hashes, buckets)
    by_bucket = np.bincount(homes[rest], records[rest], buckets)
    distinct = np.bincount(homes[rest], minlength=buckets)
    state = np.maximum(state_rows - np.bincount(homes[heavy], minlength=buckets), 0)
    seen = np.flatnonzero((by_bucket > 0) | (state > 0))
    columns: dict[str, Any] = {
        HASH: np.concatenate([hashes[heavy], seen]),
        "bucket": np.concatenate([np.zeros(len(heavy), np.bool_), np.ones(len(seen), np.bool_)]),
        RECORDS: np.concatenate([records[heavy], by_bucket[seen]]).astype(np.float64),
        "state": np.concatenate([np.ones(len(heavy)), state[seen]]).astype(np.float64),
        "distinct": np.concatenate([np.ones(len(heavy)), distinct[seen]]).astype(np.float64),
    }
    table = pa.table(columns)
    kept = loads.take(pa.array(heavy))
    for name in loads.column_names:
        if name.startswith("key."):
            column = kept[name]
            nulls = pa.nulls(len(seen), column.type)
            table = table.append_column(name, pa.chunked_array([*column.chunks, nulls], column.type))
    return table


@dataclass
class _Watch:
    """Seconds by part of the work."""

    seconds: dict[str, float] = field(default_factory=dict)
    since: float = field(default_factory=time.perf_counter)

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.seconds[name] = round(now - self.since, 6)
        self.since = now
