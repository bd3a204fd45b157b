from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.report.watch.journals import begin, fill, line
from tests.streaming.driver.test_controller import Live, skewed
from unskew.report.page import embedded_json
from unskew.report.watch import journal as journal_module
from unskew.report.watch.journal import Batch, JournalReader, KeyPlaces, LatestBatch, TopKey
from unskew.streaming.storage.lease import Lease


def numbers(reader: JournalReader, position: str = "") -> list[int]:
    return [batch.batch for batch in reader.news(position).batches]


def test_the_lines_of_the_controller_are_read_in_full(tmp_path: Path) -> None:
    live = Live(tmp_path)
    live.ledger.write_operator({"checkpoint_id": "world", "max_slots": 4})
    lines = [live.run(skewed(2)) for _ in range(4)]
    news = JournalReader(str(tmp_path)).news()
    assert len(news.batches) == 4
    assert not any(figure is None for batch in news.batches for figure in batch)
    moved = [batch.moved_rows for batch in news.batches]
    assert moved == [line["moved"]["rows"] for line in lines]
    assert any(moved)
    assert news.latest is not None
    assert [slot.records for slot in news.latest.slots] == lines[-1]["loads"]
    assert sum(slot.state_bytes or 0 for slot in news.latest.slots) == lines[-1]["state"]["bytes"]
    assert [key.key for key in news.latest.top] == [key for key, _, _ in lines[-1]["top"]]
    assert {key.heavy for key in news.latest.top} == {True, False}


def test_only_what_is_new_comes_after_a_position(tmp_path: Path) -> None:
    ledger = begin(tmp_path)
    reader = JournalReader(str(tmp_path))
    assert reader.news().latest is None
    for batch in range(3):
        ledger.write_line(line(batch))
    first = reader.news()
    assert [b.batch for b in first.batches] == [0, 1, 2]
    assert reader.news(first.position).batches == []
    assert reader.news(first.position).latest is None
    ledger.write_line(line(3, loads=[1, 2]))
    second = reader.news(first.position)
    assert [b.batch for b in second.batches] == [3]
    assert second.latest is not None
    assert [slot.records for slot in second.latest.slots] == [1, 2, None, None], (
        "and two that have state only"
    )
    assert numbers(reader) == [0, 1, 2, 3]


def test_a_replayed_batch_is_reported_again(tmp_path: Path) -> None:
    ledger = begin(tmp_path)
    reader = JournalReader(str(tmp_path))
    for batch in range(3):
        ledger.write_line(line(batch))
    position = reader.news().position
    ledger.write_line(line(2, records=5))
    again = reader.news(position)
    assert [(b.batch, b.records) for b in again.batches] == [(2, 5)]
    assert numbers(reader) == [0, 1, 2]
    ledger.write_line(line(2, records=6))
    ledger.write_line(line(3))
    assert [(b.batch, b.records) for b in reader.news(again.position).batches] == [(2, 6), (3, 1000)]


def test_a_restored_checkpoint_is_read_from_the_start(tmp_path: Path) -> None:
    ledger = begin(tmp_path)
    reader = JournalReader(str(tmp_path))
    fill(ledger, 250)
    position = reader.news().position
    shutil.rmtree(tmp_path / "unskew" / "journal")
    fill(ledger, 120)
    assert numbers(reader, position) == list(range(120))
    assert numbers(reader) == list(range(120))


def test_a_checkpoint_that_is_started_over_is_read_from_the_start(tmp_path: Path) -> None:
    reader = JournalReader(str(begin(tmp_path / "c").spark.address))
    fill(begin(tmp_path / "c"), 3)
    position = reader.news().position
    shutil.rmtree(tmp_path / "c")
    fill(begin(tmp_path / "c", checkpoint_id="two", max_slots=5), 4)
    assert numbers(reader, position) == [0, 1, 2, 3]
    assert reader.max_slots == 5


def test_what_was_read_stays_when_the_checkpoint_is_deleted(tmp_path: Path) -> None:
    fill(begin(tmp_path / "c"), 3)
    reader = JournalReader(str(tmp_path / "c"))
    reader.news()
    shutil.rmtree(tmp_path / "c")
    assert reader.news().status.word == "gone"
    assert numbers(reader) == [0, 1, 2]


