"""The files beside Spark's checkpoint: read back as written, or refused by name."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
import xxhash

from unskew.core.files import to_ipc
from unskew.core.migration.protocol import Acknowledgement, Exported, Handoff, Turn, first_turn
from unskew.core.routing import RoutingTable
from unskew.streaming.storage import ledger as module
from unskew.streaming.storage.ledger import LINES_PER_FILE, RETAINED_BATCHES, Ledger, LedgerError, Report

ROWS = pa.table({"id": [1, 2], "key.0": ["a", None]})
HANDOFF = f"handoffs/1/0-1-x-{xxhash.xxh3_128_hexdigest(to_ipc(ROWS))[:16]}"
TABLE = RoutingTable.build(2, [0, 1, 0, 1], ["a"], [1], version=1)
OTHER = RoutingTable.build(2, [1, 1, 0, 0], ["b"], [0], version=2)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(str(tmp_path), "this")


def report(slot: int = 0, batch: int = 0, exported: tuple[Exported, ...] | None = None) -> Report:
    return Report(Acknowledgement(slot, batch, batch, exported), ROWS, {"records": 3})


def test_a_turn_is_read_back(ledger: Ledger) -> None:
    turn = Turn(4, TABLE, OTHER, (Handoff("handoffs/3/0-1-x", 0, 1, 4, 5, 80),), frozenset({0}), {0: 3, 1: 2})
    assert ledger.publish(turn) is turn
    assert Ledger(str(ledger.folder.address).removesuffix("/unskew"), "this").turn(4) == turn
    assert ledger.find_turn(5) is None


def test_the_first_turn_that_is_published_counts(ledger: Ledger) -> None:
    ledger.publish(first_turn(TABLE))
    assert ledger.publish(first_turn(OTHER)).table == TABLE
    assert ledger.turn(0).table == TABLE


def test_if_drivers_publish_at_once_one_wins_and_all_go_on_with_its_tables(tmp_path: Path) -> None:
    """No driver publishes before all of them have checked that no turn is published."""
    drivers, rounds = 8, 20
    barrier = threading.Barrier(drivers)
    tables = [RoutingTable.build(2, [i & 1, i >> 1 & 1, i >> 2 & 1, 0], version=2) for i in range(drivers)]

    class Late(Ledger):
        def find_turn(self, batch: int) -> Turn | None:
            turn = super().find_turn(batch)
            if turn is None:
                barrier.wait()
            return turn

    def publish(table: RoutingTable, batch: int) -> Turn:
        return Late(str(tmp_path), "this").publish(Turn(batch, table, table.with_version(3)))

    with ThreadPoolExecutor(drivers) as pool:
        for batch in range(rounds):
            turns = list(pool.map(publish, tables, [batch] * drivers))
            assert len({turn.table.buckets.tobytes() for turn in turns}) == 1
            module._read_table.cache_clear()
            assert Ledger(str(tmp_path), "this").turn(batch) == turns[0]


def test_a_table_that_a_dead_driver_left_does_no_harm(ledger: Ledger) -> None:
    dead = RoutingTable.build(2, [1, 1, 1, 1], version=OTHER.version)
    ledger._write_table(f"tables/{dead.version}", dead)
    ledger.publish(first_turn(OTHER))
    assert ledger.turn(0).table == OTHER


def test_handoffs_and_reports_are_read_back(ledger: Ledger) -> None:
    exported = ledger.write_handoff(3, 0, 1, "attempt", ROWS)
    assert (exported.destination, exported.rows) == (1, 2)
    assert ledger.read_handoff(Handoff(exported.file, 0, 1, 4, 2, exported.size)).equals(ROWS)
    for slot in (11, 2):
        ledger.write_report(report(slot, 3, (exported,)))
    ledger.write_report(report(2, 3))
    assert [r.ack for r in ledger.reports(3)] == [report(2, 3).ack, report(11, 3, (exported,)).ack]
    assert ledger.reports(3)[0].loads.equals(ROWS)
    assert ledger.reported_slots(3) == {2, 11}
    ledger.forget_reports(3)
    assert ledger.reports(3) == []


def test_a_wish_lasts_until_it_is_withdrawn(ledger: Ledger) -> None:
    assert ledger.wish() is None
    ledger.write_wish(3)
    assert ledger.wish() == 3
    ledger.write_wish(None)
    assert ledger.wish() is None


NEEDED: dict[str, Callable[[Ledger], object]] = {
    "turns/1": lambda ledger: ledger.turn(1),
    "tables/1-*": lambda ledger: ledger.turn(1),
    "targets/1-*": lambda ledger: ledger.turn(1),
    HANDOFF: lambda ledger: ledger.read_handoff(Handoff(HANDOFF, 0, 1, 1, 2, 9)),
    "reports/1/0": lambda ledger: ledger.reports(1),
    "operator": lambda ledger: ledger.operator(),
    "wish": lambda ledger: ledger.wish(),
}


@pytest.fixture
def full(ledger: Ledger) -> Ledger:
    ledger.publish(Turn(1, TABLE, OTHER))
    ledger.write_handoff(1, 0, 1, "x", ROWS)
    ledger.write_report(report(0, 1))
    ledger.write_operator({"key": "k"})
    ledger.write_wish(2)
    module._read_table.cache_clear()
    return ledger


@pytest.mark.parametrize("name", NEEDED)
@pytest.mark.parametrize("damage", ["cut", "empty", "flipped", "swapped"])
def test_a_damaged_file_is_refused_by_name(full: Ledger, tmp_path: Path, name: str, damage: str) -> None:
    NEEDED[name](full)
    module._read_table.cache_clear()
    (path,) = (tmp_path / "unskew").glob(name)
    data = path.read_bytes()
    middle = len(data) // 2
    flipped = data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
    swapped = (tmp_path / "unskew" / ("turns/1" if name != "turns/1" else "reports/1/0")).read_bytes()
    path.write_bytes({"cut": data[:-1], "empty": b"", "flipped": flipped, "swapped": swapped}[damage])
    with pytest.raises(LedgerError, match=str(path)):
        NEEDED[name](full)


@pytest.mark.parametrize("name", [n for n in NEEDED if n not in ("reports/1/0", "operator", "wish")])
def test_a_missing_file_is_named(full: Ledger, tmp_path: Path, name: str) -> None:
    (path,) = (tmp_path / "unskew").glob(name)
    path.unlink()
    with pytest.raises(LedgerError, match=f"{path} is missing.*restore it"):
        NEEDED[name](full)


def test_tables_of_another_checkpoint_at_the_same_place_are_not_mixed_up(tmp_path: Path) -> None:
    """As when a checkpoint is deleted and created again while Spark's workers live on."""
    Ledger(str(tmp_path), "one").publish(first_turn(TABLE))
    assert Ledger(str(tmp_path), "one").turn(0).table == TABLE
    Ledger(str(tmp_path)).folder.delete("")
    Ledger(str(tmp_path), "two").publish(first_turn(OTHER.with_version(1)))
    assert Ledger(str(tmp_path), "two").turn(0).table.same_routes(OTHER)


