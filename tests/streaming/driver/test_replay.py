"""A batch that runs again and computes something else: its state never meets what an earlier run exported."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.streaming.driver.test_controller import Live, Rows
from tests.streaming.worker.slot_world import KEYS, DictStore, alike, random_table
from unskew.core.migration.policy import Decision, Policy
from unskew.core.migration.protocol import ProtocolError
from unskew.core.routing import RoutingTable
from unskew.streaming.driver import controller
from unskew.streaming.storage.lease import Lease, LeaseLostError

State = dict[Any, tuple[int, int]]


class Always(Policy):
    """Switches whenever there is another table."""

    def decide(self, current: Any, candidate: Any, *_: Any, **__: Any) -> Decision:
        return Decision(not current.same_routes(candidate), "always")


class Replays(Live):
    """A stream that remembers what it needs to go back to any batch, and moves state in nearly every batch."""

    def __init__(self, folder: Path, random: Random, monkeypatch: pytest.MonkeyPatch) -> None:
        self.random, self.keys = random, [(i,) for i in range(40)]
        monkeypatch.setattr(controller, "make_table", self.table)
        super().__init__(folder, policy=Always())
        self.replaced = 0
        self.stores: dict[int, dict[int, DictStore]] = {}
        self.states: dict[int, State] = {0: {}}

    def table(self, planner: str, histogram: Any, slots: int, before: RoutingTable, **_: Any) -> RoutingTable:
        return random_table(self.random, KEYS["long"][0], self.keys)

    def attempt(self, rows: Rows, *, commits: bool) -> None:
        self.rows = rows
        self.stores[self.batch] = self.world.stores
        self.callback(None, self.batch)  # type: ignore[arg-type]
        self.replaced += "replay" in self.ledger.lines()[-1]
        if not commits:
            return
        self.world.commit()
        state = dict(self.states[self.batch])
        for key, value in rows:
            n, total = state.get(alike(key), (0, 0))
            state[alike(key)] = (n + 1, total + value)
        self.batch += 1
        self.states[self.batch] = state
        assert self.world.state(self.batch) == state

    def go_back(self, batch: int) -> None:
        """What is left when offsets and commits from a batch on are removed."""
        self.batch, self.world.stores = batch, self.stores[batch]
        self.start()


def random_rows(random: Random) -> Rows:
    return [((random.randrange(40),), random.randrange(100)) for _ in range(20)]


def test_state_and_handoffs_are_always_of_one_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replaced = [random_history(seed, tmp_path / str(seed), monkeypatch) for seed in range(4)]
    assert sum(replaced) > 4


def random_history(seed: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """Batches with replays that compute the same, something else, or go back; returns how many turns were replaced."""
    random = Random(seed)
    live = Replays(folder, random, monkeypatch)
    events: Counter[str] = Counter()
    while live.batch < 10:
        rows = random_rows(random)
        fate = random.choice(["commit", "commit", "another", "same", "back"])
        if fate == "back" and live.batch and events["back"] < 4:
            live.go_back(random.randrange(live.batch))
        elif fate in ("another", "same"):
            live.attempt(rows, commits=False)
            live.start()
            live.attempt(rows if fate == "same" else random_rows(random), commits=True)
        else:
            live.attempt(rows, commits=True)
        events[fate] += 1
    return live.replaced


def test_a_replay_that_computes_the_same_leaves_the_turn_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = Replays(tmp_path, Random(3), monkeypatch)
    rows = random_rows(live.random)
    live.attempt(rows, commits=True)
    live.attempt(rows, commits=False)
    published = (tmp_path / "unskew" / "turns" / "2").read_bytes()
    live.start()
    live.attempt(rows, commits=True)
    assert live.ledger.turn(2).pending
    assert (tmp_path / "unskew" / "turns" / "2").read_bytes() == published
    assert not any("replay" in line for line in live.ledger.lines())


def test_the_state_of_another_run_than_the_handoffs_stops_the_slot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver thought dead may still commit its run of a batch after another driver has replayed it."""
    live = Replays(tmp_path, Random(3), monkeypatch)
    live.attempt(random_rows(live.random), commits=True)
    live.attempt(random_rows(live.random), commits=False)
    committed = live.world.working
    live.start()
    live.attempt(random_rows(live.random), commits=True)
    live.world.stores = committed
    with pytest.raises(ProtocolError, match="remove from 1 on the files of its folders offsets and commits"):
        live.attempt(random_rows(live.random), commits=True)


def test_a_turn_that_another_driver_publishes_meanwhile_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = Replays(tmp_path, Random(3), monkeypatch)
    live.attempt(random_rows(live.random), commits=True)
    own_rows, other_rows = random_rows(live.random), random_rows(live.random)
    turn = live.ledger.turn(live.batch)

    def sink(df: Any, batch: int) -> None:
        live.world.run_slots(batch, other_rows)
        live.ledger.publish(turn.close([report.ack for report in live.ledger.reports(batch)]))
        live.world.run_slots(batch, own_rows)

    live.callback.sink = sink
    with pytest.raises(ProtocolError, match="run the batch again"):
        live.attempt(own_rows, commits=False)
    live.start()
    live.attempt(own_rows, commits=True)


def test_a_driver_that_lost_its_lease_publishes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = Replays(tmp_path, Random(3), monkeypatch)
    lease = Lease(str(tmp_path)).take()
    live.callback.fence = lease.fence
    live.attempt(random_rows(live.random), commits=True)
    published = live.ledger.folder.names("turns")
    live.callback.sink = lambda df, batch: (live.sink(df, batch), lease.release())  # type: ignore[func-returns-value]
    with pytest.raises(LeaseLostError, match="publishes nothing"):
        live.attempt(random_rows(live.random), commits=True)
    assert live.ledger.folder.names("turns") == published
