"""A user's own function as the operator: over all keys of a slot at once, or key by key."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from unskew.streaming.operators.frames import frame_of
from unskew.streaming.operators.operator import (
    LATE,
    RECORDS,
    TIME,
    Clock,
    Expiry,
    is_late,
    record_column,
    without_late,
)
from unskew.streaming.operators.returned_rows import (
    UpdateError,
    shortened,
    table_of_dicts,
    table_of_frame,
)
from unskew.streaming.storage.columns import Index, Mask, one_array, take_rows
from unskew.streaming.storage.key_groups import groups_of
from unskew.streaming.storage.layout import DEADLINE, HASH, Layout
from unskew.streaming.storage.slot_state import SlotState

_NULLABLE = {
    pa.int8(): pd.Int8Dtype(),
    pa.int16(): pd.Int16Dtype(),
    pa.int32(): pd.Int32Dtype(),
    pa.int64(): pd.Int64Dtype(),
    pa.bool_(): pd.BooleanDtype(),
}
"""Types that plain pandas would turn into floats or objects if a value is missing."""


@dataclass(frozen=True)
class UpdateOperator:
    """Keeps the state per key that a user's function returns; the contract is in `Stream.update` and `update_each`."""

    key: pa.Schema
    state: pa.Schema
    output: pa.Schema
    fn: Callable[..., Any]
    each: bool
    time: str | None
    expiry: Expiry | None
    expired: Callable[..., Any] | None
    records: pa.Schema

    @cached_property
    def layout(self) -> Layout:
        """The columns of its state."""
        return Layout(self.key, self.state, expires=self.expiry is not None)

    @cached_property
    def payload(self) -> pa.Schema:
        """The columns that travel to the slots: all of them."""
        fields = [pa.field(HASH, pa.int64())]
        fields += [pa.field(f"key.{i}", f.type) for i, f in enumerate(self.key)]
        fields += [pa.field(f"in.{f.name}", f.type) for f in self.records]
        return pa.schema([*fields, pa.field(TIME, pa.int64()), pa.field(RECORDS, pa.int64())])

    def describe(self) -> dict[str, Any]:
        """What a checkpoint needs to know about it; the function itself may change between runs."""
        return {"kind": "update", **self.layout.describe()}

    def pack(self, rows: pa.Table, watermark: int | None = None) -> pa.Table:
        """The records as they are; late ones are marked."""
        ones = pa.array(np.ones(len(rows), np.int64))
        columns = [rows[HASH], *(rows[f"key.{i}"] for i in range(len(self.key)))]
        columns += [rows[record_column(f.name)] for f in self.records]
        times = np.zeros(len(rows), np.int64) if self.expiry is None else self.expiry.times(rows, self.time)
        if self.expiry is not None and self.expiry.by_event_time and watermark is not None:
            assert self.time is not None
            times = np.where(is_late(rows[record_column(self.time)], watermark), LATE, times)
        return pa.table([*columns, pa.array(times), ones], schema=self.payload)

    def step(self, payload: pa.Table, state: SlotState, clock: Clock) -> tuple[pa.Table, int]:
        """Call the function, store the states it returns, emit what it emits."""
        payload, late = without_late(payload)
        outs = [self.output.empty_table()]
        if self.expiry is not None:
            outs.append(self._expired_rows(self.expiry.take_before_records(state, clock)))
        if len(payload):
            outs.append(self._handle(payload, state, clock))
        if self.expiry is not None:
            outs.append(self._expired_rows(self.expiry.take(state, clock)))
        return pa.concat_tables(outs), late

    def _expired_rows(self, due: pa.Table) -> pa.Table:
        """What the user's function emits for states that have expired."""
        if self.expired is None or not len(due):
            return self.output.empty_table()
        return self._checked(self.expired(self._states(due)), "expired")

    def _handle(self, payload: pa.Table, state: SlotState, clock: Clock) -> pa.Table:
        """Call the function on the payload's keys; keys are numbered as `groups_of` numbers them."""
        keys = [one_array(payload[f"key.{i}"]) for i in range(len(self.key))]
        groups, firsts = groups_of(payload[HASH].to_numpy(), keys)
        first_rows = payload.select([HASH, *self.layout.key_columns]).take(pa.array(firsts))
        key_columns = {name: first_rows[name] for name in first_rows.column_names}
        key_rows = self.layout.rows(key_columns, len(firsts))
        before, owners = state.look_up(key_rows)
        states, has_state = self._states_before(key_rows, before, owners)
        records = payload.select([f"in.{n}" for n in self.records.names]).rename_columns(self.records.names)
        rows = _frame(records)
        rows.index = pd.Index(groups)
        if self.each:
            out, new_states, stateful = self._call_each(rows, states, has_state)
        else:
            out, new_states, stateful = self._call(rows, states)
        columns = {name: key_rows[name].take(pa.array(stateful)) for name in key_columns}
        columns |= dict(zip(self.layout.values, new_states.columns, strict=True))
        if self.expiry is not None:
            deadlines = self.expiry.deadlines(payload, groups, len(firsts), before, owners, clock)
            columns[DEADLINE] = pa.array(deadlines[stateful])
        stateless = np.ones(len(firsts), np.bool_)
        stateless[stateful] = False
        dropped = pa.array(stateless[owners])
        state.update(self.layout.rows(columns, len(stateful)), before.filter(pc.invert(dropped)))
        state.remove(before.filter(dropped))
        return out

    def _states_before(self, key_rows: pa.Table, before: pa.Table, owners: Index) -> tuple[pa.Table, Mask]:
        """One row per key with its state before the batch, or nulls; and which keys have a state."""
        places = np.full(len(key_rows), -1, np.int64)
        places[owners] = np.arange(len(before))
        # a row of nulls at the end, for the keys without a state
        values = before.select(self.layout.values)
        nulls = pa.table([pa.nulls(1, f.type) for f in values.schema], schema=values.schema)
        values = take_rows(pa.concat_tables([values, nulls]), np.where(places < 0, len(before), places))
        columns = {name: key_rows[name] for name in [HASH, *self.layout.key_columns]}
        columns |= dict(zip(values.column_names, values.columns, strict=True))
        return self.layout.rows(columns, len(key_rows)), places >= 0

    def _call(self, rows: pd.DataFrame, states_before: pa.Table) -> tuple[pa.Table, pa.Table, Index]:
        """What the function emits, the states it returns, and the numbers of the keys that these belong to."""
        states = self._states(states_before)
        try:
            result = self.fn(rows, states.copy())
        except Exception as error:
            raise UpdateError(f"{self._culprit(rows, states)}: {error!r}") from error
        if not isinstance(result, tuple) or len(result) != 2 or not isinstance(result[1], pd.DataFrame):
            raise UpdateError(f"the function must return (out, states), not {type(result).__name__}")
        out, new_states = result
        if not new_states.index.is_unique or not new_states.index.isin(states.index).all():
            raise UpdateError(
                "the states that the function returned have other rows than those it was given: keep their index"
            )
        key_numbers = new_states.index.to_numpy(np.int64)
        keys = states.loc[key_numbers, list(self.key.names)]
        new_rows = table_of_frame(
            new_states, self.state, "states", self.key.names, lambda i: f"key {_printed(tuple(keys.iloc[i]))}"
        )
        return self._checked(out, "out"), new_rows, key_numbers

    def _call_each(
        self, rows: pd.DataFrame, states_before: pa.Table, has_state: Mask
    ) -> tuple[pa.Table, pa.Table, Index]:
        """The same, key by key."""
        keys = list(zip(*(states_before[name].to_pylist() for name in self.layout.key_columns), strict=True))
        values = states_before.select(self.layout.values).rename_columns(self.state.names).to_pylist()
        outs, new_states, key_numbers = [], [], []
        order = np.argsort(rows.index.to_numpy(), kind="stable")
        sorted_rows, sorted_numbers = rows.iloc[order], rows.index.to_numpy()[order]
        starts = np.searchsorted(sorted_numbers, np.arange(len(keys) + 1))
        for i, key in enumerate(keys):
            key_rows = sorted_rows.iloc[starts[i] : starts[i + 1]].reset_index(drop=True)
            try:
                out, new_state = self.fn(key, key_rows, values[i] if has_state[i] else None)
                if out is not None:
                    outs.append(self._checked(out, "out"))
            except Exception as error:
                raise UpdateError(f"the function failed on key {_printed(key)}: {error!r}") from error
            if new_state is not None:
                new_states.append(new_state)
                key_numbers.append(i)
        out = pa.concat_tables(outs) if outs else self.output.empty_table()
        new_rows = table_of_dicts(
            new_states, self.state, "states", lambda i: f"key {_printed(keys[key_numbers[i]])}"
        )
        return out, new_rows, np.array(key_numbers, np.int64)

    def _culprit(self, rows: pd.DataFrame, states: pd.DataFrame) -> str:
        """Which key makes the function fail: the keys are halved until the function fails on a single key."""
        suspects = np.arange(len(states))
        while len(suspects) > 1:
            middle = len(suspects) // 2
            for half in (suspects[:middle], suspects[middle:]):
                half_rows = rows[rows.index.isin(half)]
                renumbered = half_rows.set_axis(pd.Index(np.searchsorted(half, half_rows.index.to_numpy())))
                try:
                    self.fn(renumbered, states.iloc[half].reset_index(drop=True))
                except Exception:  # noqa: BLE001 the user's function may raise anything
                    suspects = half
                    break
            else:
                return "the function failed on the keys of a slot, but not on either half of them alone"
        key = tuple(states.iloc[suspects[0]][list(self.key.names)])
        return f"the function failed on key {_printed(key)}"

    def _states(self, rows: pa.Table) -> pd.DataFrame:
        columns = rows.select([*self.layout.key_columns, *self.layout.values])
        return frame_of(columns.rename_columns([*self.key.names, *self.state.names]), _NULLABLE.get)

    def _checked(self, out: Any, what: str) -> pa.Table:
        if isinstance(out, dict):
            out = [out]
        if out is None:
            return self.output.empty_table()
        if isinstance(out, list):
            return table_of_dicts(out, self.output, what)
        return table_of_frame(out, self.output, what)


def _frame(table: pa.Table) -> pd.DataFrame:
    """The table as pandas; whole numbers stay whole even if some are missing."""
    dtypes = {t: dtype for t, dtype in _NULLABLE.items() if _has_nulls(table, t)}
    return frame_of(table, dtypes.get)


def _has_nulls(table: pa.Table, t: pa.DataType) -> bool:
    return any(c.null_count for c in table.columns if c.type == t)


def _printed(key: tuple[Any, ...]) -> str:
    return shortened(repr(key[0] if len(key) == 1 else key))
