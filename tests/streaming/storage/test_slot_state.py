"""The state of a slot equals a plain dict, however it was saved, loaded, merged and reset."""

from __future__ import annotations

import math
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.streaming.worker.slot_world import DictStore, ForgetfulCache, alike
from unskew.core.routing import RoutingTable
from unskew.streaming.storage import slot_state
from unskew.streaming.storage.layout import Layout
from unskew.streaming.storage.slot_state import SlotState

BUCKETS = 4
KEY = pa.schema([("a", pa.string()), ("b", pa.float64())])
STATE = pa.schema([("n", pa.int64()), ("s", pa.string())])
# (key, hash): every hash has several keys, among them those that are null or NaN
POOL = [
    ((a, b), 5 * i - 7)
    for i, pair in enumerate(
        [
            [("x", 1.0), ("x", None), (None, None)],
            [("y", math.nan), (None, math.nan), ("y", 0.0)],
            [("z", 2.0), ("", 2.0), ("z", -2.0), (None, 3.0)],
        ]
    )
    for a, b in pair
]


class Model:
    """The slot's state and a dict that it must equal: (key, window) → (hash, n, deadline)."""

    def __init__(self, layout: Layout, random: Random) -> None:
        self.layout, self.random = layout, random
        self.store, self.cache = DictStore(), ForgetfulCache(random)
        self.state = SlotState.load(layout, BUCKETS, self.store, self.cache)
        self.rows: dict[Any, tuple[int, int, int]] = {}
        self.saved = (self.store.copy(), dict(self.rows))

    def table(self, rows: dict[Any, tuple[int, int, int]]) -> pa.Table:
        keys = [POOL[k][0] for k, _ in rows]
        columns = {
            "hash": pa.array([v[0] for v in rows.values()], pa.int64()),
            "key.0": pa.array([k[0] for k in keys], pa.string()),
            "key.1": pa.array([k[1] for k in keys], pa.float64()),
            "window": pa.array([w for _, w in rows], pa.int64()),
            "state.n": pa.array([v[1] for v in rows.values()], pa.int64()),
            "state.s": pa.array([str(v[1]) for v in rows.values()], pa.string()),
            "deadline": pa.array([v[2] for v in rows.values()], pa.int64()),
        }
        return self.layout.rows(
            {n: c for n, c in columns.items() if n in self.layout.schema.names}, len(rows)
        )

    def some(self, share: float) -> dict[Any, tuple[int, int, int]]:
        rows = {}
        for k, (_, h) in enumerate(POOL):
            for w in (0, 60) if self.layout.windowed else (0,):
                if self.random.random() < share:
                    rows[k, w] = (h, self.random.randrange(1000), self.random.randrange(100))
        return rows

    def read(self, rows: pa.Table) -> dict[Any, tuple[int, int, int]]:
        names = {alike(key): k for k, (key, _) in enumerate(POOL)}
        values = {}
        for row in rows.to_pylist():
            assert row["live"]
            assert row["state.s"] == str(row["state.n"])
            name = (names[alike((row["key.0"], row["key.1"]))], row.get("window", 0))
            assert name not in values
            values[name] = (row["hash"], row["state.n"], row.get("deadline", -1))
        return values

    def is_now(self, rows: pa.Table, names: set[Any]) -> None:
        assert self.read(rows) == {k: self.trimmed(v) for k, v in self.rows.items() if k in names}

    def trimmed(self, row: tuple[int, int, int]) -> tuple[int, int, int]:
        return row if self.layout.expires else (row[0], row[1], -1)

    def drop(self, rows: pa.Table) -> None:
        for name in self.read(rows):
            del self.rows[name]
        self.state.remove(rows)

    def act(self, what: str) -> None:
        if what == "update":
            new = self.some(0.3)
            rows = self.table(new)
            before = self.state.look_up(rows)[0] if self.random.random() < 0.5 else None
            self.state.update(rows, before)
            self.rows |= new
        elif what == "look_up":
            sought = self.some(0.5)
            rows, owners = self.state.look_up(self.table(sought))
            self.is_now(rows, set(sought))
            names = list(sought)
            assert [names[i] for i in owners] == list(self.read(rows))
        elif what == "remove":
            self.drop(self.state.look_up(self.table(self.some(0.2)))[0])
        elif what == "due" and self.layout.expires:
            moment = self.random.randrange(100)
            rows = self.state.due(moment)
            self.is_now(rows, {k for k, v in self.rows.items() if v[2] <= moment})
            self.drop(rows)
        elif what == "leaving":
            table = RoutingTable.build(3, [self.random.randrange(3) for _ in range(BUCKETS)])
            for destination, rows in self.state.leaving(table, 0).items():
                assert destination != 0
                slots = {k: int(table.slot_of_hashes(np.array([v[0]]))[0]) for k, v in self.rows.items()}
                self.is_now(rows, {k for k, slot in slots.items() if slot == destination})
                self.drop(rows)
            assert all(table.slot_of_hashes(np.array([v[0]]))[0] == 0 for v in self.rows.values())
        elif what == "save":
            self.state.applied = self.random.randrange(100)
            applied = self.state.applied
            self.state.save(self.store, self.cache)
            lengths = [len(run) for run in self.state._runs]
            assert all(a > 2 * b for a, b in pairwise(lengths))
            self.saved = (self.store.copy(), dict(self.rows))
            self.state = SlotState.load(self.layout, BUCKETS, self.store, self.cache)
            assert self.state.applied == applied
        elif what == "crash":
            self.store, self.rows = self.saved[0].copy(), dict(self.saved[1])
            self.state = SlotState.load(self.layout, BUCKETS, self.store, self.cache)

    def check(self) -> None:
        self.is_now(self.state.everything(), set(self.rows))
        buckets = np.array([v[0] for v in self.rows.values()], np.int64) % BUCKETS
        assert self.state.state_rows.tolist() == np.bincount(buckets, minlength=BUCKETS).tolist()
        assert len(self.state) == len(self.rows)


