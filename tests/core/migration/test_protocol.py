from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest

from tests.core.migration.protocol_world import BUDGETS, HASHES, MEASURED, POOL, SLOTS, Violation, World
from unskew.core.migration.protocol import (
    Acknowledgement,
    Choose,
    Exported,
    Handoff,
    ProtocolError,
    Turn,
    first_turn,
)
from unskew.core.routing import RoutingTable

SCHEDULES = 10_000


def length(seed: int) -> int:
    """Between 2 and 8 batches."""
    return 2 + seed % 7


def run_all(kind: type[Turn], schedules: int, *, haunted: bool = True) -> Counter[str]:
    """How often each event occurred in that many schedules."""
    met: Counter[str] = Counter()
    for seed in range(schedules):
        met += World(seed, kind, haunted=haunted).run(length(seed)).met
    return met


def test_no_schedule_of_crashes_retries_and_moves_loses_or_doubles_state() -> None:
    met = run_all(Turn, SCHEDULES)
    # the schedules prove something only if they ran into what they are about
    assert met["batches"] == sum(length(seed) for seed in range(SCHEDULES))
    for crash in ("after some slots", "after the acknowledgements", "after publishing"):
        assert met[crash] > SCHEDULES / 2
    assert met["moves"] > SCHEDULES
    assert met["late call"] > SCHEDULES / 10
    assert met["published by another driver"] > SCHEDULES / 100


class IgnoresTheNextTurn(Turn):
    """A slot called late exports, though the next turn is settled without it, and no one checks."""

    def exports(self, slot: int, after: Turn | None) -> RoutingTable | None:
        return self.target

    def confirm(self, after: Turn, acks: Iterable[Acknowledgement]) -> None:
        pass


class TrustsSilence(Turn):
    """Moves take effect whether or not they were acknowledged."""

    def close(self, acks: Iterable[Acknowledgement], choose: Choose | None = None) -> Turn:
        after = super().close(acks, choose)
        if self.target is None or self.target.same_routes(self.table):
            return after
        return replace(after, table=self.target.with_version(self.table.version + 1))


class ForgetsExporters(Turn):
    """What was exported before the crash is not exported again in the replay."""

    def close(self, acks: Iterable[Acknowledgement], choose: Choose | None = None) -> Turn:
        return replace(super().close(acks, choose), exporters=None)


class ImportsAgain(Turn):
    """A slot does not compare handoffs with what it has applied."""

    def imports(self, slot: int, applied: int | None) -> tuple[Handoff, ...]:
        return tuple(h for h in self.pending if h.destination == slot)


class ForgetsHandoffs(Turn):
    """A handoff is listed in one turn only, whether or not its destination was called."""

    def close(self, acks: Iterable[Acknowledgement], choose: Choose | None = None) -> Turn:
        after = super().close(acks, choose)
        return replace(after, pending=tuple(h for h in after.pending if h.released == after.batch))


class ReleasesEarly(Turn):
    """A handoff counts as released in the batch that wrote it, which its destination has applied."""

    def close(self, acks: Iterable[Acknowledgement], choose: Choose | None = None) -> Turn:
        after = super().close(acks, choose)
        early = (replace(h, released=self.batch) if h.released == after.batch else h for h in after.pending)
        return replace(after, pending=tuple(early))


class BelievesTheOtherDriver(Turn):
    """A run continues although another driver published the next turn without its exports."""

    def confirm(self, after: Turn, acks: Iterable[Acknowledgement]) -> None:
        pass


@pytest.mark.parametrize(
    "broken",
    [IgnoresTheNextTurn, TrustsSilence, ForgetsExporters, ImportsAgain, ForgetsHandoffs, ReleasesEarly],
)
def test_the_world_notices_a_broken_protocol(broken: type[Turn]) -> None:
    with pytest.raises(Violation):
        run_all(broken, 1000, haunted=False)


def test_another_driver_does_harm_unless_its_turn_is_confirmed() -> None:
    run_all(BelievesTheOtherDriver, 500, haunted=False)
    with pytest.raises(Violation):
        run_all(BelievesTheOtherDriver, 500)


def test_a_replay_that_leaves_out_a_slot_is_refused_before_it_does_harm() -> None:
    refused = 0
    for seed in range(1000):
        try:
            World(seed, shrinking=True).run(length(seed))
        except ProtocolError:
            refused += 1
    assert refused > 100


