"""A tiny live stream without Spark: map tasks, the shuffle and the state store are plain Python; the rest is real.

It keeps across a crash what Spark keeps: the slots' state as the last batch committed it, and the files of the
checkpoint.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

from unskew.core.hashing import hash_keys
from unskew.core.migration.protocol import first_turn
from unskew.core.routing import RoutingTable
from unskew.streaming.operators import aggregates as agg
from unskew.streaming.operators.aggregate_operator import AggregateOperator
from unskew.streaming.operators.aggregation import Aggregation
from unskew.streaming.operators.operator import Clock, Operator
from unskew.streaming.storage.ledger import Ledger
from unskew.streaming.storage.slot_state import SlotState
from unskew.streaming.worker.packing import Packer
from unskew.streaming.worker.slot_labels import slot_labels
from unskew.streaming.worker.slot_step import SlotStep

BUCKETS, MAX_SLOTS = 16, 4
VALUES = pa.schema([("v", pa.int64())])
DAY = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)

# for each type of key: its columns, and keys, some of which are equal despite different bits, or share a hash
KEYS: dict[str, tuple[pa.Schema, list[tuple[Any, ...]]]] = {
    "string": (pa.schema([("k", pa.string())]), [("",), ("a",), ("ä" * 40,), (None,), ("b",)]),
    "long": (pa.schema([("k", pa.int64())]), [(0,), (-1,), (2**63 - 1,), (None,), (7,)]),
    "double": (
        pa.schema([("k", pa.float64())]),
        [(0.0,), (-0.0,), (math.nan,), (-math.nan,), (None,), (math.inf,)],
    ),
    "composite": (
        pa.schema([("k", pa.string()), ("l", pa.string())]),
        [("a", None), (None, "a"), ("a", "b"), (None, None), ("b", None), (None, "b")],
    ),
    "timestamp": (
        pa.schema([("k", pa.timestamp("us", "UTC"))]),
        [(DAY,), (None,), (DAY.replace(year=1969),)],
    ),
    "decimal": (pa.schema([("k", pa.decimal128(30, 2))]), [(Decimal("0.00"),), (Decimal("-1.10"),), (None,)]),
    "binary": (pa.schema([("k", pa.binary())]), [(b"",), (b"\x00",), (b"\xff" * 9,), (None,)]),
    "struct": (
        pa.schema([("k", pa.struct([("x", pa.float64()), ("y", pa.string())]))]),
        [
            ({"x": 0.0, "y": "a"},),
            ({"x": -0.0, "y": "a"},),
            ({"x": math.nan, "y": None},),
            ({"x": None, "y": None},),
            (None,),
        ],
    ),
}


class DictStore:
    """Spark's state store of one slot."""

    def __init__(self) -> None:
        self.about: tuple[str, bytes] | None = None
        self.pieces: dict[str, bytes] = {}

    def copy(self) -> DictStore:
        copy = DictStore()
        copy.about, copy.pieces = self.about, dict(self.pieces)
        return copy

    def describe(self) -> tuple[str, bytes] | None:
        return self.about

    def note(self, text: str, counts: bytes) -> None:
        self.about = (text, counts)

    def get(self, piece: str) -> bytes:
        return self.pieces[piece]

    def put(self, piece: str, data: bytes) -> None:
        assert piece not in self.pieces, "a piece is never written twice"
        self.pieces[piece] = data

    def remove(self, piece: str) -> None:
        del self.pieces[piece]


class ForgetfulCache:
    """A cache that has lost each run with probability one half."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.runs: dict[str, pa.Table] = {}

    def get(self, run: str) -> pa.Table | None:
        return self.runs.get(run) if self.random.random() < 0.5 else None

    def put(self, run: str, table: pa.Table) -> None:
        self.runs[run] = table

    def remove(self, run: str) -> None:
        self.runs.pop(run, None)


def key_type(key: pa.Schema) -> pa.DataType:
    """The type of a whole key: a struct where it has several columns."""
    return key.field(0).type if len(key) == 1 else pa.struct(list(key))


def records(key: pa.Schema, rows: Sequence[tuple[tuple[Any, ...], int]]) -> pa.RecordBatch:
    """Records as Spark hands them to a map task: hash, key columns, values."""
    columns = [pa.array([k[i] for k, _ in rows], f.type) for i, f in enumerate(key)]
    keys = columns[0] if len(key) == 1 else pa.StructArray.from_arrays(columns, key.names)
    hashes = pa.array(hash_keys(keys, key_type(key)))
    return pa.record_batch(
        [hashes, *columns, pa.array([v for _, v in rows], pa.int64())], schema=records_schema(key)
    )


def records_schema(key: pa.Schema) -> pa.Schema:
    keys = [pa.field(f"key.{i}", f.type) for i, f in enumerate(key)]
    return pa.schema([pa.field("hash", pa.int64()), *keys, *VALUES])


def alike(value: Any) -> Any:
    """The value in a form in which two values are equal if Spark's grouping treats them as equal."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    if isinstance(value, dict):
        return tuple(alike(v) for v in value.values())
    return tuple(alike(v) for v in value) if isinstance(value, tuple) else value


