"""What a stateful operator does with the records of a slot: aggregates kept per key, optionally per window."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from unskew.streaming.aggregation import Aggregation
from unskew.streaming.identity import Index, groups_of
from unskew.streaming.slot_state import DEADLINE, HASH, WINDOW, Layout, SlotState, one_piece

RECORDS = "records"
TIME = "time"
"""The latest event time (milliseconds) among the records of a payload row."""

_FAR = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Clock:
    """The moments of a batch, in milliseconds: its own time, and the watermark (-1 before there is one)."""

    now: int
    watermark: int = -1


@dataclass(frozen=True)
class Window:
    """Event-time windows: `size` long, a new one every `slide`; both in microseconds."""

    size: int
    slide: int

    def assign(self, moments: NDArray[np.int64]) -> tuple[Index, NDArray[np.int64]]:
        """For each window that holds a record: the record's row and the start of the window."""
        last = moments // self.slide * self.slide
        rows, starts = [], []
        for back in range(-(-self.size // self.slide)):
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


@dataclass(frozen=True)
class Loads:
    """Records by key: one row a key, in no order."""

    rows: pa.Table

    @classmethod
    def of(cls, payload: pa.Table, keys: int) -> Loads:
        """Summed by key from payload rows that carry their records."""
        columns = [f"key.{i}" for i in range(keys)]
        hashes = payload[HASH].to_numpy()
        groups, firsts = groups_of(hashes, [one_piece(payload[c]) for c in columns])
        counts = np.bincount(groups, payload[RECORDS].to_numpy(), len(firsts))
        found = payload.select([HASH, *columns]).take(pa.array(firsts))
        return cls(found.append_column(RECORDS, pa.array(counts)))


class Operator(Protocol):
    """A stateful operator: packs records before the shuffle, then takes a step in each slot and batch."""

    @property
    def layout(self) -> Layout:
        """The columns of its state."""

    @property
    def output(self) -> pa.Schema:
        """The columns it puts out."""

    @property
    def payload(self) -> pa.Schema:
        """The columns that travel to the slots."""

    def pack(self, rows: pa.Table) -> pa.Table:
        """Records (hash, key columns `key.i`, others by name) as payload rows."""

    def step(self, payload: pa.Table, state: SlotState, clock: Clock) -> tuple[pa.Table, int]:
        """Take the payload into the state; returns what is put out, and how many records came too late."""


@dataclass(frozen=True)
class AggregateOperator:
    """Keeps aggregates per key, or per key and window.

    Without a window, and with one while `emit` is "changed", every key (and window) that a batch touched is put out with its new
    values. With `emit` "closed" each window is put out once, when the watermark passes its end, and dropped.
    """

    key: pa.Schema
    aggregation: Aggregation
    window: Window | None = None
    time: str | None = None
    emit: str = "changed"
    expiry: Expiry | None = None

    @cached_property
    def layout(self) -> Layout:
        """The columns of its state."""
        expires = self.expiry is not None or self.window is not None
        return Layout(self.key, self.aggregation.state_schema, self.window is not None, expires)

    @cached_property
    def payload(self) -> pa.Schema:
        """The columns that travel to the slots."""
        fields = [pa.field(HASH, pa.int64())]
        fields += [pa.field(f"key.{i}", f.type) for i, f in enumerate(self.key)]
        if self.window:
            fields.append(pa.field(WINDOW, pa.int64()))
        fields += [pa.field(f"state.{f.name}", f.type) for f in self.aggregation.state_schema]
        return pa.schema([*fields, pa.field(TIME, pa.int64()), pa.field(RECORDS, pa.int64())])

    @cached_property
    def output(self) -> pa.Schema:
        """The columns it puts out."""
        moment = pa.timestamp("us", "UTC")
        window = [pa.field(WINDOW, pa.struct([("start", moment), ("end", moment)]))] if self.window else []
        return pa.schema([*self.key, *window, *self.aggregation.output_schema])

    def pack(self, rows: pa.Table) -> pa.Table:
        """Partial aggregates, one row a key (and window)."""
        if self.window:
            rows = self._windowed(rows)
        groups, firsts = self._groups(rows)
        states = self.aggregation.partial(rows, groups, len(firsts))
        records = np.bincount(groups, minlength=len(firsts)).astype(np.int64)
        return self._payload(rows, groups, firsts, states, records, self._times(rows))

    def step(self, payload: pa.Table, state: SlotState, clock: Clock) -> tuple[pa.Table, int]:
        """Merge the partial aggregates into the state."""
        late = 0
        if self.window and clock.watermark >= 0:
            ends = (payload[WINDOW].to_numpy() + self.window.size) // 1000
            in_time = ends > clock.watermark
            late = int(payload[RECORDS].to_numpy()[~in_time].sum())
            payload = payload if in_time.all() else payload.filter(pa.array(in_time))
        changed = self._merged(payload, state, clock)
        due = self.layout.schema.empty_table()
        if self.layout.expires:
            due = state.due(self._passed(clock))
            state.remove(due)
        return self._put_out(due if self.window and self.emit == "closed" else changed), late

    def _merged(self, payload: pa.Table, state: SlotState, clock: Clock) -> pa.Table:
        if not len(payload):
            return self.layout.schema.empty_table()
        groups, firsts = self._groups(payload)
        one_each = len(firsts) == len(payload)
        states = payload.select(self.layout.values)
        arrived = payload if one_each else payload.take(pa.array(firsts))
        if not one_each:
            states = self._renamed(self.aggregation.merge(self._bare(states), groups, len(firsts)))
        identity = {name: arrived[name] for name in [HASH, *self.layout.identity]}
        rows = self.layout.rows({**identity, **_columns(states)}, len(arrived))
        before, owners = state.look_up(rows)
        if len(before):
            both = pa.concat_tables([self._bare(before.select(self.layout.values)), self._bare(states)])
            owner = np.concatenate([owners, np.arange(len(arrived))])
            states = self._renamed(self.aggregation.merge(both, owner, len(arrived)))
        columns = {**identity, **_columns(states)}
        if self.layout.expires:
            columns[DEADLINE] = pa.array(self._deadlines(arrived, payload, groups, before, owners, clock))
        rows = self.layout.rows(columns, len(arrived))
        state.update(rows, known=len(before))
        return rows

    def _deadlines(
        self,
        arrived: pa.Table,
        payload: pa.Table,
        groups: Index,
        before: pa.Table,
        owners: Index,
        clock: Clock,
    ) -> NDArray[np.int64]:
        if self.window:
            ends: NDArray[np.int64] = (arrived[WINDOW].to_numpy() + self.window.size) // 1000
            return ends
        assert self.expiry is not None
        if not self.expiry.by_event_time:
            return np.full(len(arrived), clock.now + self.expiry.idle)
        latest = np.full(len(arrived), np.iinfo(np.int64).min)
        np.maximum.at(latest, groups, payload[TIME].to_numpy())
        latest += self.expiry.idle
        np.maximum.at(latest, owners, before[DEADLINE].to_numpy())
        return latest

    def _passed(self, clock: Clock) -> int:
        by_clock = self.expiry is not None and not self.expiry.by_event_time
        return clock.now if by_clock else clock.watermark

    def _put_out(self, rows: pa.Table) -> pa.Table:
        columns = [one_piece(rows[f"key.{i}"]) for i in range(len(self.key))]
        if self.window:
            starts = rows[WINDOW].to_numpy()
            moments = [pa.array(m, pa.timestamp("us", "UTC")) for m in (starts, starts + self.window.size)]
            columns.append(pa.StructArray.from_arrays(moments, ["start", "end"]))
        columns += self.aggregation.final(self._bare(rows.select(self.layout.values))).columns
        return pa.table(columns, schema=self.output)

    def _windowed(self, rows: pa.Table) -> pa.Table:
        assert self.window is not None and self.time is not None
        moments = rows[self.time].cast(pa.int64())
        if moments.null_count:
            rows, moments = rows.filter(moments.is_valid()), moments.drop_null()
        at, starts = self.window.assign(moments.to_numpy())
        return rows.take(pa.array(at)).append_column(WINDOW, pa.array(starts))

    def _times(self, rows: pa.Table) -> pa.Array:
        if self.expiry is None or not self.expiry.by_event_time or self.time is None:
            return pa.array(np.zeros(len(rows), np.int64))
        return pc.divide(one_piece(rows[self.time].cast(pa.int64())), 1000).fill_null(0)

    def _payload(
        self,
        rows: pa.Table,
        groups: Index,
        firsts: Index,
        states: pa.Table,
        records: NDArray[np.int64],
        times: pa.Array,
    ) -> pa.Table:
        latest = np.full(len(firsts), np.iinfo(np.int64).min)
        np.maximum.at(latest, groups, times.to_numpy(zero_copy_only=False))
        first = rows.select([HASH, *self.layout.identity]).take(pa.array(firsts))
        columns = {name: one_piece(first[name]) for name in first.column_names}
        columns |= _columns(self._renamed(states))
        columns |= {TIME: pa.array(latest), RECORDS: pa.array(records)}
        return pa.table([columns[f.name] for f in self.payload], schema=self.payload)

    def _groups(self, rows: pa.Table) -> tuple[Index, Index]:
        return groups_of(self.layout.ids(rows), self.layout.keys_of(rows))

    def _bare(self, states: pa.Table) -> pa.Table:
        return states.rename_columns(self.aggregation.state_schema.names)

    def _renamed(self, states: pa.Table) -> pa.Table:
        return states.rename_columns(self.layout.values)


def _columns(table: pa.Table) -> dict[str, pa.ChunkedArray]:
    return dict(zip(table.column_names, table.columns, strict=True))
