"""More text in one slot than the 32-bit offsets of Arrow's text columns reach: 215 keys of 10 MB each."""

from __future__ import annotations

import os
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.streaming.worker.slot_world import DictStore, ForgetfulCache
from unskew.core.hashing import hash_keys
from unskew.core.routing import RoutingTable
from unskew.streaming.operators import aggregate_operator
from unskew.streaming.operators import aggregates as agg
from unskew.streaming.operators.aggregate_operator import AggregateOperator
from unskew.streaming.operators.aggregation import Aggregation
from unskew.streaming.operators.operator import Clock
from unskew.streaming.storage import columns
from unskew.streaming.storage.columns import bounded_parts, take_rows
from unskew.streaming.storage.layout import Layout
from unskew.streaming.storage.slot_state import SlotState

KEY = pa.schema([("k", pa.int64())])
RECORDS = pa.schema([("k", pa.int64()), ("text", pa.string())])
TEN_MEGABYTES = 10 << 20


@pytest.mark.faults
@pytest.mark.skipif("UNSKEW_TEST_ALL" not in os.environ, reason="takes 8 GB of memory and a minute")
def test_two_gibibytes_of_text_in_one_slot() -> None:
    layout = Layout(KEY, pa.schema([("text", pa.string())]))
    store, cache = DictStore(), ForgetfulCache(Random(1))
    keys = np.arange(215)
    for batch in range(2):
        state = SlotState.load(layout, 8, store, cache)
        some = keys[batch::2]
        texts = [chr(97 + k % 9) * TEN_MEGABYTES for k in some.tolist()]
        rows = layout.rows({"hash": hash_keys(some), "key.0": some, "state.text": texts}, len(some))
        state.update(rows)
        state.applied = batch
        state.save(store, cache)
        cache.runs.clear()
    state = SlotState.load(layout, 8, store, cache)
    assert (len(state), len(state._runs)) == (215, 1)
    leaving = state.leaving(RoutingTable.build(2, [1] * 8, key_type=pa.int64()), 0)[1]
    assert leaving.nbytes > 2**31
    for part in bounded_parts(leaving):
        for key, text in zip(part["key.0"].to_pylist(), part["state.text"].to_pylist(), strict=True):
            assert len(text) == TEN_MEGABYTES
            assert text[0] == text[-1] == chr(97 + key % 9)


def test_what_is_computed_in_parts_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def outputs() -> list[Any]:
        operator = AggregateOperator(KEY, Aggregation({"n": agg.count(), "most": agg.max("text")}, RECORDS))
        state = SlotState(operator.layout, 8, state_rows=np.zeros(8, np.int64))
        rows = []
        for batch in range(3):
            some = np.arange(batch, 40, 2)
            texts = [chr(97 + (k + batch) % 20) * 9 for k in some.tolist()]
            table = pa.table({"hash": hash_keys(some), "key.0": some, "k": some, "text": texts})
            out, _ = operator.step(operator.pack(table), state, Clock(0))
            rows.append(sorted(out.to_pylist(), key=lambda row: row["k"]))
        return rows

    whole = outputs()
    for module in (columns, aggregate_operator):
        monkeypatch.setattr(module, "MAX_BYTES", 400)
    assert outputs() == whole


@pytest.mark.parametrize("t", [pa.string(), pa.binary(), pa.list_(pa.int64()), pa.int64()])
def test_rows_are_taken_in_order_however_large_the_columns_are(
    t: pa.DataType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(columns, "MAX_BYTES", 64)
    values: dict[Any, list[Any]] = {
        pa.string(): ["a" * i if i % 5 else None for i in range(40)],
        pa.binary(): [b"a" * i if i % 5 else None for i in range(40)],
        pa.list_(pa.int64()): [[1] * (i % 4) if i % 5 else None for i in range(40)],
        pa.int64(): list(range(40)),
    }
    chunks = [pa.array(values[t][start : start + 7], t) for start in range(0, 40, 7)]
    order = np.random.default_rng(1).integers(0, 40, 100)
    rows = take_rows(pa.table({"v": pa.chunked_array(chunks, t)}), order)
    assert rows["v"].to_pylist() == [values[t][i] for i in order]
    assert rows.schema == pa.schema([("v", t)])
    assert len(take_rows(rows, np.zeros(0, np.int64))) == 0


def test_pieces_have_a_bounded_size_and_all_rows() -> None:
    table = pa.table({"v": ["a" * i for i in range(100)]})
    parts = bounded_parts(table, 500)
    assert all(part.nbytes <= 500 or len(part) == 1 for part in parts)
    assert pa.concat_tables(parts).equals(table)
    assert bounded_parts(table.slice(0, 0), 500) == [table.slice(0, 0)]
