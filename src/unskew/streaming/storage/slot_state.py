"""The state of one slot: immutable sorted runs, newest last, as in a log-structured merge tree."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import numpy as np
import pyarrow as pa
import xxhash

from unskew.core.hashing import Hashes, buckets_of
from unskew.core.routing import RoutingTable
from unskew.streaming.storage.columns import Index, Mask, mask_of, take_rows
from unskew.streaming.storage.formats import COMPACT, FORMAT
from unskew.streaming.storage.key_groups import find_rows, groups_of
from unskew.streaming.storage.layout import DEADLINE, HASH, ID, LIVE, Layout, types_of
from unskew.streaming.storage.run_codec import decoded_counts, decoded_run, encoded_counts, encoded_run

PIECE = 4 << 20
"""Bytes of one value in Spark's state store; a longer run is stored in pieces."""


class Store(Protocol):
    """What Spark's state store offers for one slot: a small description and pieces by name."""

    def describe(self) -> tuple[str, bytes] | None:
        """What `note` last stored."""

    def note(self, text: str, counts: bytes) -> None:
        """Store the description."""

    def get(self, piece: str) -> bytes:
        """A piece."""

    def put(self, piece: str, data: bytes) -> None:
        """Store a piece."""

    def remove(self, piece: str) -> None:
        """Delete a piece."""


