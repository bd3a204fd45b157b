"""The slot column against `RoutingTable.slot_of`, and the layout of heavy hashes."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.spark.frames import KEYS, Frames, key_array
from unskew.core.hashing import hash_keys
from unskew.core.routing import RoutingTable
from unskew.spark.keys import key_columns
from unskew.spark.slot_expression import cuckoo_cells, fingerprint, slot_column


def random_table(keys: pa.Array, slots: int, buckets: int, other_rows: int, seed: int) -> RoutingTable:
    """Buckets at random, about half of the keys as heavy rows among `other_rows` that no record has."""
    draw = np.random.default_rng(seed)
    heavy = draw.permutation(np.unique(hash_keys(keys)))
    heavy = heavy[: (len(heavy) + 1) // 2]
    heavy = np.union1d(heavy, draw.integers(-(2**63), 2**63 - 1, other_rows))
    return RoutingTable.build(
        slots,
        draw.integers(0, slots, buckets),
        pa.nulls(len(heavy), keys.type),
        draw.integers(0, slots, len(heavy)),
        hashes=heavy,
        key_type=keys.type,
    )


@pytest.mark.parametrize(
    ("slots", "buckets", "other_rows"),
    [(1, 1, 0), (2, 7, 3), (5, 64, 100), (64, 100, 1000), (200, 4096, 5)],
)
def test_the_slot_column_is_slot_of_for_every_key_type(
    frames: Frames, slots: int, buckets: int, other_rows: int
) -> None:
    tables = {
        kind: random_table(key_array(frames.left_rows, names), slots, buckets, other_rows, seed)
        for seed, (kind, names) in enumerate(KEYS.items())
    }
    routed = frames.left.select(
        "v",
        *(
            slot_column(tables[kind], key_columns(frames.left, names).hash_term()).alias(kind)
            for kind, names in KEYS.items()
        ),
    )
    rows = routed.toArrow().sort_by("v")
    for kind, names in KEYS.items():
        expected = tables[kind].slot_of(key_array(frames.left_rows, names))
        assert rows[kind].to_pylist() == expected.tolist(), kind
    assert all(not field.nullable for field in routed.schema.fields if field.name != "v")


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    slots=st.integers(1, 40),
    buckets=st.integers(40, 300),
    heavy=st.integers(0, 50),
    seed=st.integers(0, 2**32 - 1),
)
def test_the_slot_column_is_slot_of_hashes_for_every_hash(
    spark: SparkSession, slots: int, buckets: int, heavy: int, seed: int
) -> None:
    draw = np.random.default_rng(seed)
    table = random_table(pa.array([], pa.int64()), slots, buckets, heavy, seed)
    # Hashes that differ from a heavy one in a bit are in one of its cells, or in its bucket, or in both.
    near = (table.hashes[:, None] ^ (np.int64(1) << np.arange(64))).ravel()
    extremes = [-(2**63), 2**63 - 1, -1, 0, 1]
    hashes = np.concatenate([table.hashes, near, extremes, draw.integers(-(2**63), 2**63 - 1, 500)])
    df = spark.createDataFrame(pa.table({"position": np.arange(len(hashes)), "hash": hashes}))
    rows = df.select("position", slot_column(table, F.col("hash")).alias("slot")).toArrow()
    assert rows.sort_by("position")["slot"].to_pylist() == table.slot_of_hashes(hashes).tolist()


def test_fingerprints_tell_tables_apart() -> None:
    tables = [
        RoutingTable.build(4, [0, 1, 2, 3]),
        RoutingTable.build(3, [0, 1, 2, 2]),
        RoutingTable.build(4, [0, 1, 2, 2]),
        RoutingTable.build(4, [0, 1, 3, 2]),
        RoutingTable.build(4, [0, 1, 2, 3], [7], [1]),
        RoutingTable.build(4, [0, 1, 2, 3], [8], [1]),
        RoutingTable.build(4, [0, 1, 2, 3], [7], [2]),
        RoutingTable.build(4, [0, 1, 2, 3], [7], [[2, 3]]),
        RoutingTable.build(4, [0, 1, 2, 3], [7], [[3, 2]]),
        RoutingTable.build(4, [0, 1, 2, 3], [7, 8], [[3, 2], [1]]),
        RoutingTable.build(4, [0, 1, 2, 3], [7, 8], [[3], [2, 1]]),
    ]
    assert len(set(map(fingerprint, tables))) == len(tables)
    # Never changes, so that a plan is recognised in the event log of a job that ran with another version.
    assert fingerprint(tables[0]) == 260820943


def test_a_split_key_needs_a_lot(spark: SparkSession) -> None:
    table = RoutingTable.build(2, [0, 1], ["a"], [[0, 1]])
    with pytest.raises(ValueError, match="splits keys over slots: pass a lot"):
        slot_column(table, F.xxhash64(F.lit("a")))


def test_records_of_a_split_key_go_to_its_slots_in_their_shares(spark: SparkSession) -> None:
    slots_of_key = {0: [1, 5], 1: [2, 3, 7], 2: [4, 4, 6], 3: [0], 4: [6, 7, 0, 1]}
    shares_of_key = {0: [1, 1], 1: [1, 5, 2], 2: [1, 1, 1], 3: [1], 4: [0.001, 1, 0.3, 0.2]}
    table, equal = (
        RoutingTable.build(
            8, np.zeros(16, int), list(slots_of_key), list(slots_of_key.values()), heavy_shares=shares
        )
        for shares in (list(shares_of_key.values()), None)
    )
    df = spark.range(0, 15_000, 1, 2).selectExpr("id % 5 as k", "(id div 5 + 0.5) / 3000 as lot")
    slots = [slot_column(each, "xxhash64(k)", "lot") for each in (table, equal)]
    rows = df.select("k", slots[0].alias("planned"), slots[1].alias("equal")).toArrow()
    for name, shares in (
        ("planned", shares_of_key),
        ("equal", {k: [1] * len(v) for k, v in slots_of_key.items()}),
    ):
        counts = Counter(zip(rows["k"].to_pylist(), rows[name].to_pylist(), strict=True))
        for key, key_slots in slots_of_key.items():
            expected: Counter[int] = Counter()
            for slot, share in zip(key_slots, shares[key], strict=True):
                expected[slot] += 3000 * share / sum(shares[key])  # type: ignore[assignment]
            assert {slot: counts[key, slot] for slot in expected} == pytest.approx(expected, abs=2)


def routes(heavy_keys: int) -> RoutingTable:
    keys = np.arange(heavy_keys)
    return RoutingTable.build(64, np.arange(4096) % 64, keys, keys * 7 % 64)


def test_ten_thousand_heavy_keys_are_routed(spark: SparkSession) -> None:
    table = routes(10_000)
    slot = slot_column(table, F.xxhash64("id"))
    rows = spark.range(0, 20_000, 1, 2).select("id", slot.alias("slot")).toArrow().sort_by("id")
    assert rows["slot"].to_pylist() == table.slot_of(np.arange(20_000)).tolist()


def test_the_expression_has_the_same_operations_however_many_keys_are_heavy(spark: SparkSession) -> None:
    """Only its array literals grow: an operation per key would take seconds to build through the Python API."""

    def operations(heavy_keys: int) -> str:
        return re.sub(r"[-\d,\[\]]+", "", str(slot_column(routes(heavy_keys), F.xxhash64("id"))))

    assert operations(10_000) == operations(10)
    assert "from_json" in operations(10)


def test_ten_thousand_heavy_hashes_fit_the_first_layout_that_is_tried() -> None:
    cells, _ = cuckoo_cells(routes(10_000).hashes)
    assert len(cells) == 32_768


def test_every_heavy_hash_is_in_one_of_its_cells_and_no_other_hash_matches() -> None:
    draw = np.random.default_rng(3)
    # Small numbers, and numbers that share their low bits, point to few cells: the layout has to grow.
    hashes = np.unique(np.concatenate([draw.integers(-(2**63), 2**63 - 1, 500), np.arange(-50, 50) << 36]))
    cells, held = cuckoo_cells(hashes)
    for cell, number in enumerate(held.tolist()):
        homes = {(number % 2**64 >> shift) % len(cells) for shift in (12, 36)}
        assert (cell in homes) == (cells[cell] >= 0)
    assert sorted(cells[cells >= 0].tolist()) == list(range(len(hashes)))


def test_hashes_made_to_collide_are_refused() -> None:
    with pytest.raises(ValueError, match="3 heavy keys cannot be laid out"):
        cuckoo_cells(np.array([1, 2, 3]))
