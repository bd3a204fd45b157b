"""Records become one payload per slot, and every slot in use gets one."""

from __future__ import annotations

import math
from collections import Counter
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.streaming.worker.slot_world import (
    KEYS,
    MAX_SLOTS,
    VALUES,
    alike,
    key_type,
    random_table,
    records,
    records_schema,
)
from unskew.core.migration.protocol import Handoff, Turn, first_turn
from unskew.core.routing import RoutingTable
from unskew.streaming.operators import aggregates as agg
from unskew.streaming.operators.aggregate_operator import AggregateOperator
from unskew.streaming.operators.aggregation import Aggregation
from unskew.streaming.operators.operator import Window
from unskew.streaming.storage import columns
from unskew.streaming.storage.ledger import Ledger
from unskew.streaming.storage.run_codec import decoded
from unskew.streaming.worker import packing
from unskew.streaming.worker.packing import PACKED, Packer, active_slots, called_slots, normal_keys
from unskew.streaming.worker.slot_labels import slot_labels


def packer(key: pa.Schema) -> Packer:
    operator = AggregateOperator(key, Aggregation({"n": agg.count(), "total": agg.sum("v")}, VALUES))
    return Packer(Ledger("nowhere"), operator, records_schema(key), MAX_SLOTS)


def by_slot(batches: list[pa.RecordBatch]) -> dict[int, list[pa.Table]]:
    slot_of = {label: slot for slot, label in enumerate(slot_labels(MAX_SLOTS))}
    payloads: dict[int, list[pa.Table]] = {}
    for batch in batches:
        assert batch.schema == PACKED
        for row in batch.to_pylist():
            payloads.setdefault(slot_of[row["label"]], []).append(decoded(row["payload"]))
    return payloads


@pytest.mark.parametrize("kind", sorted(KEYS))
@pytest.mark.parametrize("seed", range(3))
def test_records_go_to_the_slot_of_their_key_and_none_is_lost(kind: str, seed: int) -> None:
    random = Random(seed)
    key, keys = KEYS[kind]
    turn = first_turn(random_table(random, key, keys))
    rows = [(random.choice(keys), random.randrange(10)) for _ in range(60)]
    batches = [records(key, rows[i : i + 20]) for i in (0, 20, 40)]
    counts: Counter[Any] = Counter()
    totals: Counter[Any] = Counter()
    for slot, payloads in by_slot(list(packer(key).pack(iter(batches), turn, 1))).items():
        (payload,) = payloads
        assert (turn.table.slot_of_hashes(payload["hash"].to_numpy()) == slot).all()
        for row in payload.to_pylist():
            name = alike(tuple(row[f"key.{i}"] for i in range(len(key))))
            assert name not in counts, "one row per key"
            counts[name], totals[name] = row["records"], row["state.total.sum"]
            assert row["state.n.count"] == row["records"]
    expected_totals: Counter[Any] = Counter()
    for k, v in rows:
        expected_totals[alike(k)] += v
    assert counts == Counter(alike(k) for k, _ in rows)
    assert totals == expected_totals


def test_every_slot_in_use_is_called_in_every_batch() -> None:
    key = KEYS["string"][0]
    table = RoutingTable.hashed(2, 16, key_type(key))
    turn = Turn(7, table, pending=(Handoff("f", 0, 3, 7, 1, 1),))
    assert active_slots(turn) == [0, 1, 3]
    payloads = by_slot(list(packer(key).pack(iter([]), turn, 0)))
    assert {slot: list(map(len, tables)) for slot, tables in payloads.items()} == {0: [0], 1: [0], 3: [0]}
    assert list(packer(key).pack(iter([]), turn, 1)) == [], "the first task does it for all"


def test_with_event_time_every_slot_is_called_once_and_gets_a_timer() -> None:
    table = RoutingTable.hashed(2, 16, key_type(KEYS["string"][0]))
    assert called_slots(Turn(0, table), 4) == [0, 1, 2, 3]
    assert called_slots(Turn(7, table, imported={0: 6, 1: 6, 2: 0}), 4) == [0, 1, 3]
    assert called_slots(Turn(7, table), 0) == [0, 1]