def random_table(random: Random, key: pa.Schema, keys: Sequence[tuple[Any, ...]]) -> RoutingTable:
    """A random number of slots, each bucket and a few heavy keys in random slots."""
    slots = random.randint(1, MAX_SLOTS)
    batch = records(key, [(k, 0) for k in random.sample(keys, random.randint(0, 2))])
    hashes, firsts = np.unique(batch["hash"].to_numpy(), return_index=True)
    columns = [batch[f"key.{i}"] for i in range(len(key))]
    heavy = columns[0] if len(key) == 1 else pa.StructArray.from_arrays(columns, key.names)
    return RoutingTable.build(
        slots,
        [random.randrange(slots) for _ in range(BUCKETS)],
        heavy.take(pa.array(firsts)),
        [random.randrange(slots) for _ in hashes],
        hashes=hashes,
        key_type=key_type(key),
    )


@dataclass
class StreamWorld:
    """A stream of (key, value) records through an operator, run batch by batch."""

    folder: Path
    key: pa.Schema
    random: Random
    operator: Operator
    slots: int = 2
    stores: dict[int, DictStore] = field(default_factory=dict)
    working: dict[int, DictStore] = field(default_factory=dict)
    attempts: int = 0

    def __post_init__(self) -> None:
        self.ledger = Ledger(str(self.folder), "world")
        self.cache = ForgetfulCache(self.random)
        self.packer = Packer(self.ledger, self.operator, records_schema(self.key), MAX_SLOTS)
        self.step = SlotStep(self.ledger, self.operator, BUCKETS)
        table = RoutingTable.hashed(self.slots, BUCKETS, key_type(self.key)).with_version(1)
        self.ledger.publish(first_turn(table))

    @classmethod
    def counting(cls, folder: Path, key: pa.Schema, random: Random, slots: int = 2) -> StreamWorld:
        """Counts records and sums values per key."""
        aggregation = Aggregation({"n": agg.count(), "total": agg.sum("v")}, VALUES)
        return cls(folder, key, random, AggregateOperator(key, aggregation), slots)

    def shuffled(self, batch: int, rows: Sequence[tuple[tuple[Any, ...], int]]) -> dict[int, list[bytes]]:
        """The payloads of each slot from two map tasks, in any order within a slot."""
        turn = self.ledger.turn(batch)
        cut = self.random.randint(0, len(rows))
        slot_of = {label: slot for slot, label in enumerate(slot_labels(MAX_SLOTS))}
        payloads: dict[int, list[bytes]] = {}
        for task, part in enumerate((rows[:cut], rows[cut:])):
            batches = [records(self.key, part)] if part else []
            for packed in self.packer.pack(iter(batches), turn, task):
                for row in packed.to_pylist():
                    payloads.setdefault(slot_of[row["label"]], []).append(row["payload"])
        return payloads

    def run_slots(
        self,
        batch: int,
        rows: Sequence[tuple[tuple[Any, ...], int]],
        clock: Clock = Clock(0),  # noqa: B008 it is frozen
        before_slot: Callable[[], None] = lambda: None,
    ) -> list[pa.Table]:
        """The stateful stage of a batch, from the committed state; the new state is in `working`."""
        self.working = {slot: store.copy() for slot, store in self.stores.items()}
        outs = []
        payloads = self.shuffled(batch, rows)
        for slot in self.random.sample(sorted(payloads), len(payloads)):
            before_slot()
            for _ in range(self.random.choice([1, 1, 2])):  # the second is an attempt beside the first
                self.attempts += 1
                store = self.stores[slot].copy() if slot in self.stores else DictStore()
                out = self.step.run(slot, batch, payloads[slot], clock, str(self.attempts), store, self.cache)
            self.working[slot] = store
            outs.append(out)
        return outs

    def commit(self) -> None:
        """What Spark does when the callback has returned."""
        self.stores = self.working

    def state(self, after: int) -> dict[Any, tuple[Any, ...]]:
        """The state of every key, wherever it is before batch `after`; a key in two places is an error."""
        turn = self.ledger.turn(after)
        places = []
        for slot, store in self.stores.items():
            state = SlotState.load(self.operator.layout, BUCKETS, store, self.cache)
            places.append((slot, state.everything()))
            places += [
                (slot, self.ledger.read_handoff(h)) for h in turn.imports(slot, state.applied, state.exported)
            ]
        to_new_slots = [h for h in turn.pending if h.destination not in self.stores]
        places += [(h.destination, self.ledger.read_handoff(h)) for h in to_new_slots]
        states: dict[Any, tuple[Any, ...]] = {}
        for slot, rows in places:
            assert (turn.table.slot_of_hashes(rows["hash"].to_numpy()) == slot).all()
            keys = zip(*(rows[n].to_pylist() for n in self.operator.layout.key_columns), strict=True)
            values = zip(*(rows[n].to_pylist() for n in self.operator.layout.values), strict=True)
            for key, value in zip(keys, values, strict=True):
                assert alike(key) not in states, f"{key} is in two places"
                states[alike(key)] = value
        return states
