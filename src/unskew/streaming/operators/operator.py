"""What every stateful operator does: how it packs records, what state it has, what it emits, and when state expires."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.streaming.storage.columns import Index
from unskew.streaming.storage.key_groups import groups_of
from unskew.streaming.storage.layout import DEADLINE, HASH, WINDOW, Layout
from unskew.streaming.storage.slot_state import SlotState

RECORDS = "records"
MOMENT = pa.timestamp("us", "UTC")
TIME = "time"
"""The latest event time (milliseconds) among the records of a payload row."""

NO_TIME = int(np.iinfo(np.int64).min)
"""The event time of records without one."""

LATE = NO_TIME + 1
"""In place of an event time: the records of the payload row came too late, and are only counted."""


CHUNK_ROWS, CHUNK_BYTES = 1_000_000, 128 << 20
"""A task packs this much at a time, so that its memory stays bounded."""


def record_column(name: str) -> str:
    """What a record's column is called beside the hash, the key columns and the window, which have names of their own.

    >>> [record_column(name) for name in ("amount", "hash", "key.0", "in.x")]
    ['amount', 'in.hash', 'in.key.0', 'in.in.x']
    """
    return f"in.{name}" if name in (HASH, WINDOW) or name.startswith(("key.", "in.")) else name


@dataclass(frozen=True)
class Clock:
    """The moments of a batch, in milliseconds: its own time, and the watermark that ends state (-1 without one)."""

    now: int
    watermark: int = -1


@dataclass(frozen=True)
class Window:
    """Event-time windows: `size` long, a new one every `slide`; both in microseconds."""

    size: int
    slide: int

    @property
    def overlap(self) -> int:
        """The most windows that a record can be in."""
        return -(-self.size // self.slide)

    def assign(self, moments: NDArray[np.int64]) -> tuple[Index, NDArray[np.int64]]:
        """For each window that holds a record: the record's row and the start of the window."""
        last = moments // self.slide * self.slide
        rows, starts = [], []
        for back in range(self.overlap):
            start = last - back * self.slide
            inside = np.flatnonzero(start + self.size > moments)
            rows.append(inside)
            starts.append(start[inside])
        return np.concatenate(rows), np.concatenate(starts)


@dataclass(frozen=True)
class Expiry:
    """State that goes `idle` milliseconds without a record is dropped, by the watermark or by the clock."""

    idle: int
    by_event_time: bool

    def take(self, state: SlotState, clock: Clock) -> pa.Table:
        """Remove and return the rows whose deadline has passed."""
        now = clock.watermark if self.by_event_time else clock.now
        if now < 0:
            return state.layout.schema.empty_table()
        due = state.due(now)
        state.remove(due)
        return due

    def deadlines(
        self, payload: pa.Table, groups: Index, size: int, before: pa.Table, owners: Index, clock: Clock
    ) -> NDArray[np.int64]:
        """When each of `size` groups of payload rows expires; an old record never brings a deadline forward."""
        if not self.by_event_time:
            return np.full(size, clock.now + self.idle)
        latest = np.full(size, NO_TIME)
        np.maximum.at(latest, groups, payload[TIME].to_numpy())
        # a record without a time counts as the oldest that is not late
        latest[latest == NO_TIME] = max(clock.watermark, 0)
        latest += self.idle
        np.maximum.at(latest, owners, before[DEADLINE].to_numpy())
        return latest

    def take_before_records(self, state: SlotState, clock: Clock) -> pa.Table:
        """Remove and return the rows whose deadline had passed before the batch, so that their keys start again.

        By event time that happened when an earlier batch ended: as with Spark's own timers, what the watermark of a
        batch ends gets the records of that batch first.
        """
        return state.layout.schema.empty_table() if self.by_event_time else self.take(state, clock)

    def times(self, rows: pa.Table, column: str | None) -> NDArray[np.int64]:
        """The event times (milliseconds) of records, for their deadlines; zeros if deadlines do not need them."""
        if not self.by_event_time or column is None:
            return np.zeros(len(rows), np.int64)
        times: NDArray[np.int64] = rows[record_column(column)].cast(pa.int64()).fill_null(NO_TIME).to_numpy()
        return np.where(times == NO_TIME, NO_TIME, times // 1000)


def is_late(moments: pa.ChunkedArray, watermark: int) -> NDArray[np.bool_]:
    """Which moments (microseconds or timestamps; null is never late) the watermark (milliseconds) has reached.

    Spark's operators compare in microseconds, so this does, too.
    """
    micros = moments.cast(pa.int64()).fill_null(np.iinfo(np.int64).max)
    return np.asarray(micros.to_numpy() <= watermark * 1000)


def without_late(payload: pa.Table) -> tuple[pa.Table, int]:
    """The payload rows that came in time, and how many records the others stand for."""
    late = payload[TIME].to_numpy() == LATE
    if not late.any():
        return payload, 0
    return payload.filter(pa.array(~late)), int(payload[RECORDS].to_numpy()[late].sum())


def loads_of(payload: pa.Table, keys: int) -> pa.Table:
    """Records per key, one row per key in no order. Keys with equal hashes count as one: they are routed together."""
    groups, firsts = groups_of(payload[HASH].to_numpy(), [])
    counts = np.bincount(groups, payload[RECORDS].to_numpy(), len(firsts))
    rows = payload.select([HASH, *(f"key.{i}" for i in range(keys))]).take(pa.array(firsts))
    return rows.append_column(RECORDS, pa.array(counts))


class Operator(Protocol):
    """A stateful operator: packs records before the shuffle, then takes a step in each slot and batch."""

    @property
    def layout(self) -> Layout:
        """The columns of its state."""

    @property
    def output(self) -> pa.Schema:
        """The columns it emits."""

    @property
    def payload(self) -> pa.Schema:
        """The columns that travel to the slots."""

    @property
    def expiry(self) -> Expiry | None:
        """When the state of a key without records expires, or None if it never does."""

    def pack(self, rows: pa.Table, watermark: int | None = None) -> pa.Table:
        """Records (hash, key columns `key.i`, others by name, see `record_column`) as payload rows.

        `watermark` (milliseconds) says which are late: those are packed apart, with `LATE` as their time.
        """

    def step(self, payload: pa.Table, state: SlotState, clock: Clock) -> tuple[pa.Table, int]:
        """Apply the payload to the state; returns the rows to emit, and how many records came too late."""

    def describe(self) -> dict[str, Any]:
        """What a checkpoint needs to recognise the operator and to show its state: plain data with stable names."""
