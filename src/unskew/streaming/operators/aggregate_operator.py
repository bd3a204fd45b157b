"""Aggregates per key, or per key and event-time window."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from unskew.streaming.operators.aggregates import AGGREGATES
from unskew.streaming.operators.aggregation import Aggregate, Aggregation
from unskew.streaming.operators.operator import (
    CHUNK_BYTES,
    CHUNK_ROWS,
    LATE,
    MOMENT,
    RECORDS,
    TIME,
    Clock,
    Expiry,
    Window,
    is_late,
    record_column,
    without_late,
)
from unskew.streaming.storage.columns import MAX_BYTES, Index, bounded_parts, one_array
from unskew.streaming.storage.key_groups import groups_of
from unskew.streaming.storage.layout import DEADLINE, HASH, WINDOW, Layout
from unskew.streaming.storage.schemas import pack_schema, unpack_schema
from unskew.streaming.storage.slot_state import SlotState


@dataclass(frozen=True)
class AggregateOperator:
    """Aggregates records per key, or per key and window.

    Without a window, or if `emit` is "changed", a batch emits every key (and window) it touched, with its new
    values. If `emit` is "closed", each window is emitted once, when the watermark passes its end, and dropped.
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
        """The columns it emits."""
        fields = list(self.key)
        if self.window:
            fields.append(pa.field(WINDOW, pa.struct([("start", self.moment), ("end", self.moment)])))
        return pa.schema([*fields, *self.aggregation.output_schema])

    def describe(self) -> dict[str, Any]:
        """What a checkpoint needs to know about it."""
        return {
            "kind": "aggregate",
            **self.layout.describe(),
            "aggregates": {
                name: {"aggregate": aggregate.name, **asdict(aggregate)}
                for name, aggregate in self.aggregation.aggregates.items()
            },
            "records": pack_schema(self.aggregation.schema),
            "window": None if self.window is None else asdict(self.window),
            "moment": pack_schema(pa.schema([pa.field(TIME, self.moment)])),
        }

    @classmethod
    def restore(cls, description: Mapping[str, Any]) -> AggregateOperator:
        """The operator that `describe` described, with all that reading its state needs."""
        layout = Layout.restore(description)
        aggregates = {name: _restore_aggregate(entry) for name, entry in description["aggregates"].items()}
        window = None if description["window"] is None else Window(**description["window"])
        aggregation = Aggregation(aggregates, unpack_schema(description["records"]))
        # checkpoints that were begun before it was stored show every window in UTC
        packed = description.get("moment")
        moment = MOMENT if packed is None else unpack_schema(packed).field(TIME).type
        return cls(layout.key, aggregation, window, moment=moment)

    def pack(self, rows: pa.Table, watermark: int | None = None) -> pa.Table:
        """Partial aggregates, one row per key (and window), and late records apart.

        Of more than MAX_BYTES in overlapping windows, a key and window may have several rows; the slots merge them.
        """
        parts = [self._pack_part(part, watermark) for part in self._parts_to_window(rows)]
        if len(parts) == 1:
            return parts[0]
        packed = pa.concat_tables(parts)
        if packed.nbytes > MAX_BYTES:
            return packed
        late = packed[TIME].to_numpy() == LATE
        combined = [self._combined(packed.filter(pa.array(mask))) for mask in (~late, late)]
        return pa.concat_tables(combined).combine_chunks()

    def _parts_to_window(self, rows: pa.Table) -> list[pa.Table]:
        """The records in parts that are no larger than what a task packs at a time, once for each of their windows."""
        if self.window is None or self.window.overlap == 1:
            return [rows]
        most_rows = max(CHUNK_ROWS // self.window.overlap, 1)
        most_bytes = CHUNK_BYTES // self.window.overlap
        parts = (rows.slice(start, most_rows) for start in range(0, max(len(rows), 1), most_rows))
        return [part for bounded in parts for part in bounded_parts(bounded, most_bytes)]

    def _combined(self, packed: pa.Table) -> pa.Table:
        """Packed rows with windows, all in time or all late, as one row per key and window."""
        groups, firsts = self._groups(packed)
        states = self._unprefixed(packed.select(self.layout.values))
        columns = _columns(packed.take(pa.array(firsts)))
        columns |= _columns(self._prefixed(self.aggregation.merge(states, groups, len(firsts))))
        records = np.bincount(groups, packed[RECORDS].to_numpy(), len(firsts))
        columns[RECORDS] = pa.array(records.astype(np.int64))
        return pa.table(columns, schema=self.payload)

    def _pack_part(self, rows: pa.Table, watermark: int | None) -> pa.Table:
        if self.window:
            rows = self._windowed(rows)
        late = self._late(rows, watermark)
        if late is None or not late.any():
            return self._packed(rows)
        late_rows = self._packed(rows.filter(pa.array(late)))
        times = pa.array(np.full(len(late_rows), LATE))
        late_rows = late_rows.set_column(late_rows.schema.get_field_index(TIME), TIME, times)
        return pa.concat_tables([self._packed(rows.filter(pa.array(~late))), late_rows]).combine_chunks()

    def _late(self, rows: pa.Table, watermark: int | None) -> NDArray[np.bool_] | None:
        """Which records are late, if event time ends their state: by the end of the window, else by their own time."""
        if watermark is None:
            return None
        if self.window:
            return is_late(pc.add(rows[WINDOW], self.window.size), watermark)
        if self.expiry is not None and self.expiry.by_event_time and self.time is not None:
            return is_late(rows[record_column(self.time)], watermark)
        return None

    def _packed(self, rows: pa.Table) -> pa.Table:
        groups, firsts = self._groups(rows)
        states = self.aggregation.partial(self._records(rows), groups, len(firsts))
        records = np.bincount(groups, self._counted(rows), len(firsts)).astype(np.int64)
        return self._payload(rows, groups, firsts, states, records)

    def _counted(self, rows: pa.Table) -> NDArray[np.bool_] | None:
        """Which rows count as a record; None for all. In overlapping windows, a record counts in its last one only.

        That window closes last, so a record counts as late only if all of its windows have passed.
        """
        if self.window is None or self.window.overlap == 1:
            return None
        assert self.time is not None
        moments = rows[record_column(self.time)].cast(pa.int64()).to_numpy()
        return np.asarray(moments < rows[WINDOW].to_numpy() + self.window.slide)

    def step(self, payload: pa.Table, state: SlotState, clock: Clock) -> tuple[pa.Table, int]:
        """Merge the partial aggregates into the state."""
        payload, late = without_late(payload)
        if self.expiry is not None:
            self.expiry.take_before_records(state, clock)
        changed = pa.concat_tables([self._merge(part, state, clock) for part in _parts(payload, state.size)])
        due = self.layout.schema.empty_table()
        if self.expiry is not None:
            self.expiry.take(state, clock)
        elif self.window and clock.watermark >= 0:
            due = state.due(clock.watermark)
            state.remove(due)
        return self.output_rows(due if self.window and self.emit == "closed" else changed), late

    def _merge(self, payload: pa.Table, state: SlotState, clock: Clock) -> pa.Table:
        """Merge the payload into the state; returns the new state rows of the keys it touches."""
        if not len(payload):
            return self.layout.schema.empty_table()
        groups, firsts = self._groups(payload)
        states = payload.select(self.layout.values)
        keys = payload
        if len(firsts) < len(payload):
            keys = payload.take(pa.array(firsts))
            states = self._prefixed(self.aggregation.merge(self._unprefixed(states), groups, len(firsts)))
        key_columns = {name: keys[name] for name in [HASH, *self.layout.key_columns]}
        rows = self.layout.rows({**key_columns, **_columns(states)}, len(keys))
        before, owners = state.look_up(rows)
        if len(before):
            old_states = self._unprefixed(before.select(self.layout.values))
            old_and_new = pa.concat_tables([old_states, self._unprefixed(states)])
            key_of_state = np.concatenate([owners, np.arange(len(keys))])
            states = self._prefixed(self.aggregation.merge(old_and_new, key_of_state, len(keys)))
        columns = {**key_columns, **_columns(states)}
        if self.layout.expires:
            columns[DEADLINE] = pa.array(self._deadlines(keys, payload, groups, before, owners, clock))
        rows = self.layout.rows(columns, len(keys))
        state.update(rows, before)
        return rows

    def _deadlines(
        self,
        keys: pa.Table,
        payload: pa.Table,
        groups: Index,
        before: pa.Table,
        owners: Index,
        clock: Clock,
    ) -> NDArray[np.int64]:
        if self.window:
            # in milliseconds, rounded up: a window ends when the watermark has reached all of it
            ends: NDArray[np.int64] = -(-(keys[WINDOW].to_numpy() + self.window.size) // 1000)
            return ends
        assert self.expiry is not None
        return self.expiry.deadlines(payload, groups, len(keys), before, owners, clock)

    def output_rows(self, rows: pa.Table) -> pa.Table:
        """State rows as the user sees them."""
        parts = bounded_parts(rows)
        if len(parts) > 1:
            return pa.concat_tables([self.output_rows(part) for part in parts])
        columns = [one_array(rows[f"key.{i}"]) for i in range(len(self.key))]
        if self.window:
            starts = rows[WINDOW].to_numpy()
            moments = [pa.array(m, self.moment) for m in (starts, starts + self.window.size)]
            columns.append(pa.StructArray.from_arrays(moments, ["start", "end"]))
        columns += self.aggregation.final(self._unprefixed(rows.select(self.layout.values))).columns
        return pa.table(columns, schema=self.output)

    def _windowed(self, rows: pa.Table) -> pa.Table:
        assert self.window is not None
        assert self.time is not None
        moments = rows[record_column(self.time)].cast(pa.int64())
        if moments.null_count:
            rows, moments = rows.filter(moments.is_valid()), moments.drop_null()
        row_numbers, starts = self.window.assign(moments.to_numpy())
        return rows.take(pa.array(row_numbers)).append_column(WINDOW, pa.array(starts))

    def _records(self, rows: pa.Table) -> pa.Table:
        """The columns that the aggregates read, by their own names."""
        inputs = list(self.aggregation.inputs)
        columns = [record_column(name) for name in inputs]
        return rows if columns == inputs else rows.select(columns).rename_columns(inputs)

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
        first = rows.select([HASH, *self.layout.key_columns]).take(pa.array(firsts))
        columns = {name: one_array(first[name]) for name in first.column_names}
        columns |= _columns(self._prefixed(states))
        columns |= {TIME: pa.array(latest), RECORDS: pa.array(records)}
        return pa.table([columns[f.name] for f in self.payload], schema=self.payload)

    def _groups(self, rows: pa.Table) -> tuple[Index, Index]:
        return groups_of(self.layout.ids(rows), self.layout.keys_of(rows))

    def _unprefixed(self, states: pa.Table) -> pa.Table:
        return states.rename_columns(self.aggregation.state_schema.names)

    def _prefixed(self, states: pa.Table) -> pa.Table:
        return states.rename_columns(self.layout.values)


def _parts(payload: pa.Table, state_bytes: int) -> list[pa.Table]:
    """The payload cut by key, so that no column of a part and its state outgrows Arrow's offsets."""
    count = (payload.nbytes + state_bytes) // MAX_BYTES + 1
    if count == 1 or not len(payload):
        return [payload]
    number = payload[HASH].to_numpy().view(np.uint64) % np.uint64(2 * count)
    return [payload.filter(pa.array(number == i)) for i in range(2 * count)]


def _columns(table: pa.Table) -> dict[str, pa.ChunkedArray]:
    return dict(zip(table.column_names, table.columns, strict=True))


def _restore_aggregate(description: Mapping[str, Any]) -> Aggregate:
    options = dict(description)
    name = options.pop("aggregate")
    if name not in AGGREGATES:
        raise ValueError(
            f"the checkpoint uses the aggregate {name!r}, which this version of unskew does not have: upgrade unskew"
        )
    return AGGREGATES[name](**options)