@settings(max_examples=150)
@given(
    st.booleans(),
    st.booleans(),
    st.lists(
        st.sampled_from(["update", "update", "look_up", "remove", "due", "leaving", "save", "save", "crash"]),
        max_size=25,
    ),
    st.integers(0, 2**32),
)
def test_it_equals_a_plain_dict(windowed: bool, expires: bool, actions: list[str], seed: int) -> None:
    model = Model(Layout(KEY, STATE, windowed, expires), Random(seed))
    for what in actions:
        model.act(what)
        model.check()


LAYOUT = Layout(pa.schema([("k", pa.int64())]), pa.schema([("n", pa.int64())]))


def numbered(numbers: Any) -> pa.Table:
    column = pa.array(np.asarray(numbers, np.int64))
    return LAYOUT.rows({"hash": column, "key.0": column, "state.n": column}, len(column))


def test_a_long_life_leaves_few_runs_and_little_in_the_store() -> None:
    """As with a ttl: each batch brings many rows and drops a few."""
    store, cache = DictStore(), ForgetfulCache(Random(1))
    random = np.random.default_rng(1)
    alive: set[int] = set()
    written = 0
    for _ in range(200):
        state = SlotState.load(LAYOUT, BUCKETS, store, cache)
        touched = random.choice(5000, 100, replace=False)
        state.update(numbered(touched))
        alive |= set(touched.tolist())
        smallest = state.look_up(numbered(sorted(alive)[:2]))[0]
        state.remove(smallest)
        alive -= set(smallest["key.0"].to_pylist())
        written += state.save(store, cache)
        assert len(state._runs) <= math.log2(len(state)) + 1
    assert set(state.everything()["key.0"].to_pylist()) == alive
    assert len(store.pieces) == len(state._runs)
    assert sum(len(run) for run in state._runs) <= 2 * len(state)
    # each row is rewritten about log(n) times, not once per batch
    assert written < 60 * 200 * 100 * math.log2(5000) / 4


def test_dead_rows_do_not_outlive_what_they_hide() -> None:
    store, cache = DictStore(), ForgetfulCache(Random(1))
    state = SlotState.load(LAYOUT, BUCKETS, store, cache)
    state.update(numbered(range(100)))
    state.save(store, cache)
    state.remove(state.everything())
    state.save(store, cache)
    assert len(state) == 0
    assert sum(len(run) for run in state._runs) == 0


def test_a_long_run_is_stored_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slot_state, "PIECE", 1000)
    store = DictStore()
    state = SlotState.load(LAYOUT, BUCKETS, store, ForgetfulCache(Random(1)))
    state.update(numbered(range(1000)))
    state.save(store, ForgetfulCache(Random(1)))
    assert len(store.pieces) > 1
    assert max(map(len, store.pieces.values())) <= 1000
    reloaded = SlotState.load(LAYOUT, BUCKETS, store, ForgetfulCache(Random(1)))
    assert sorted(reloaded.everything()["key.0"].to_pylist()) == list(range(1000))
    reloaded.remove(reloaded.everything())
    reloaded.save(store, ForgetfulCache(Random(1)))
    assert len(store.pieces) == 1
