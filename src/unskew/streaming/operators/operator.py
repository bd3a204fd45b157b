"""What a stateful operator does with the records of a slot: aggregates kept per key, optionally per window."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.streaming.operators.aggregation import Aggregation
from unskew.streaming.storage.key_groups import Index, groups_of
from unskew.streaming.storage.slot_state import DEADLINE, HASH, WINDOW, Layout, SlotState, one_piece

RECORDS = "records"
MOMENT = pa.timestamp("us", "UTC")
TIME = "time"
"""The latest event time (milliseconds) among the records of a payload row."""

NO_TIME = int(np.iinfo(np.int64).min)
"""The time of records that have none."""


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

    def take(self, state: SlotState, clock: Clock) -> pa.Table:
        """Remove the rows whose deadline has come."""
        passed = clock.watermark if self.by_event_time else clock.now
        if passed < 0:
            return state.layout.schema.empty_table()
        due = state.due(passed)
        state.remove(due)
        return due

    def deadlines(
        self, payload: pa.Table, groups: Index, size: int, before: pa.Table, owners: Index, clock: Clock
    ) -> NDArray[np.int64]:
        """When each of `size` groups of payload rows expires; an old record brings no deadline forward."""
        if not self.by_event_time:
            return np.full(size, clock.now + self.idle)
        latest = np.full(size, NO_TIME)
        np.maximum.at(latest, groups, payload[TIME].to_numpy())
        latest[latest == NO_TIME] = max(clock.watermark, 0)  # a record without a time is as old as it may be
        latest += self.idle
        np.maximum.at(latest, owners, before[DEADLINE].to_numpy())
        return latest

    def times(self, rows: pa.Table, column: str | None) -> NDArray[np.int64]:
        """The event times (milliseconds) of records, as far as deadlines need them."""
        if not self.by_event_time or column is None:
            return np.zeros(len(rows), np.int64)
        times: NDArray[np.int64] = rows[column].cast(pa.int64()).fill_null(NO_TIME).to_numpy()
        return np.where(times == NO_TIME, NO_TIME, times // 1000)


def loads_of(payload: pa.Table, keys: int) -> pa.Table:
    """Records by key: one row a key, in no order. Keys with one hash are one, since they are routed as one."""
    groups, firsts = groups_of(payload[HASH].to_numpy(), [])
    counts = np.bincount(groups, payload[RECORDS].to_numpy(), len(firsts))
    found = payload.select([HASH, *(f"key.{i}" for i in range(keys))]).take(pa.array(firsts))
    return found.append_column(RECORDS, pa.array(counts))


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

    @property
    def expiry(self) -> Expiry | None:
        """When its state expires without records, if it does."""

    def pack(self, rows: pa.Table) -> pa.Table:
        """Records (hash, key columns `key.i`, others by name) as payload rows."""

    def step(self, payload: pa.Table, state: SlotState, clock: Clock) -> tuple[pa.Table, int]:
        """Take the payload into the state; returns what is put out, and how many records came too late."""


@dataclass(frozen=True)
class AggregateOperator:
    """Keeps aggregates per key, or per key and window.

    Without a window, and with one while `emit` is "changed", every key (and window) that a batch touched is
    put out with its new values. With `emit` "closed" each window is put out once, when the watermark passes
    its end, and dropped.
    """

    key: pa.Schema
    aggregation: Aggregation
    window: Window | None = None
    time: str | None = None
    emit: str = "changed"
    expiry: Expiry | None = None
    moment: pa.DataType = MOMENT

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
        window = (
            [pa.field(WINDOW, pa.struct([("start", self.moment), ("end", self.moment)]))]
            if self.window
            else []
        )
        return pa.schema([*self.key, *window, *self.aggregation.output_schema])

    def pack(self, rows: pa.Table) -> pa.Table:
        """Partial aggregates, one row a key (and window)."""
        if self.window:
            rows = self._windowed(rows)
        groups, firsts = self._groups(rows)
        states = self.aggregation.partial(rows, groups, len(firsts))
        records = np.bincount(groups, minlength=len(firsts)).astype(np.int64)
        return self._payload(rows, groups, firsts, states, records)

    def step(self, payload: pa.Table, state: SlotState, clock: Clock) -> tuple[pa.Table, int]:
        """Merge the partial aggregates into the state."""
        late = 0
        if self.window and clock.watermark >= 0:
            ends = (payload[WINDOW].to_numpy() + self.window.size) // 1000
            in_time = ends > clock.watermark
            late = int(payload[RECORDS].to_numpy()[~in_time].sum())
            payload = payload if in_time.all() else payload.filter(pa.array(in_time))
        if self.expiry is not None:
            self.expiry.take(state, clock)  # before its next record, which begins anew
        changed = self._merged(payload, state, clock)
        due = self.layout.schema.empty_table()
        if self.expiry is not None:
            self.expiry.take(state, clock)
        elif self.window and clock.watermark >= 0:
            due = state.due(clock.watermark)
            state.remove(due)
        return self.put_out(due if self.window and self.emit == "closed" else changed), late

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
        state.update(rows, before)
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
        return self.expiry.deadlines(payload, groups, len(arrived), before, owners, clock)

    def put_out(self, rows: pa.Table) -> pa.Table:
        """State rows as the user sees them."""
        columns = [one_piece(rows[f"key.{i}"]) for i in range(len(self.key))]
        if self.window:
            starts = rows[WINDOW].to_numpy()
            moments = [pa.array(m, self.moment) for m in (starts, starts + self.window.size)]
            columns.append(pa.StructArray.from_arrays(moments, ["start", "end"]))
        columns += self.aggregation.final(self._bare(rows.select(self.layout.values))).columns
        return pa.table(columns, schema=self.output)

    def _windowed(self, rows: pa.Table) -> pa.Table:
        assert self.window is not None
        assert self.time is not None
        moments = rows[self.time].cast(pa.int64())
        if moments.null_count:
            rows, moments = rows.filter(moments.is_valid()), moments.drop_null()
        at, starts = self.window.assign(moments.to_numpy())
        return rows.take(pa.array(at)).append_column(WINDOW, pa.array(starts))

    def _payload(
        self,
        rows: pa.Table,
        groups: Index,
        firsts: Index,
        states: pa.Table,
        records: NDArray[np.int64],
    ) -> pa.Table:
        latest = np.zeros(len(firsts), np.int64)
        if self.expiry is not None and self.expiry.by_event_time:
            latest[:] = np.iinfo(np.int64).min
            np.maximum.at(latest, groups, self.expiry.times(rows, self.time))
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
