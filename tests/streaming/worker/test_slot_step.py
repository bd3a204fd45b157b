"""A stream through map tasks, slots and turns: state moves, everything crashes, nothing is lost or doubled."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.streaming.worker.slot_world import BUCKETS, KEYS, DictStore, StreamWorld, alike, random_table
from unskew.core.migration.protocol import ProtocolError
from unskew.core.routing import RoutingTable
from unskew.streaming.operators.operator import Clock
from unskew.streaming.storage.ledger import LedgerError
from unskew.streaming.worker.slot_step import TRACKED, loads_to_report


class Crash(Exception):  # noqa: N818 it is what the test is about
    """The driver dies."""


class Truth:
    """One thread, one dict."""

    def __init__(self) -> None:
        self.counts: Counter[Any] = Counter()
        self.totals: Counter[Any] = Counter()

    def add(self, rows: list[tuple[tuple[Any, ...], int]]) -> dict[Any, tuple[int, int]]:
        """Add a batch; returns what it must emit."""
        for key, value in rows:
            self.counts[alike(key)] += 1
            self.totals[alike(key)] += value
        return {alike(k): (self.counts[alike(k)], self.totals[alike(k)]) for k, _ in rows}

    def state(self) -> dict[Any, tuple[int, int]]:
        return {k: (n, self.totals[k]) for k, n in self.counts.items()}


def output(world: StreamWorld, outs: list[pa.Table]) -> dict[Any, tuple[int, int]]:
    values = {}
    for row in pa.concat_tables(outs).to_pylist():
        name = alike(tuple(row[n] for n in world.key.names))
        assert name not in values, "a key is emitted by one slot"
        values[name] = (row["n"], row["total"])
    return values


def run_batch(
    world: StreamWorld,
    batch: int,
    rows: list[tuple[tuple[Any, ...], int]],
    keys: list[Any],
    events: Counter[str],
) -> list[pa.Table]:
    """Run a batch until it is committed; the driver may die after some slots, or before or after it published."""
    random = world.random

    def choose(table: RoutingTable) -> RoutingTable | None:
        if random.random() < 0.2:
            return None
        return random_table(random, world.key, keys).with_version(table.version + 1)

    for _ in range(100):
        fate = random.choice(["slots", "acks", "partly", "published", *["commit"] * 3])
        turn = world.ledger.turn(batch)
        world.ledger.forget_reports(batch)

        def dies(fate: str = fate) -> None:
            if fate == "slots" and random.random() < 0.4:
                raise Crash

        try:
            outs = world.run_slots(batch, rows, before_slot=dies)
        except Crash:
            events["slots"] += 1
            continue
        if fate == "acks":
            events["acks"] += 1
            continue
        acks = [r.ack for r in world.ledger.reports(batch)]
        if fate == "partly":  # it had read only some of them: the exports of the others never happened
            events["partly"] += 1
            world.ledger.publish(turn.close(random.sample(acks, len(acks) // 2), choose))
            continue
        turn.confirm(world.ledger.publish(turn.close(acks, choose)), acks)
        if fate == "published":
            events["published"] += 1
            continue
        world.commit()
        events["moved"] += sum(e.rows for a in acks for e in a.exported or ())
        return outs
    raise AssertionError("it never commits")


@pytest.mark.parametrize("kind", sorted(KEYS))
def test_the_state_of_every_key_is_that_of_a_single_thread(kind: str, tmp_path: Path) -> None:
    events: Counter[str] = Counter()
    key, keys = KEYS[kind]
    if kind in ("string", "long"):  # more keys than can all be in a slot of their own
        keys = keys + [(f"{i}" if kind == "string" else i * 1000 + 3,) for i in range(30)]
    for seed in range(2):
        world = StreamWorld.counting(tmp_path / str(seed), key, Random(seed))
        truth = Truth()
        for batch in range(7):
            rows = [(world.random.choice(keys), world.random.randrange(100)) for _ in range(12)]
            outs = run_batch(world, batch, rows if batch != 4 else [], keys, events)
            if batch != 4:
                assert output(world, outs) == truth.add(rows)
            assert world.state(batch + 1) == truth.state()
    assert events["moved"] > 0
    assert events["slots"] + events["acks"] + events["partly"] + events["published"] > 3


def one_move(tmp_path: Path) -> StreamWorld:
    """A world in which all state of slot 0 is on its way to slot 1, to arrive in batch 2."""
    world = StreamWorld.counting(tmp_path, KEYS["long"][0], Random(1))
    for batch in range(2):
        turn = world.ledger.turn(batch)
        world.run_slots(batch, [((i,), 1) for i in range(20)])
        acks = [r.ack for r in world.ledger.reports(batch)]
        target = RoutingTable.build(2, [1] * BUCKETS, key_type=pa.int64(), version=turn.table.version + 1)
        world.ledger.publish(turn.close(acks, lambda table, target=target: target))
        world.commit()
    assert world.ledger.turn(2).pending
    return world


@pytest.mark.parametrize("damage", [None, b"", b"{}\nx"])
def test_a_lost_or_damaged_handoff_stops_the_slot_and_is_named(tmp_path: Path, damage: bytes | None) -> None:
    world = one_move(tmp_path)
    (handoff,) = world.ledger.turn(2).pending
    path = tmp_path / "unskew" / handoff.file
    if damage is None:
        path.unlink()
    else:
        path.write_bytes(damage)
    with pytest.raises(LedgerError, match=handoff.file):
        world.run_slots(2, [])
    assert 1 not in world.ledger.reported_slots(2)


def test_a_missing_turn_stops_the_slot_and_is_named(tmp_path: Path) -> None:
    world = one_move(tmp_path)
    payloads = world.shuffled(2, [])
    (tmp_path / "unskew" / "turns" / "2").unlink()
    with pytest.raises(LedgerError, match="turns/2 is missing"):
        world.step.run(0, 2, payloads[0], None, "x", world.stores[0], world.cache)  # type: ignore[arg-type]


def test_a_state_that_is_older_than_the_ledger_is_refused(tmp_path: Path) -> None:
    world = one_move(tmp_path)
    del world.stores[0]
    with pytest.raises(
        ProtocolError, match="slot 0 acknowledged batch 1, but its state has applied no batch"
    ):
        world.run_slots(2, [])


def test_a_slot_reports_what_it_did(tmp_path: Path) -> None:
    world = one_move(tmp_path)
    (handoff,) = world.ledger.turn(2).pending
    world.run_slots(2, [((i % 5,), 1) for i in range(40)])
    source, destination = world.ledger.reports(2)
    assert (source.figures["state_rows"], source.figures["records"]) == (0, 0)
    assert (destination.figures["state_rows"], destination.figures["imported"]) == (20, handoff.rows)
    assert (destination.figures["records"], destination.figures["late"]) == (40, 0)
    assert set(destination.figures["seconds"]) >= {"load", "import", "handle", "export", "store"}
    assert destination.figures["written"] > 0
    assert destination.loads["state"].to_numpy().sum() == 20
    assert destination.loads["records"].to_numpy().sum() == 40


def test_a_batch_without_records_imports_and_expires_but_sends_nothing_that_might_not_arrive(
    tmp_path: Path,
) -> None:
    world = one_move(tmp_path)
    turn = world.ledger.turn(2)
    (handoff,) = turn.pending
    back = RoutingTable.build(2, [0] * BUCKETS, key_type=pa.int64(), version=turn.table.version + 1)
    turn = replace(turn, batch=3, target=back)
    world.ledger.publish(turn)
    store = world.stores[1].copy()
    world.step.run(1, 3, [], Clock(0, 7), "timer", store, world.cache)
    (report,) = world.ledger.reports(3)
    assert report.figures["imported"] == handoff.rows
    assert report.ack.exported is None
    after = turn.close([report.ack])
    assert (after.pending, after.table.version) == ((), turn.table.version)

    # a replay, though, repeats what the next turn counts on
    world.ledger.publish(replace(after, exporters=frozenset([1])))
    world.step.run(1, 3, [], Clock(0, 7), "replay", world.stores[1].copy(), world.cache)
    (report,) = world.ledger.reports(3)
    assert report.ack.exported


def test_a_timer_of_a_slot_that_is_not_in_use_does_nothing(tmp_path: Path) -> None:
    world = one_move(tmp_path)
    assert len(world.step.run(2, 2, [], Clock(0, 7), "timer", DictStore(), world.cache)) == 0
    assert 2 not in world.ledger.reported_slots(2)


def test_the_heaviest_keys_are_reported_one_by_one_and_the_rest_by_bucket() -> None:
    n = TRACKED + 300
    hashes = np.arange(n, dtype=np.int64) * 7 - 1000
    heavy = np.random.default_rng(1).permutation(n).astype(np.float64) + 1
    loads = pa.table({"hash": hashes, "key.0": [str(h) for h in hashes], "records": heavy})
    buckets = hashes % BUCKETS
    state_rows = np.bincount(buckets, minlength=BUCKETS) + 3  # some keys have no records in this batch
    rows = loads_to_report(loads, state_rows)
    is_bucket = rows["bucket"].to_numpy()
    tracked, rest = rows.filter(pa.array(~is_bucket)), rows.filter(pa.array(is_bucket))
    assert sorted(tracked["records"].to_pylist()) == list(range(301, n + 1))
    assert tracked["key.0"].to_pylist() == [str(h) for h in tracked["hash"].to_pylist()]
    assert rest["key.0"].null_count == len(rest) == BUCKETS
    assert rows["records"].to_numpy().sum() == heavy.sum()
    assert rows["state"].to_numpy().sum() == state_rows.sum()
    light = heavy <= 300
    np.testing.assert_array_equal(
        rest["records"].to_numpy(), np.bincount(buckets[light], heavy[light], BUCKETS)
    )
    np.testing.assert_array_equal(rest["distinct"].to_numpy(), np.bincount(buckets[light], minlength=BUCKETS))


def test_keys_with_the_same_hash_are_one_load(tmp_path: Path) -> None:
    """A table has one row per hash, so two heavy rows with the same hash could not be planned."""
    world = StreamWorld.counting(tmp_path, KEYS["composite"][0], Random(1), slots=1)
    world.run_slots(0, [(("a", None), 1), ((None, "a"), 1), (("a", "b"), 1)])
    (report,) = world.ledger.reports(0)
    tracked = report.loads.filter(pa.array(~report.loads["bucket"].to_numpy()))
    assert sorted(tracked["records"].to_pylist()) == [1, 2]
    assert report.loads["state"].to_numpy().sum() == 3
