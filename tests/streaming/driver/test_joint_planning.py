"""Tables of two operators, planned together from the reports of their slots and of the tasks between them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from unskew.core.chains.pairs import PairHistogram
from unskew.core.hashing import hash_keys
from unskew.core.migration.protocol import Acknowledgement, Turn, first_turn
from unskew.core.routing import RoutingTable
from unskew.streaming.driver.controller import Controller, Goal, Steering
from unskew.streaming.driver.joint_planning import JointPlanner
from unskew.streaming.operators.operator import RECORDS
from unskew.streaming.storage.layout import HASH
from unskew.streaming.storage.ledger import Ledger, Report
from unskew.streaming.worker.slot_step import loads_to_report

SLOTS, BUCKETS, KEYS = 4, 64, 40


class Chain:
    """Two chained operators of four slots on four executors, without Spark: what they would report on a batch."""

    def __init__(self, folder: Path, every: int = 2, *, executors: str = "wxyz") -> None:
        self.ledgers = [Ledger(str(folder), "chain", number, 1 - number) for number in (0, 1)]
        for ledger in self.ledgers:
            ledger.publish(first_turn(RoutingTable.hashed(SLOTS, BUCKETS, pa.int64()).with_version(1)))
        self.executors = executors
        self.every = every
        self.batch = 0
        self.start()

    def start(self) -> None:
        """A new driver: it remembers nothing."""
        steering = Steering(planner="locality", max_slots=SLOTS, operators=2)
        self.controllers = [
            Controller(ledger, ("k",), pa.int64(), BUCKETS, steering) for ledger in self.ledgers
        ]
        self.joint = JointPlanner(self.every)

    def run(self, a: np.ndarray, b: np.ndarray) -> list[Goal] | None:
        """A batch of records; returns what was decided, which then takes effect."""
        turns = [controller.open(self.batch) for controller in self.controllers]
        pairs = PairHistogram.from_arrays(
            pa.nulls(len(a)), pa.nulls(len(a)), np.ones(len(a)), hashes=(hash_keys(a), hash_keys(b))
        )
        self.ledgers[1].write_pairs(self.batch, 0, pairs)
        for ledger, turn, keys in zip(self.ledgers, turns, (a, b), strict=True):
            for slot in range(SLOTS):
                ledger.write_report(self.report(turn, slot, keys))
        reports = [c.collect_reports(turn, 1.0) for c, turn in zip(self.controllers, turns, strict=True)]
        goals = self.joint.decide(self.controllers, turns, reports)
        for i, (controller, turn) in enumerate(zip(self.controllers, turns, strict=True)):
            controller.close(turn, reports[i], 1.0, None if goals is None else goals[i])
        self.batch += 1
        return goals

    def report(self, turn: Turn, slot: int, keys: np.ndarray) -> Report:
        names, counts = np.unique(keys[turn.table.slot_of(keys) == slot], return_counts=True)
        loads = pa.table({HASH: hash_keys(names), RECORDS: counts, "key.0": names})
        seconds = {"export": 0.0, "handle": 0.1}
        figures = dict.fromkeys(("late", "state_rows", "state_bytes", "written", "imported"), 0)
        figures |= {"records": int(counts.sum()), "seconds": seconds, "executor": self.executors[slot]}
        exported = None if turn.target is None else ()
        ack = Acknowledgement(slot, turn.batch, turn.batch, exported)
        return Report(ack, loads_to_report(loads, np.zeros(BUCKETS, np.int64)), figures)

    def stays(self, a: np.ndarray, b: np.ndarray) -> float:
        """The share of records that stay in the same slot number between the two operators."""
        first, second = (ledger.turn(self.batch).table for ledger in self.ledgers)
        return float((first.slot_of(a) == second.slot_of(b)).mean())


def related(seed: int, rows: int = 3000) -> tuple[np.ndarray, np.ndarray]:
    """Each first key comes with one second key most of the time."""
    random = np.random.default_rng(seed)
    a = random.integers(0, KEYS, rows)
    return a, np.where(
        random.random(rows) < 0.9, a * 7 % KEYS + 1000, random.integers(1000, 1000 + KEYS, rows)
    )


def unrelated(seed: int, rows: int = 3000, keys: int = 1500) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    return random.integers(0, keys, rows), random.integers(9000, 9000 + keys, rows)


def test_related_keys_end_on_one_executor(tmp_path: Path) -> None:
    chain = Chain(tmp_path)
    for seed in range(8):
        chain.run(*related(seed))
    assert chain.stays(*related(99)) > 0.85
    line = chain.ledgers[1].lines()[-1]
    assert line["locality"] > 0.85
    assert "would not pay" in line["decision"]["reason"] or "every 2 batches" in line["decision"]["reason"]


def test_unrelated_keys_move_nothing(tmp_path: Path) -> None:
    chain = Chain(tmp_path)
    decisions = [chain.run(*unrelated(seed)) for seed in range(8)]
    assert all(goals is not None and not any(g.decision.switch for g in goals) for goals in decisions)
    assert chain.ledgers[0].turn(8).table.version == 1


def test_a_new_driver_uses_the_pairs_that_the_last_one_counted(tmp_path: Path) -> None:
    chain = Chain(tmp_path, every=4)
    for seed in range(8):
        chain.start()  # after every batch
        chain.run(*related(seed))
    assert chain.stays(*related(99)) > 0.85


def test_uneven_slots_are_balanced_if_there_is_no_locality_to_gain(tmp_path: Path) -> None:
    chain = Chain(tmp_path)
    table = chain.ledgers[0].turn(0).table
    on_zero = np.flatnonzero(table.slot_of(np.arange(3000)) == 0)
    for seed in range(6):
        a, b = unrelated(seed)
        chain.run(on_zero[a % len(on_zero)], b)
    lines = chain.ledgers[0].lines()
    assert lines[0]["imbalance"] > 3
    assert lines[-1]["imbalance"] < 1.4
    assert any("for balance" in line["decision"]["reason"] for line in lines)


def test_if_an_executor_lacks_a_slot_of_one_operator_each_is_planned_alone(tmp_path: Path) -> None:
    chain = Chain(tmp_path)
    normal = chain.report

    def elsewhere(turn: Turn, slot: int, keys: np.ndarray) -> Report:
        report = normal(turn, slot, keys)
        if keys.min() >= 1000:
            report.figures["executor"] = "w"  # type: ignore[index]
        return report

    chain.report = elsewhere  # type: ignore[method-assign]
    assert chain.run(*related(0)) is None


def test_a_damaged_file_costs_only_a_figure(tmp_path: Path) -> None:
    chain = Chain(tmp_path)
    chain.run(*related(0))
    chain.ledgers[1].folder.write("pairs/0/0", b"nonsense")
    chain.start()
    assert chain.run(*related(1)) is not None


@pytest.mark.parametrize("every", [0, "10", True, 2.5])
def test_every_is_a_number_of_batches(every: object) -> None:
    with pytest.raises(ValueError, match="every is a whole number"):
        JointPlanner(every)  # type: ignore[arg-type]