def test_the_journal_has_one_line_per_batch_even_after_a_replay(ledger: Ledger) -> None:
    for batch in [*range(LINES_PER_FILE + 3), LINES_PER_FILE + 2, LINES_PER_FILE + 1]:
        ledger.write_line({"batch": batch, "x": 1})
    assert [line["batch"] for line in ledger.lines()] == list(range(LINES_PER_FILE + 2))
    assert [line["batch"] for line in ledger.lines(LINES_PER_FILE - 1)] == [
        LINES_PER_FILE - 1,
        LINES_PER_FILE,
        LINES_PER_FILE + 1,
    ]


def test_damaged_lines_of_the_journal_are_skipped(ledger: Ledger, tmp_path: Path) -> None:
    for batch in range(3):
        ledger.write_line({"batch": batch})
    path = tmp_path / "unskew" / "journal" / "00000000"
    first, second, third = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first + second[:5] + b"\n\xff\xfe[]\n7\n{}\n" + third + b'{"batch": "x"}\n{"ba')
    (path.parent / "notes.txt").write_text("not ours")
    assert [line["batch"] for line in ledger.lines()] == [0, 2]
    ledger.write_line({"batch": 3})
    assert [line["batch"] for line in ledger.lines()] == [0, 2, 3]


def test_only_what_no_replay_can_need_is_deleted(ledger: Ledger, tmp_path: Path) -> None:
    """A stream that moves state back and forth in every batch, while one slot does not report for a long time."""
    turn = ledger.publish(first_turn(TABLE))
    last, reports_again = 2 * RETAINED_BATCHES + 71, RETAINED_BATCHES + 50
    for batch in range(last):
        assert turn.batch == batch
        if batch in (reports_again, last - 1):
            for handoff in turn.pending:
                ledger.read_handoff(handoff)
        module._read_table.cache_clear()
        for slot in (0, 1):
            exported = None
            if turn.target is not None:
                file = ledger.write_handoff(batch, slot, 1 - slot, "counts", ROWS)
                ledger.write_handoff(batch, slot, 1 - slot, "does-not-count", ROWS)
                exported = (file,)
            if slot == 0 or not 5 <= batch < reports_again:
                ledger.write_report(report(slot, batch, exported))
        acks = [r.ack for r in ledger.reports(batch)]
        goal = OTHER if batch % 2 else TABLE
        turn, before = ledger.publish(turn.close(acks, lambda table, goal=goal: goal)), turn
        ledger.tidy(before)
    oldest = last - 1 - RETAINED_BATCHES
    for batch in range(oldest + 1, last):
        module._read_table.cache_clear()
        for handoff in ledger.turn(batch).pending:
            ledger.read_handoff(handoff)
    for folder in ("turns", "targets", "reports", "tables", "handoffs"):
        assert len(ledger.folder.names(folder)) <= RETAINED_BATCHES + 12
    files = [p for p in (tmp_path / "unskew").rglob("*") if p.is_file()]
    assert len(files) < 9 * (RETAINED_BATCHES + 12)


def test_the_watermark_of_a_batch_is_that_of_sparks_log(ledger: Ledger, tmp_path: Path) -> None:
    offsets = tmp_path / "offsets"
    offsets.mkdir()
    (offsets / "6").write_text(
        'v1\n{"batchWatermarkMs":1234,"batchTimestampMs":5,"conf":{}}\n{"logOffset":6}'
    )
    assert ledger.watermark(6) == 1234
    assert ledger.watermark(-1) == 0
    with pytest.raises(LedgerError, match="offsets/5 is missing"):
        ledger.watermark(5)
    for damaged in ("v1", "v1\n{}", "v1\n[1]\n", "v1\n{"):
        (offsets / "6").write_text(damaged)
        with pytest.raises(LedgerError, match="offsets/6 cannot be read"):
            ledger.watermark(6)
