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
from unskew.streaming.operators.operator import RECORDS, TIME, Clock, Expiry
from unskew.streaming.storage.key_groups import Index, groups_of
from unskew.streaming.storage.slot_state import DEADLINE, HASH, Layout, SlotState, one_piece

_WHOLE = {
    pa.int8(): pd.Int8Dtype(),
    pa.int16(): pd.Int16Dtype(),
    pa.int32(): pd.Int32Dtype(),
    pa.int64(): pd.Int64Dtype(),
    pa.bool_(): pd.BooleanDtype(),
}
"""Types that plain pandas would turn into floats or objects where a value is missing."""


class UpdateError(RuntimeError):
    """The user's function failed, or returned something else than its contract says; names the key where it can."""


@dataclass(frozen=True)
class UpdateOperator:
    """Keeps per key what a function makes of it; the contract is that of `Stream.update` and `update_each`."""

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
        """The columns that travel to the slots: all."""
        fields = [pa.field(HASH, pa.int64())]
        fields += [pa.field(f"key.{i}", f.type) for i, f in enumerate(self.key)]
        fields += [pa.field(f"in.{f.name}", f.type) for f in self.records]
        return pa.schema([*fields, pa.field(TIME, pa.int64()), pa.field(RECORDS, pa.int64())])

    def describe(self) -> dict[str, Any]:
        """What a checkpoint must know of it; the function itself may change between runs."""
        return {"kind": "update", **self.layout.describe()}

    def pack(self, rows: pa.Table) -> pa.Table:
        """The records as they are."""
        ones = pa.array(np.ones(len(rows), np.int64))
        columns = [rows[HASH], *(rows[f"key.{i}"] for i in range(len(self.key)))]
        columns += [rows[f.name] for f in self.records]
        times = np.zeros(len(rows), np.int64) if self.expiry is None else self.expiry.times(rows, self.time)
        return pa.table([*columns, pa.array(times), ones], schema=self.payload)

    def step(self, payload: pa.Table, state: SlotState, clock: Clock) -> tuple[pa.Table, int]:
        """Call the function, keep the states it returns, emit what it emits."""
        outs = [self._expire(state, clock)]  # before its next record, which begins anew
        if len(payload):
            outs.append(self._handle(payload, state, clock))
            outs.append(self._expire(state, clock))
        return pa.concat_tables(outs), 0

    def _expire(self, state: SlotState, clock: Clock) -> pa.Table:
        if self.expiry is None:
            return self.output.empty_table()
        due = self.expiry.take(state, clock)
        if self.expired is None or not len(due):
            return self.output.empty_table()
        return self._checked(self.expired(self._states(due)), "expired")

    def _handle(self, payload: pa.Table, state: SlotState, clock: Clock) -> pa.Table:
        keys = [one_piece(payload[f"key.{i}"]) for i in range(len(self.key))]
        groups, firsts = groups_of(payload[HASH].to_numpy(), keys)
        first = payload.select([HASH, *self.layout.key_columns]).take(pa.array(firsts))
        asked = self.layout.rows({n: first[n] for n in first.column_names}, len(firsts))
        before, owners = state.look_up(asked)
        place = np.full(len(firsts), -1, np.int64)
        place[owners] = np.arange(len(before))
        known = before.select(self.layout.values).take(pa.array(place, mask=place < 0))
        columns = {n: asked[n] for n in [HASH, *self.layout.key_columns]}
        values = dict(zip(known.column_names, known.columns, strict=True))
        states = self.layout.rows({**columns, **values}, len(firsts))
        rows = _frame(
            payload.select([f"in.{n}" for n in self.records.names]).rename_columns(self.records.names)
        )
        rows.index = pd.Index(groups)
        out, made, kept = self._each(rows, states, place >= 0) if self.each else self._called(rows, states)
        columns = {n: asked[n].take(pa.array(kept)) for n in columns}
        columns |= dict(zip(self.layout.values, made.columns, strict=True))
        if self.expiry is not None:
            deadlines = self.expiry.deadlines(payload, groups, len(firsts), before, owners, clock)
            columns[DEADLINE] = pa.array(deadlines[kept])
        dropped = np.ones(len(firsts), np.bool_)
        dropped[kept] = False
        gone = pa.array(dropped[owners])
        state.update(self.layout.rows(columns, len(kept)), before.filter(pc.invert(gone)))
        state.remove(before.filter(gone))
        return out

    def _called(self, rows: pd.DataFrame, known: pa.Table) -> tuple[pa.Table, pa.Table, Index]:
        """What the function emits, the states it returns, and which of the keys these belong to."""
        states = self._states(known)
        try:
            result = self.fn(rows, states.copy())
        except Exception as error:
            raise UpdateError(f"{self._culprit(rows, states)}: {error!r}") from error
        if not isinstance(result, tuple) or len(result) != 2 or not isinstance(result[1], pd.DataFrame):
            raise UpdateError(f"the function must return (out, states), not {type(result).__name__}")
        out, new = result
        if not new.index.is_unique or not new.index.isin(states.index).all():
            raise UpdateError(
                "the states that the function returned have other rows than those it was given: keep their index"
            )
        return self._checked(out, "out"), _table(new, self.state, "states"), new.index.to_numpy(np.int64)

    def _each(
        self, rows: pd.DataFrame, known: pa.Table, seen: np.ndarray[Any, Any]
    ) -> tuple[pa.Table, pa.Table, Index]:
        """The same, key by key; `seen` says which keys have a state."""
        keys = list(zip(*(known[name].to_pylist() for name in self.layout.key_columns), strict=True))
        before = known.select(self.layout.values).rename_columns(self.state.names).to_pylist()
        outs, new, kept = [], [], []
        order = np.argsort(rows.index.to_numpy(), kind="stable")
        ordered, place = rows.iloc[order], rows.index.to_numpy()[order]
        starts = np.searchsorted(place, np.arange(len(keys) + 1))
        for i, key in enumerate(keys):
            own = ordered.iloc[starts[i] : starts[i + 1]].reset_index(drop=True)
            try:
                out, after = self.fn(key, own, before[i] if seen[i] else None)
                if out is not None:
                    outs.append(self._checked(out, "out"))
            except Exception as error:
                raise UpdateError(f"the function failed on key {_shown(key)}: {error!r}") from error
            if after is not None:
                new.append(after)
                kept.append(i)
        out = pa.concat_tables(outs) if outs else self.output.empty_table()
        return out, _listed(new, self.state, "states"), np.array(kept, np.int64)

    def _culprit(self, rows: pd.DataFrame, states: pd.DataFrame) -> str:
        """Which key makes the function fail: the keys are halved until one alone does."""
        left = np.arange(len(states))
        while len(left) > 1:
            half = left[: len(left) // 2]
            for part in (half, left[len(half) :]):
                chosen = rows[rows.index.isin(part)]
                own = states.iloc[part].reset_index(drop=True)
                own_rows = chosen.set_axis(pd.Index(np.searchsorted(part, chosen.index.to_numpy())))
                try:
                    self.fn(own_rows, own)
                except Exception:  # noqa: BLE001 whatever it is, it is why we are here
                    left = part
                    break
            else:
                return "the function failed on the keys of a slot, though on no half of them alone"
        key = tuple(states.iloc[left[0]][list(self.key.names)])
        return f"the function failed on key {_shown(key)}"

    def _states(self, rows: pa.Table) -> pd.DataFrame:
        chosen = rows.select([*self.layout.key_columns, *self.layout.values])
        named = chosen.rename_columns([*self.key.names, *self.state.names])
        return frame_of(named, _WHOLE.get)

    def _checked(self, out: Any, what: str) -> pa.Table:
        if isinstance(out, dict):
            out = [out]
        if out is None:
            return self.output.empty_table()
        if isinstance(out, list):
            return _listed(out, self.output, what)
        return _table(out, self.output, what)


def _frame(table: pa.Table) -> pd.DataFrame:
    """As pandas, whole numbers as such also where some are missing."""
    whole = {t: dtype for t, dtype in _WHOLE.items() if _has_nulls(table, t)}
    return frame_of(table, whole.get)


def _has_nulls(table: pa.Table, t: pa.DataType) -> bool:
    return any(c.null_count for c in table.columns if c.type == t)


def _table(frame: Any, schema: pa.Schema, what: str) -> pa.Table:
    if not isinstance(frame, pd.DataFrame):
        raise UpdateError(f"{what} must be a pandas DataFrame, not {type(frame).__name__}")
    missing = [n for n in schema.names if n not in frame.columns]
    if missing:
        raise UpdateError(
            f"{what} has no column {missing[0]!r}: it has {', '.join(map(str, frame.columns)) or 'none'}"
        )
    try:
        return pa.Table.from_pandas(frame[schema.names], schema=schema, preserve_index=False)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise UpdateError(f"{what} does not fit its schema: {error}") from error


def _listed(rows: list[Any], schema: pa.Schema, what: str) -> pa.Table:
    wrong = next((row for row in rows if not isinstance(row, dict)), None)
    if wrong is not None:
        raise UpdateError(f"{what} must be dicts, not {type(wrong).__name__}")
    try:
        columns = [_column([row.get(f.name) for row in rows], f.type) for f in schema]
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        raise UpdateError(f"{what} do not fit their schema: {error}") from error
    return pa.table(columns, schema=schema)


def _column(values: list[Any], t: pa.DataType) -> pa.Array:
    """What pandas has for a missing value is null, but NaN among floats is a number of its own."""
    if pa.types.is_floating(t):
        return pa.array([None if value is pd.NA else value for value in values], t)
    return pa.array(values, t, from_pandas=True)


def _shown(key: tuple[Any, ...]) -> str:
    text = repr(key[0] if len(key) == 1 else key)
    return text if len(text) <= 200 else text[:200] + "…"