def test_memory_stays_bounded_and_parts_are_numbered_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "CHUNK_ROWS", 50)
    key = KEYS["long"][0]
    turn = first_turn(RoutingTable.hashed(1, 16, key_type(key)))
    batches = [records(key, [((i,), i) for i in range(30)]) for _ in range(5)]
    out = list(packer(key).pack(iter(batches), turn, 3))
    assert [sum_records(b) for b in out] == [60, 60, 30]
    parts = [part for batch in out for part in batch["part"].to_pylist()]
    assert parts == sorted(parts)
    assert {part >> 32 for part in parts} == {3}


def test_packed_rows_travel_in_bounded_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "MAX_BYTES", 4 * 500)
    key = KEYS["long"][0]
    turn = first_turn(RoutingTable.hashed(1, 16, key_type(key)))
    out = list(packer(key).pack(iter([records(key, [((i,), i) for i in range(100)])]), turn, 3))
    assert len(out) > 1
    assert sum(map(sum_records, out)) == 100
    assert [part for batch in out for part in batch["part"].to_pylist()] == [
        (3 << 32) + 1 + i for i in range(len(out))
    ]


def sum_records(batch: pa.RecordBatch) -> int:
    return int(np.sum([decoded(p)["records"].to_numpy().sum() for p in batch["payload"].to_pylist()]))


def test_columns_are_taken_by_position_and_cast() -> None:
    key = KEYS["string"][0]
    turn = first_turn(RoutingTable.hashed(1, 16, key_type(key)))
    batch = records(key, [(("a",), 2)])
    plain = pa.record_batch(
        [batch[0], batch[1].cast(pa.large_string()), batch[2].cast(pa.int32())], names=["c0", "c1", "c2"]
    )
    (payload,) = by_slot(list(packer(key).pack(iter([plain]), turn, 1)))[0]
    assert payload["state.total.sum"].to_pylist() == [2]


def test_records_without_a_time_are_in_no_window() -> None:
    key = pa.schema([("k", pa.string())])
    moment = pa.timestamp("us", "UTC")
    schema = pa.schema([("hash", pa.int64()), ("key.0", pa.string()), ("t", moment)])
    operator = AggregateOperator(
        key, Aggregation({"n": agg.count()}, pa.schema([("t", moment)])), Window(60, 60), "t"
    )
    turn = first_turn(RoutingTable.hashed(1, 16, pa.string()))
    for times, rows in (([None, None], 0), ([None, 5], 1)):
        batch = pa.record_batch(
            [pa.array([1, 2]), pa.array(["a", "b"]), pa.array(times, moment)], schema=schema
        )
        out = list(Packer(Ledger("nowhere"), operator, schema, MAX_SLOTS).pack(iter([batch]), turn, 1))
        assert sum_records(out[0]) == rows


def test_floats_that_spark_groups_together_get_equal_bits() -> None:
    struct = pa.struct([("x", pa.float32()), ("y", pa.struct([("z", pa.float64())]))])
    rows = [
        {"x": -0.0, "y": {"z": -0.0}},
        {"x": -math.nan, "y": None},
        None,
        {"x": None, "y": {"z": math.nan}},
    ]
    table = pa.table(
        {"key.0": pa.array([-0.0, -math.nan, None, 1.5]), "key.1": pa.array(rows, struct), "v": [-0.0] * 4}
    )
    normal = normal_keys(table.slice(0, 4))
    bits = [None if x is None else np.float64(x).tobytes() for x in normal["key.0"].to_pylist()]
    assert bits == [
        np.float64(0.0).tobytes(),
        np.float64(math.nan).tobytes(),
        None,
        np.float64(1.5).tobytes(),
    ]
    assert repr(normal["key.1"].to_pylist()) == repr(
        [{"x": 0.0, "y": {"z": 0.0}}, {"x": math.nan, "y": None}, None, {"x": None, "y": {"z": math.nan}}]
    )
    assert normal["v"].equals(table["v"])
    assert repr(normal_keys(table.slice(1, 2))["key.1"].to_pylist()) == repr(
        [{"x": math.nan, "y": None}, None]
    )