class Cache(Protocol):
    """Runs on the local disk, so that they need not be read from the state store again."""

    def get(self, run: str) -> pa.Table | None:
        """The run, if the cache has it."""

    def put(self, run: str, table: pa.Table) -> None:
        """Store a run."""

    def remove(self, run: str) -> None:
        """Delete a run."""


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

    def find_rows(self, ids: Hashes, keys: Sequence[pa.Array]) -> Index:
        return find_rows(self.ids, self.keys, ids, keys)

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(eq=False)
class SlotState:
    """The state rows of one slot.

    Guards: only the newest run that has a key counts for that key. Runs never change: an update is a newer run, a
    removal is a newer row that is not live. The newest runs are merged so that each is at least twice as long as the
    next: a row is rewritten about log(n) times, and a look-up searches few runs.

    `applied` is the last batch that the state has applied, `exported` the digests of what it exported in that batch
    (None in a state of format 1); `state_rows` is the number of live rows per bucket.
    """

    layout: Layout
    buckets: int
    applied: int | None = None
    state_rows: Index = field(default_factory=lambda: np.zeros(0, np.int64))
    exported: tuple[str, ...] | None = None
    _runs: list[_Run] = field(default_factory=list)
    _obsolete: list[_Run] = field(default_factory=list)

    @classmethod
    def load(cls, layout: Layout, buckets: int, store: Store, cache: Cache) -> SlotState:
        """The state that `save` stored."""
        description = store.describe()
        if description is None:
            return cls(layout, buckets, None, np.zeros(buckets, np.int64))
        text, counts = description
        meta = json.loads(text)
        if meta.get("format", 1) > FORMAT:
            raise RuntimeError(
                f"the state of a slot has format {meta['format']}, newer than this unskew reads ({FORMAT}): "
                "upgrade unskew"
            )
        if meta.get("format", 1) >= COMPACT:
            state_rows = decoded_counts(counts, buckets)
        else:
            state_rows = np.frombuffer(counts, np.int64).copy()
        runs = []
        for name, pieces in meta["runs"]:
            table = cache.get(name)
            if table is None:
                data = b"".join(store.get(f"{name}/{i}") for i in range(pieces))
                table = decoded_run(data, layout)
                cache.put(name, table)
            runs.append(_Run(table, layout, name, pieces))
        exported = None if meta.get("exported") is None else tuple(meta["exported"])
        return cls(layout, buckets, meta["applied"], state_rows, exported, runs)

    def save(self, store: Store, cache: Cache) -> int:
        """Store what changed; returns the bytes written."""
        self._merge()
        written = 0
        for run in self._runs:
            if run.name is None:
                data = encoded_run(run.table, self.layout)
                # Named by content, so that all attempts of a batch store the same, as Spark's state store expects;
                # and by batch, so that a removed name is never stored again.
                run.name = f"{self.applied}-{xxhash.xxh3_128_hexdigest(data)}"
                run.pieces = -(-len(data) // PIECE)
                for i in range(run.pieces):
                    store.put(f"{run.name}/{i}", data[i * PIECE : (i + 1) * PIECE])
                cache.put(run.name, run.table)
                written += len(data)
        for run in self._obsolete:
            if run.name is not None:
                for i in range(run.pieces):
                    store.remove(f"{run.name}/{i}")
                cache.remove(run.name)
        self._obsolete = []
        meta = {
            "format": FORMAT,
            "applied": self.applied,
            "exported": self.exported,
            "runs": [(run.name, run.pieces) for run in self._runs],
        }
        store.note(json.dumps(meta), encoded_counts(self.state_rows))
        return written

    def look_up(self, rows: pa.Table) -> tuple[pa.Table, Index]:
        """The live state rows of the keys in `rows`, and which of `rows` each belongs to."""
        ids, keys = np.ascontiguousarray(rows[ID].to_numpy()), self.layout.keys_of(rows)
        # sorted like the runs: random look-ups would miss the CPU's cache
        unresolved = np.argsort(ids, kind="stable")
        tables, owners = [], []
        for run in reversed(self._runs):
            if not len(unresolved):
                break
            places = pa.array(unresolved)
            run_rows = run.find_rows(ids[unresolved], [column.take(places) for column in keys])
            in_run = run_rows >= 0
            tables.append(take_rows(run.table, run_rows[in_run]))
            owners.append(unresolved[in_run])
            unresolved = unresolved[~in_run]
        if not tables:
            return self.layout.schema.empty_table(), np.zeros(0, np.int64)
        matches, owner = pa.concat_tables(tables), np.concatenate(owners)
        live = mask_of(matches[LIVE])
        return (matches, owner) if live.all() else (matches.filter(pa.array(live)), owner[live])

    def update(self, rows: pa.Table, before: pa.Table | None = None) -> None:
        """Make these rows current, one per key. `before`: the live rows of these keys, if the caller looked them up."""
        if not len(rows):
            return
        self._count(rows, +1)
        self._count(self.look_up(rows)[0] if before is None else before, -1)
        self._runs.append(self._sorted(rows))

    def remove(self, rows: pa.Table) -> None:
        """Remove these live rows."""
        if len(rows):
            self._count(rows, -1)
            dead = rows.set_column(
                rows.schema.get_field_index(LIVE), LIVE, pa.array(np.zeros(len(rows), np.bool_))
            )
            self._runs.append(self._sorted(self._without_values(dead)))

    def leaving(self, target: RoutingTable, slot: int) -> dict[int, pa.Table]:
        """The live rows that belong to other slots under `target`, by slot."""
        rows = self._current(lambda run: target.slot_of_hashes(run.table[HASH].to_numpy()) != slot)
        slots = target.slot_of_hashes(rows[HASH].to_numpy())
        return {int(to): rows.filter(pa.array(slots == to)) for to in np.unique(slots)}

    def due(self, moment: int) -> pa.Table:
        """The live rows whose deadline has passed."""
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

    def _current(self, select: Callable[[_Run], Mask]) -> pa.Table:
        """The live rows that `select` picks, unless a newer run has their key."""
        tables = []
        for depth, run in enumerate(self._runs):
            selected = select(run)
            if not selected.any():
                continue
            rows = np.flatnonzero(selected & mask_of(run.table[LIVE]))
            for newer in self._runs[depth + 1 :]:
                if len(rows) < 8 * len(newer):
                    places = pa.array(rows)
                    newer_rows = newer.find_rows(run.ids[rows], [column.take(places) for column in run.keys])
                    rows = rows[newer_rows < 0]
                else:  # cheaper the other way round
                    stale = run.find_rows(newer.ids, newer.keys)
                    rows = rows[~np.isin(rows, stale[stale >= 0])]
            tables.append(take_rows(run.table, rows))
        return pa.concat_tables(tables) if tables else self.layout.schema.empty_table()

    def _count(self, rows: pa.Table, sign: int) -> None:
        buckets = buckets_of(rows[HASH].to_numpy(), self.buckets)
        self.state_rows += sign * np.bincount(buckets, minlength=self.buckets)

    def _sorted(self, rows: pa.Table) -> _Run:
        order = np.argsort(rows[ID].to_numpy(), kind="stable")
        return _Run(take_rows(rows, order), self.layout)

    def _without_values(self, rows: pa.Table) -> pa.Table:
        """Only what tells rows apart: a dead row needs no values."""
        names = {ID, HASH, LIVE, *self.layout.key_columns}
        columns = {
            n: rows[n] if n in names else pa.nulls(len(rows), t) for n, t in types_of(self.layout.schema)
        }
        return pa.table(columns, schema=self.layout.schema)

    def _merge(self) -> None:
        """Merge the runs that are new since the last save with every older one that is not much longer."""
        start, length = len(self._runs), 0
        while start and (self._runs[start - 1].name is None or len(self._runs[start - 1]) <= 2 * length):
            start -= 1
            length += len(self._runs[start])
        recent = self._runs[start:]
        if len(recent) < 2:
            return
        rows = pa.concat_tables([run.table for run in reversed(recent)])
        ids = np.concatenate([run.ids for run in reversed(recent)])
        order = np.argsort(ids, kind="stable")  # so the newest row of an id comes first
        current = _newest(ids[order], rows, order, self.layout)
        if start == 0:  # there is no older run in which a dead row would hide anything
            current &= mask_of(rows[LIVE])[order]
        self._obsolete += recent
        self._runs[start:] = [_Run(take_rows(rows, order[current]), self.layout)]


def _newest(ids: Hashes, rows: pa.Table, order: Index, layout: Layout) -> Mask:
    """Which of the rows, taken in `order`, is the first of its key; `ids` are in that order, too."""
    repeats = np.zeros(len(ids), np.bool_)
    repeats[1:] = ids[1:] == ids[:-1]
    newest = ~repeats
    shares_id = repeats.copy()
    shares_id[:-1] |= repeats[1:]
    places = np.flatnonzero(shares_id)
    if len(places):
        candidates = rows.select([ID, *layout.key_columns]).take(pa.array(order[places]))
        _, firsts = groups_of(ids[places], layout.keys_of(candidates))
        newest[places[firsts]] = True
    return newest