@pytest.mark.parametrize("seed", range(40))
def test_a_goal_is_reached_when_every_slot_is_called(seed: int) -> None:
    goal, budget, measured = POOL[-1 - seed], BUDGETS[seed % len(BUDGETS)], MEASURED[seed // 4 % 2]
    turn = World(seed).run(length(seed)).turns[length(seed)]
    for _ in range(40):
        acks = [
            Acknowledgement(slot, turn.batch, turn.batch, None if turn.target is None else ())
            for slot in range(SLOTS)
        ]
        turn = turn.close(acks, lambda table: budget.step(table, goal, measured))
    assert turn.table.same_routes(goal)
    assert turn.target is None
    assert not turn.pending


OLD = RoutingTable.build(3, [0, 0, 1, 2])
NEW = RoutingTable.build(3, [0, 1, 2, 2])


def moving() -> Turn:
    return first_turn(OLD, batch=4).close([], lambda table: NEW)


def ack(slot: int, batch: int = 5, *to: int, exported: bool = True) -> Acknowledgement:
    files = tuple(Exported(f"{batch}-{slot}-{d}", d, 1, 8) for d in to)
    return Acknowledgement(slot, batch, batch, files if exported else None)


def test_only_acknowledged_moves_take_effect() -> None:
    turn = moving()
    assert (turn.table, turn.target, turn.exporters) == (OLD, NEW, None)
    after = turn.close([ack(0, 5, 1), ack(2, exported=False)])
    assert after.table.buckets.tolist() == [0, 1, 1, 2]
    assert after.table.version == OLD.version + 1
    assert after.exporters == {0}
    assert after.pending == (Handoff("5-0-1", 0, 1, 6, 1, 8),)


def test_a_slot_with_nothing_to_export_gives_up_its_entries() -> None:
    assert moving().close([ack(0), ack(1)]).table.same_routes(NEW)
    assert moving().close([]).table is OLD


def test_a_replayed_slot_exports_only_what_counted() -> None:
    turn = moving()
    after = turn.close([ack(0, 5, 1)])
    assert turn.exports(1, None) is NEW
    assert turn.exports(0, after) is NEW
    assert turn.exports(1, after) is None
    assert first_turn(OLD).exports(0, None) is None
    with pytest.raises(ValueError, match="the turn after 5 is 6, not 5"):
        turn.exports(0, turn)


def test_imports_are_those_released_since_in_order_of_release_then_source() -> None:
    listed = [("d", 3, 7), ("c", 2, 7), ("b", 3, 6), ("a", 1, 5)]
    turn = Turn(8, OLD, pending=tuple(Handoff(f, s, 0, r, 1, 8) for f, s, r in listed))
    assert [h.file for h in turn.imports(0, None)] == ["a", "b", "c", "d"]
    assert [h.file for h in turn.imports(0, 5)] == ["b", "c", "d"]
    assert turn.imports(0, 7) == turn.imports(1, None) == ()


def test_a_handoff_is_pending_until_its_destination_acknowledges() -> None:
    turn = moving().close([ack(0, 5, 1)])
    assert [handoff.destination for handoff in turn.pending] == [1]
    silent = turn.close([ack(0, 6, exported=False)])
    assert silent.pending == turn.pending
    acknowledged = silent.close([ack(1, 7, exported=False)])
    assert acknowledged.pending == ()
    assert acknowledged.imported == {0: 6, 1: 7}
    at_once = turn.close([ack(1, 6, exported=False)])
    assert at_once.pending == ()


def test_a_slot_whose_state_is_older_than_its_acknowledgement_is_refused() -> None:
    turn = moving().close([ack(1)])
    assert turn.imports(1, 5) == ()
    for applied in (4, None):
        with pytest.raises(ProtocolError, match="slot 1 acknowledged batch 5"):
            turn.imports(1, applied)


def test_a_turn_and_an_acknowledgement_print_in_one_line() -> None:
    turn = moving().close([ack(0, 5, 1), ack(2)], lambda table: NEW)
    assert repr(turn) == "Turn(batch 6, table version 1, target version 0, 1 pending handoffs)"
    assert repr(first_turn(OLD)) == "Turn(batch 0, table version 0, no target, 0 pending handoffs)"
    assert repr(ack(0, 5, 1, 2)) == "Acknowledgement(slot 0, batch 5, applied 5, exported 2 rows in 2 files)"
    assert repr(ack(0, exported=False)) == "Acknowledgement(slot 0, batch 5, applied 5, no export)"


def test_a_target_that_changes_nothing_is_none() -> None:
    assert first_turn(OLD).close([], lambda table: OLD.with_version(9)).target is None


def test_a_turn_survives_json() -> None:
    turn = moving().close([ack(0, 5, 1), ack(2)], lambda table: NEW)
    for saved in (turn, first_turn(OLD)):
        meta = json.loads(json.dumps(saved.to_meta()))
        assert Turn.from_meta(meta, saved.table, saved.target) == saved
    with pytest.raises(ValueError, match="table of version 1, not of version 7"):
        Turn.from_meta(turn.to_meta(), turn.table.with_version(7), turn.target)
    with pytest.raises(ValueError, match="target of version 0, not of version None"):
        Turn.from_meta(turn.to_meta(), turn.table, None)


@pytest.mark.parametrize(
    ("acks", "complaint"),
    [
        ([ack(0, 4)], "batch 5 is closed with an acknowledgement of batch 4"),
        ([ack(0), ack(0, 5, 1)], "slot 0 in batch 5 is acknowledged twice"),
        ([Acknowledgement(0, 5, 6)], "applied batch 6"),
        ([ack(0, 5, 0)], "to slot 0, which is not another slot of 0..2"),
        ([ack(0, 5, 3)], "to slot 3, which is not another slot of 0..2"),
    ],
)
def test_impossible_acknowledgements_are_refused(acks: list[Acknowledgement], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        moving().close(acks)


def test_an_export_without_a_target_is_refused() -> None:
    with pytest.raises(ValueError, match="slot 0 in batch 0 exported, but the turn has no target"):
        first_turn(OLD).close([ack(0, 0)])


def test_state_cannot_be_split_or_move_between_tables_of_other_buckets() -> None:
    split = RoutingTable.build(2, [0, 1, 0, 1], ["a"], [[0, 1]])
    with pytest.raises(ValueError, match="'a' names several slots"):
        first_turn(split)
    with pytest.raises(ValueError, match="'a' names several slots"):
        first_turn(OLD).close([], lambda table: split)
    with pytest.raises(ValueError, match="from a table of 4 buckets to one of 8"):
        first_turn(OLD).close([], lambda table: RoutingTable.hashed(2, 8))


def test_the_world_has_heavy_keys_that_share_a_bucket() -> None:
    assert max(Counter((HASHES % np.int64(len(POOL[0].buckets))).tolist()).values()) > 1
    assert sum(len(table.hashes) > 1 for table in POOL) > 100