@pytest.mark.parametrize(
    "position",
    ["x", ".", "1", "é.3", "0" * 32 + ".5", "9" * 5000, "\0", "<script>.1", f"{'0' * 32}.{'9' * 5000}"],
)
def test_an_unknown_position_gives_everything(tmp_path: Path, position: str) -> None:
    fill(begin(tmp_path), 3)
    assert numbers(JournalReader(str(tmp_path)), position) == [0, 1, 2]


def test_old_files_are_not_read_again(tmp_path: Path) -> None:
    ledger = begin(tmp_path)
    fill(ledger, 10_000)
    reader = JournalReader(str(tmp_path))
    position = reader.news().position
    (tmp_path / "unskew" / "journal" / "00000000").write_text("it would be missed if it were read again")
    ledger.write_line(line(10_000))
    assert numbers(reader, position) == [10_000]
    assert len(numbers(reader)) == 10_001


def test_the_status_says_which_process_runs_it_and_how_long_ago_it_stopped(tmp_path: Path) -> None:
    ledger = begin(tmp_path)
    reader = JournalReader(str(tmp_path))
    assert reader.news().status.text == "no batch yet, and no query runs"
    lease = Lease(str(tmp_path)).take()
    assert reader.news().status.word == "waiting"
    ledger.write_line(line(0, time=time.time() - 2))
    assert reader.news().status.word == "running"
    assert "last batch 2 s ago" in reader.news().status.text
    ledger.write_line(line(1, time=time.time() - 7500))
    assert reader.news().status.word == "idle"
    assert "no batch for 2 h 5 min" in reader.news().status.text
    lease.release()
    assert reader.news().status.text == "stopped, last batch 2 h 5 min ago"


@pytest.mark.parametrize("subfolder", ["", "unskew", "offsets"])
def test_another_folder_is_refused_by_name(tmp_path: Path, subfolder: str) -> None:
    (tmp_path / "c" / subfolder).mkdir(parents=True)
    with pytest.raises(ValueError, match=f"{tmp_path}/c is not a checkpoint of unskew.stream"):
        JournalReader(f"{tmp_path}/c")


def test_lines_of_an_older_journal_are_read(tmp_path: Path) -> None:
    old = line(0)
    del old["top_heavy"], old["state"]["bytes_by_slot"]
    begin(tmp_path).write_line(old)
    latest = JournalReader(str(tmp_path)).news().latest
    assert latest is not None
    assert [(key.key, key.heavy) for key in latest.top] == [("alice", None), ("bob", None)]
    assert [slot.state_rows for slot in latest.slots] == [20, 15, 10, 5]
    assert {slot.state_bytes for slot in latest.slots} == {None}


anything: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(line(0), anything)))
def test_any_damaged_line_can_be_shown(damage: dict[str, Any]) -> None:
    damaged = {**line(0), **damage, "batch": 0}
    batch, _ = json.loads(embedded_json([Batch.of(damaged), vars(LatestBatch.of(damaged))]))
    assert len(batch) == len(Batch._fields)
    assert Batch.of(damaged).reason.isprintable()
    assert all(key.key.isprintable() for key in LatestBatch.of(damaged).top)


def test_a_key_that_changed_its_slot_says_from_where_and_since_when(tmp_path: Path) -> None:
    ledger = begin(tmp_path)
    slots = {0: 0, 1: 0, 2: 3, 3: 3}
    for batch, slot in slots.items():
        ledger.write_line(line(batch, top=[["alice", 300.0, slot], ["bob", 200.0, 1]]))
    latest = JournalReader(str(tmp_path)).news().latest
    assert latest is not None
    assert [(key.key, key.slot, key.previous, key.came) for key in latest.top] == [
        ("alice", 3, 0, 2),
        ("bob", 1, None, None),
    ]


def test_places_are_kept_of_the_keys_that_were_hot_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_module, "MOST_PLACES", 2)
    places = KeyPlaces()
    for batch, (key, slot) in enumerate([("a", 0), ("b", 0), ("c", 0), ("a", 1), ("b", 1), ("b", 2)]):
        places.see(line(batch, top=[[key, 1.0, slot]]))
    told = {key: places.told(TopKey(key, 1.0, 1, None))[4:] for key in "abc"}
    assert told == {"a": (None, None), "b": (1, 5), "c": (None, None)}
