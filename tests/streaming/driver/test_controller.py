"""What the controller decides, with a real ledger and real slots; only Spark is missing.

The sink stands in for Spark: the slots run when it reads the batch.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.streaming.worker.slot_world import BUCKETS, KEYS, MAX_SLOTS, StreamWorld, alike, key_type
from unskew.core.hashing import hash_keys
from unskew.core.migration.budget import Budget
from unskew.core.migration.policy import Policy
from unskew.core.migration.protocol import Acknowledgement, Turn
from unskew.core.migration.scaling import LoadRange
from unskew.streaming.driver.callback import Callback
from unskew.streaming.driver.controller import Controller, Steering, histogram_of
from unskew.streaming.storage.ledger import Ledger, Report
from unskew.streaming.worker.slot_step import loads_to_report

Rows = list[tuple[tuple[Any, ...], int]]


class WorldController(Controller):
    """A controller of the simulated world, where a slot that has reported has stored its state."""

    def has_stored_state(self, turn: Turn) -> bool:
        return self.has_all_reports(turn)


class Live:
    """A stream with a controller."""

    def __init__(self, folder: Path, kind: str = "long", slots: int = 2, **steering: Any) -> None:
        self.world = StreamWorld.counting(folder, KEYS[kind][0], Random(1), slots)
        self.steering = Steering(max_slots=MAX_SLOTS, **steering)
        self.truth: Counter[Any] = Counter()
        self.batch = 0
        self.start()

    def start(self) -> None:
        """A new driver: it remembers nothing."""
        world = self.world
        self.controller = WorldController(
            world.ledger, tuple(world.key.names), key_type(world.key), BUCKETS, self.steering
        )
        self.callback = Callback([self.controller], self.sink)

    def sink(self, df: Any, batch: int) -> None:
        self.world.run_slots(batch, self.rows)

    def run(self, rows: Rows) -> dict[str, Any]:
        """A batch; returns its line in the journal."""
        self.rows = rows
        self.callback(None, self.batch)  # type: ignore[arg-type]
        self.world.commit()
        self.truth.update(alike(k) for k, _ in rows)
        self.batch += 1
        assert {k: n for k, (n, _) in self.world.state(self.batch).items()} == self.truth
        return self.ledger.lines()[-1]

    @property
    def ledger(self) -> Ledger:
        return self.world.ledger


def skewed(slots: int, heavy: Callable[[int], int] = lambda i: 6 - i) -> Rows:
    """Records whose heaviest keys are all in slot 0 of a hashed table."""
    keys = np.arange(400)
    on_zero = keys[(hash_keys(keys) % BUCKETS) % slots == 0][:6].tolist()
    return [((k,), 1) for i, k in enumerate(on_zero) for _ in range(30 * heavy(i))] + [
        ((int(k),), 1) for k in keys[100:160]
    ]


@pytest.mark.parametrize("suffix", [".changelog", ".zip", "_unique-id.changelog"])
def test_state_that_a_run_left_which_was_cut_off_does_not_count_as_stored(
    tmp_path: Path, suffix: str
) -> None:
    live = Live(tmp_path)

    def store(version: int, partitions: int, second: int) -> None:
        """Store state as Spark does: a file that exists is replaced."""
        for partition in range(partitions):
            file = tmp_path / "state" / "0" / str(partition) / f"{version}{suffix}"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(b"")
            os.utime(file, (1e9 + second, 1e9 + second))

    store(version=1, partitions=MAX_SLOTS, second=0)
    world = live.world
    controller = Controller(world.ledger, tuple(world.key.names), key_type(world.key), BUCKETS, live.steering)
    turn = controller.open(0)
    assert not controller.has_stored_state(turn)
    store(version=1, partitions=MAX_SLOTS - 1, second=1)
    assert not controller.has_stored_state(turn)
    store(version=1, partitions=MAX_SLOTS, second=2)
    assert controller.has_stored_state(turn)
    controller.open(0)
    assert controller.has_stored_state(turn), "it is this run's own state"


def test_a_planner_that_uses_several_windows_gets_the_recent_ones(tmp_path: Path) -> None:
    live = Live(tmp_path, planner="clb")
    reasons = [live.run(skewed(2))["decision"]["reason"] for _ in range(3)]
    assert "nothing was measured yet" not in reasons


def test_a_skewed_stream_is_balanced_within_three_batches(tmp_path: Path) -> None:
    live = Live(tmp_path)
    lines = [live.run(skewed(2)) for _ in range(5)]
    assert lines[0]["imbalance"] > 1.8
    assert lines[0]["decision"]["switch"]
    assert lines[-1]["imbalance"] < 1.1
    assert lines[-1]["imbalance"] >= lines[-1]["bound"] - 1e-3
    moved = [line["moved"]["rows"] for line in lines]
    assert sum(moved) > 0
    assert moved[-1] == 0, "and then it is left alone"
    assert sum(line["moved"]["imported"] for line in lines) == sum(moved)
    planned = next(line["planned"] for line in lines if line["planned"] is not None)
    assert lines[-1]["imbalance"] == pytest.approx(planned, abs=0.05)


def test_a_line_has_the_state_of_each_slot_and_which_top_keys_are_heavy(tmp_path: Path) -> None:
    live = Live(tmp_path)
    lines = [live.run(skewed(2)) for _ in range(4)]
    assert not any(lines[0]["top_heavy"]), "the first table hashes"
    state, table = lines[-1]["state"], live.ledger.turn(3).table
    heavy = {
        key
        for (key, _, _), is_heavy in zip(lines[-1]["top"], lines[-1]["top_heavy"], strict=True)
        if is_heavy
    }
    assert heavy
    assert heavy <= {str(key) for key in table.heavy}
    assert sum(size for _, size in state["bytes_by_slot"]) == state["bytes"] > 0
    assert [slot for slot, _ in state["bytes_by_slot"]] == [slot for slot, _ in state["by_slot"]] == [0, 1]


def test_a_fixed_table_stays(tmp_path: Path) -> None:
    live = Live(tmp_path, policy=None)
    lines = [live.run(skewed(2)) for _ in range(3)]
    assert {line["version"] for line in lines} == {1}
    assert lines[-1]["decision"] == {
        "switch": False,
        "reason": "the table is fixed",
        "gain": 0.0,
        "cost": 0.0,
    }


def test_an_empty_stream_decides_nothing(tmp_path: Path) -> None:
    live = Live(tmp_path)
    lines = [live.run([]) for _ in range(3)]
    assert {line["decision"]["reason"] for line in lines} == {"nothing was measured yet"}
    assert lines[-1]["imbalance"] == 1.0


@pytest.mark.parametrize(("first", "then"), [(1, 4), (4, 1), (2, 3)])
def test_a_wish_for_slots_is_followed_both_ways(tmp_path: Path, first: int, then: int) -> None:
    live = Live(tmp_path, slots=first)
    live.run(skewed(1))
    live.ledger.write_wish(then)
    lines = [live.run(skewed(1)) for _ in range(3)]
    assert lines[0]["decision"]["reason"].startswith(f"{then} slots instead of {first}")
    assert lines[-1]["slots"] == then
    assert sum(load > 0 for load in lines[-1]["loads"]) == then
    live.ledger.write_wish(None)
    assert live.run(skewed(1))["slots"] == then, "without scaling, N stays as it is"


def test_a_wish_for_more_than_max_slots_is_limited(tmp_path: Path) -> None:
    live = Live(tmp_path)
    live.ledger.write_wish(99)
    assert [live.run(skewed(2))["slots"] for _ in range(3)][-1] == MAX_SLOTS


def test_scaling_changes_the_number_of_slots_with_the_load(tmp_path: Path) -> None:
    live = Live(tmp_path, slots=1, scaling=LoadRange(100, 300))
    high = [((i % 50,), 1) for i in range(700)]
    assert [live.run(high)["slots"] for _ in range(3)][-1] == 4
    low = high[:150]
    assert [live.run(low)["slots"] for _ in range(3)][-1] == 1


@pytest.mark.parametrize("then", [1, 4])
def test_a_migration_in_steps_moves_a_little_each_batch_and_arrives(tmp_path: Path, then: int) -> None:
    live = Live(tmp_path, slots=3, policy=None, budget=Budget.fluid(2))
    rows = [((i,), 1) for i in range(200)]
    live.run(rows)
    live.ledger.write_wish(then)
    lines = [live.run(rows) for _ in range(9)]
    assert lines[-1]["slots"] == then
    assert sum(load > 0 for load in lines[-1]["loads"]) == then
    turns = [live.ledger.turn(batch) for batch in range(live.batch)]
    steps = [int((t.table.buckets != t.target.buckets).sum()) for t in turns if t.target is not None]
    assert len(steps) > 1
    assert max(steps) <= 2
    assert max(line["moved"]["rows"] for line in lines) < 100
    assert lines[-1]["next"] is None


def test_a_new_driver_goes_on_balancing(tmp_path: Path) -> None:
    live = Live(tmp_path, budget=Budget.fluid(1))
    for _ in range(8):
        line = live.run(skewed(2))
        live.start()
    assert line["imbalance"] < 1.2


def test_a_long_patience_gets_the_windows_it_asks_for(tmp_path: Path) -> None:
    live = Live(tmp_path, policy=Policy(patience=10, tolerance=0.0))
    switches = [live.run(skewed(2))["decision"]["switch"] for _ in range(12)]
    assert switches.index(True) == 9


def test_small_handoffs_do_not_make_a_key_look_costly(tmp_path: Path) -> None:
    """A handoff of a few keys takes as long as flushing its file, which says nothing about a key."""
    live = Live(tmp_path)
    before = live.controller.seconds_per_key
    lines = [live.run(skewed(2)) for _ in range(4)]
    assert sum(line["moved"]["rows"] for line in lines) > 0
    assert live.controller.seconds_per_key == before


def test_the_cooldown_holds_after_the_journal_is_lost(tmp_path: Path) -> None:
    """The journal is for people: what is decided comes from the turns."""
    live = Live(tmp_path, policy=Policy(cooldown=4, tolerance=0.0))
    while live.ledger.turn(live.batch).since == 0:
        live.run(skewed(2))
    live.ledger.folder.delete("journal")
    live.start()
    waiting = [live.run(skewed(2, lambda i: i + 1))["decision"] for _ in range(2)]
    assert ["windows since the last switch" in decision["reason"] for decision in waiting] == [True, True]
    later = [live.run(skewed(2, lambda i: i + 1))["decision"]["switch"] for _ in range(4)]
    assert True in later


def test_a_driver_that_died_after_publishing_finds_its_turn_again(tmp_path: Path) -> None:
    live = Live(tmp_path)
    live.rows = skewed(2)
    live.callback(None, 0)  # type: ignore[arg-type]
    turn = live.ledger.turn(1)
    live.start()  # died before Spark committed
    live.run(skewed(2))
    assert live.ledger.turn(1) == turn
    assert [line["batch"] for line in live.ledger.lines()] == [0]
    for _ in range(3):
        line = live.run(skewed(2))
    assert line["imbalance"] < 1.1


@pytest.mark.parametrize("kind", sorted(KEYS))
def test_every_type_of_key_can_be_planned_and_journaled(tmp_path: Path, kind: str) -> None:
    live = Live(tmp_path, kind, policy=Policy(patience=1, cooldown=0, tolerance=0.0))
    keys = KEYS[kind][1]
    for i in range(3):
        rows = [(key, 1) for n, key in enumerate(keys) for _ in range(1 + 10 * ((n + i) % len(keys)))]
        line = live.run(rows)
        assert json.loads(json.dumps(line)) == line
        assert line["records"] == len(rows)
        assert sum(n for _, n, _ in line["top"]) == len(rows)
    live.ledger.write_wish(3)
    assert [live.run(rows)["slots"] for _ in range(3)][-1] == 3


def test_the_histogram_of_a_batch_has_every_record_once() -> None:
    reports, total = [], 0.0
    for slot, (start, end) in enumerate([(0, 2000), (2000, 2003), (2003, 2003)]):
        hashes = hash_keys(np.arange(start, end))
        records = np.arange(start, end) + 1.0
        total += records.sum()
        loads = pa.table(
            {
                "hash": hashes,
                "key.0": pa.array(np.arange(start, end)),
                "records": pa.array(records, pa.float64()),
            }
        )
        rows = loads_to_report(loads, np.bincount(hashes % BUCKETS, minlength=BUCKETS))
        reports.append(Report(Acknowledgement(slot, 0, 0), rows, {}))
    histogram = histogram_of(reports, ("k",), pa.int64(), BUCKETS)
    assert histogram.total == total
    assert histogram.total_state == 2003
    assert histogram.top(3) == [(2002, 2003.0), (2001, 2002.0), (2000, 2001.0)]
    assert histogram_of([], ("k",), pa.int64(), BUCKETS).total == 0
