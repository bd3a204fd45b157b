"""The state of one slot: immutable sorted runs, newest last, as in a log-structured merge tree."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import xxhash

from unskew.core.hashing import Hashes, buckets_of
from unskew.core.routing import RoutingTable
from unskew.streaming.storage.key_groups import Index, Mask, find, groups_of, mixed
from unskew.streaming.storage.schemas import pack_schema, unpack_schema

ID, HASH, LIVE, WINDOW, DEADLINE = "id", "hash", "live", "window", "deadline"

PIECE = 4 << 20
"""Bytes of one value in Spark's state store; a longer run is kept in pieces."""

_LZ4 = pa.ipc.IpcWriteOptions(compression="lz4")


@dataclass(frozen=True)
class Layout:
    """The columns of a state row: its key, its window if it has one, what the operator keeps, when it expires.

    `deadline` is in milliseconds, of the watermark or of the clock, whichever the operator goes by.
    """

    key: pa.Schema
    state: pa.Schema
    windowed: bool = False
    expires: bool = False

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of a run."""
        fields = [pa.field(ID, pa.int64()), pa.field(HASH, pa.int64()), pa.field(LIVE, pa.bool_())]
        fields += [pa.field(f"key.{i}", f.type) for i, f in enumerate(self.key)]
        if self.windowed:
            fields.append(pa.field(WINDOW, pa.int64()))
        fields += [pa.field(f"state.{f.name}", f.type) for f in self.state]
        if self.expires:
            fields.append(pa.field(DEADLINE, pa.int64()))
        return pa.schema(fields)

    @property
    def key_columns(self) -> list[str]:
        """The columns that tell rows apart: the key's, and the window."""
        return [f"key.{i}" for i in range(len(self.key))] + ([WINDOW] if self.windowed else [])

    def describe(self) -> dict[str, Any]:
        """The layout as a checkpoint holds it."""
        return {
            "schemas": {"key": pack_schema(self.key), "state": pack_schema(self.state)},
            "windowed": self.windowed,
            "expires": self.expires,
        }

    @classmethod
    def restore(cls, description: Mapping[str, Any]) -> Layout:
        """The layout that `describe` described."""
        key, state = (unpack_schema(description["schemas"][name]) for name in ("key", "state"))
        return cls(key, state, description["windowed"], description["expires"])

    @property
    def values(self) -> list[str]:
        """The columns that the operator keeps."""
        return [f"state.{f.name}" for f in self.state]

    def ids(self, rows: pa.Table) -> Hashes:
        """The number that rows are sorted and looked up by."""
        hashes: Hashes = rows[HASH].to_numpy()
        return mixed(hashes, rows[WINDOW].to_numpy()) if self.windowed else hashes

    def rows(self, columns: dict[str, Any], size: int) -> pa.Table:
        """Live rows from their columns; columns that are not given are null."""
        table = {name: columns.get(name, pa.nulls(size, t)) for name, t in _types(self.schema)}
        table[LIVE] = pa.array(np.ones(size, np.bool_))
        table[ID] = pa.array(self.ids(pa.table({n: table[n] for n in [HASH, WINDOW] if n in table})))
        return pa.table(table, schema=self.schema)

    def keys_of(self, rows: pa.Table) -> list[pa.Array]:
        """The columns that tell rows apart, in one piece each."""
        return [one_piece(rows[name]) for name in self.key_columns]


class Store(Protocol):
    """What Spark's state store offers for one slot: a small description and pieces by name."""

    def describe(self) -> tuple[str, bytes] | None:
        """What `note` last kept."""

    def note(self, text: str, counts: bytes) -> None:
        """Keep the description."""

    def get(self, piece: str) -> bytes:
        """A piece."""

    def put(self, piece: str, data: bytes) -> None:
        """Keep a piece."""

    def remove(self, piece: str) -> None:
        """Forget a piece."""


class Cache(Protocol):
    """Runs on the local disk, so that they need not be read from the state store again."""

    def get(self, run: str) -> pa.Table | None:
        """The run, if it is here."""

    def put(self, run: str, table: pa.Table) -> None:
        """Keep a run."""

    def remove(self, run: str) -> None:
        """Forget a run."""


@dataclass(eq=False)
class _Run:
    table: pa.Table
    layout: Layout
    name: str | None = None  # None: not in the store yet
    pieces: int = 0

    @cached_property
    def ids(self) -> Hashes:
        return np.ascontiguousarray(self.table[ID].to_numpy())

    @cached_property
    def keys(self) -> list[pa.Array]:
        return self.layout.keys_of(self.table)

    def find(self, ids: Hashes, keys: Sequence[pa.Array]) -> Index:
        return find(self.ids, self.keys, ids, keys)

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(eq=False)
class SlotState:
    """The state rows of one slot.

    Guards: a row is found in the newest run that has its key, and nowhere else. Runs never change; a change
    is a newer run, a removal is a row that is not live. The newest runs are merged so that each is at least
    twice as long as the next: a row is written again about log(n) times, and a look-up asks few runs.
    """

    layout: Layout
    buckets: int
    applied: int | None = None
    state_rows: Index = field(default_factory=lambda: np.zeros(0, np.int64))
    _runs: list[_Run] = field(default_factory=list)
    _gone: list[_Run] = field(default_factory=list)

    @classmethod
    def load(cls, layout: Layout, buckets: int, store: Store, cache: Cache) -> SlotState:
        """The state that `save` kept."""
        described = store.describe()
        if described is None:
            return cls(layout, buckets, None, np.zeros(buckets, np.int64))
        about = json.loads(described[0])
        counts = np.frombuffer(described[1], np.int64).copy()
        runs = []
        for name, pieces in about["runs"]:
            table = cache.get(name)
            if table is None:
                table = decoded(b"".join(store.get(f"{name}/{i}") for i in range(pieces)))
                cache.put(name, table)
            runs.append(_Run(table, layout, name, pieces))
        return cls(layout, buckets, about["applied"], counts, runs)

    def save(self, store: Store, cache: Cache) -> int:
        """Keep what changed; returns the bytes written."""
        self._merge()
        written = 0
        for run in self._runs:
            if run.name is None:
                data = encoded(run.table)
                # by content, so that all attempts of a batch store the same, as Spark's state store expects; with
                # the batch, so that a name that is removed is never put again
                run.name = f"{self.applied}-{xxhash.xxh3_128_hexdigest(data)}"
                run.pieces = -(-len(data) // PIECE)
                for i in range(run.pieces):
                    store.put(f"{run.name}/{i}", data[i * PIECE : (i + 1) * PIECE])
                cache.put(run.name, run.table)
                written += len(data)
        for run in self._gone:
            if run.name is not None:
                for i in range(run.pieces):
                    store.remove(f"{run.name}/{i}")
                cache.remove(run.name)
        self._gone = []
        about = {"applied": self.applied, "runs": [(run.name, run.pieces) for run in self._runs]}
        store.note(json.dumps(about), self.state_rows.tobytes())
        return written

    def look_up(self, rows: pa.Table) -> tuple[pa.Table, Index]:
        """The live state rows of the keys in `rows`, and which of `rows` each belongs to."""
        ids, keys = np.ascontiguousarray(rows[ID].to_numpy()), self.layout.keys_of(rows)
        left = np.argsort(ids, kind="stable")  # as the runs are: random look-ups would miss the CPU's cache
        tables, owners = [], []
        for run in reversed(self._runs):
            if not len(left):
                break
            chosen = pa.array(left)
            at = run.find(ids[left], [column.take(chosen) for column in keys])
            here = at >= 0
            tables.append(run.table.take(pa.array(at[here])))
            owners.append(left[here])
            left = left[~here]
        if not tables:
            return self.layout.schema.empty_table(), np.zeros(0, np.int64)
        found, owner = pa.concat_tables(tables), np.concatenate(owners)
        live = _flags(found[LIVE])
        return (found, owner) if live.all() else (found.filter(pa.array(live)), owner[live])

    def update(self, rows: pa.Table, before: pa.Table | None = None) -> None:
        """Put rows in force, one a key. `before`: the live rows of these keys, if the caller looked them up."""
        if not len(rows):
            return
        self._count(rows, +1)
        self._count(self.look_up(rows)[0] if before is None else before, -1)
        self._runs.append(self._sorted(rows))

    def remove(self, rows: pa.Table) -> None:
        """Forget these live rows."""
        if len(rows):
            self._count(rows, -1)
            dead = rows.set_column(
                rows.schema.get_field_index(LIVE), LIVE, pa.array(np.zeros(len(rows), np.bool_))
            )
            self._runs.append(self._sorted(self._emptied(dead)))

    def leaving(self, target: RoutingTable, slot: int) -> dict[int, pa.Table]:
        """The live rows whose slot under `target` is another one, by that slot."""
        rows = self._current(lambda run: target.slot_of_hashes(run.table[HASH].to_numpy()) != slot)
        slots = target.slot_of_hashes(rows[HASH].to_numpy())
        return {int(to): rows.filter(pa.array(slots == to)) for to in np.unique(slots)}

    def due(self, moment: int) -> pa.Table:
        """The live rows whose deadline has come."""
        return self._current(lambda run: run.table[DEADLINE].to_numpy(zero_copy_only=False) <= moment)

    def everything(self) -> pa.Table:
        """All live rows."""
        return self._current(lambda run: np.ones(len(run), np.bool_))

    def __len__(self) -> int:
        return int(self.state_rows.sum())

    @property
    def size(self) -> int:
        """Bytes of all runs in memory."""
        return sum(run.table.nbytes for run in self._runs)

    def _current(self, wanted: Callable[[_Run], Mask]) -> pa.Table:
        """The live rows that are wanted, unless a newer run has their key."""
        tables = []
        for depth, run in enumerate(self._runs):
            mask = wanted(run)
            if not mask.any():
                continue
            at = np.flatnonzero(mask & _flags(run.table[LIVE]))
            for newer in self._runs[depth + 1 :]:
                if len(at) < 8 * len(newer):
                    chosen = pa.array(at)
                    at = at[newer.find(run.ids[at], [column.take(chosen) for column in run.keys]) < 0]
                else:  # cheaper the other way round
                    stale = run.find(newer.ids, newer.keys)
                    at = at[~np.isin(at, stale[stale >= 0])]
            tables.append(run.table.take(pa.array(at)))
        return pa.concat_tables(tables) if tables else self.layout.schema.empty_table()

    def _count(self, rows: pa.Table, sign: int) -> None:
        homes = buckets_of(rows[HASH].to_numpy(), self.buckets)
        self.state_rows += sign * np.bincount(homes, minlength=self.buckets)

    def _sorted(self, rows: pa.Table) -> _Run:
        order = np.argsort(rows[ID].to_numpy(), kind="stable")
        return _Run(rows.take(pa.array(order)).combine_chunks(), self.layout)

    def _emptied(self, rows: pa.Table) -> pa.Table:
        """Only what tells rows apart: a dead row needs no values."""
        kept = {ID, HASH, LIVE, *self.layout.key_columns}
        columns = {n: rows[n] if n in kept else pa.nulls(len(rows), t) for n, t in _types(self.layout.schema)}
        return pa.table(columns, schema=self.layout.schema)

    def _merge(self) -> None:
        """One run out of all that came since the last save and of every older one that is not much longer."""
        start, length = len(self._runs), 0
        while start and (self._runs[start - 1].name is None or len(self._runs[start - 1]) <= 2 * length):
            start -= 1
            length += len(self._runs[start])
        several = self._runs[start:]
        if len(several) < 2:
            return
        rows = pa.concat_tables([run.table for run in reversed(several)])
        ids = np.concatenate([run.ids for run in reversed(several)])
        order = np.argsort(ids, kind="stable")  # so the newest row of an id comes first
        keep = _newest(ids[order], rows, order, self.layout)
        if start == 0:
            keep &= _flags(rows[LIVE])[order]  # nothing older is left that a dead row would hide
        self._gone += several
        self._runs[start:] = [_Run(rows.take(pa.array(order[keep])).combine_chunks(), self.layout)]


def encoded(table: pa.Table) -> bytes:
    """The rows as bytes for the state store or a shuffle."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=_LZ4) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def decoded(data: bytes) -> pa.Table:
    """What `encoded` wrote."""
    with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
        return reader.read_all()


def one_piece(column: pa.ChunkedArray) -> pa.Array:
    """The column as one array."""
    if column.num_chunks == 1:
        return column.chunk(0)
    combined = column.combine_chunks()
    return combined if isinstance(combined, pa.Array) else pa.concat_arrays(combined.chunks)


def _newest(ids: Hashes, rows: pa.Table, order: Index, layout: Layout) -> Mask:
    """Which of the rows, taken in `order`, is the first of its key; `ids` are theirs in that order."""
    again = np.zeros(len(ids), np.bool_)
    again[1:] = ids[1:] == ids[:-1]
    keep = ~again
    shared = again.copy()
    shared[:-1] |= again[1:]
    at = np.flatnonzero(shared)
    if len(at):
        asked = rows.select([ID, *layout.key_columns]).take(pa.array(order[at]))
        keep[at[groups_of(ids[at], layout.keys_of(asked))[1]]] = True
    return keep


def _flags(column: pa.ChunkedArray) -> Mask:
    flags: Mask = column.to_numpy()
    return flags.astype(np.bool_, copy=False)


def _types(schema: pa.Schema) -> list[tuple[str, pa.DataType]]:
    return [(f.name, f.type) for f in schema]
