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
from unskew.report.watch.journal import Batch, Latest, Watched
from unskew.streaming.storage.lease import Lease


def numbers(watched: Watched, position: str = "") -> list[int]:
    return [batch.batch for batch in watched.news(position).batches]


def test_the_lines_of_the_controller_are_understood_whole(tmp_path: Path) -> None:
    live = Live(tmp_path)
    live.ledger.write_operator({"checkpoint_id": "world", "max_slots": 4})
    lines = [live.run(skewed(2)) for _ in range(4)]
    news = Watched(str(tmp_path)).news()
    assert len(news.batches) == 4
    assert not any(figure is None for batch in news.batches for figure in batch)
    moved = [batch.moved_rows for batch in news.batches]
    assert moved == [one["moved"]["rows"] for one in lines]
    assert any(moved)
    assert news.latest is not None
    assert [slot.records for slot in news.latest.slots] == lines[-1]["loads"]
    assert sum(slot.state_bytes or 0 for slot in news.latest.slots) == lines[-1]["state"]["bytes"]
    assert [key.key for key in news.latest.top] == [key for key, _, _ in lines[-1]["top"]]
    assert {key.heavy for key in news.latest.top} == {True, False}


def test_only_what_is_new_comes_after_a_position(tmp_path: Path) -> None:
    ledger = begin(tmp_path)
    watched = Watched(str(tmp_path))
    assert watched.news().latest is None
    for batch in range(3):
        ledger.write_line(line(batch))
    first = watched.news()
    assert [b.batch for b in first.batches] == [0, 1, 2]
    assert watched.news(first.position).batches == []
    assert watched.news(first.position).latest is None
    ledger.write_line(line(3, loads=[1, 2]))
    second = watched.news(first.position)
    assert [b.batch for b in second.batches] == [3]
    assert second.latest is not None
    assert [slot.records for slot in second.latest.slots] == [1, 2, None, None], (
        "and two that have state only"
    )
    assert numbers(watched) == [0, 1, 2, 3]


def test_a_replayed_batch_is_told_again(tmp_path: Path) -> None:
    ledger = begin(tmp_path)
    watched = Watched(str(tmp_path))
    for batch in range(3):
        ledger.write_line(line(batch))
    position = watched.news().position
    ledger.write_line(line(2, records=5))
    again = watched.news(position)
    assert [(b.batch, b.records) for b in again.batches] == [(2, 5)]
    assert numbers(watched) == [0, 1, 2]
    ledger.write_line(line(2, records=6))
    ledger.write_line(line(3))
    assert [(b.batch, b.records) for b in watched.news(again.position).batches] == [(2, 6), (3, 1000)]


def test_a_restored_checkpoint_is_read_from_the_start(tmp_path: Path) -> None:
    ledger = begin(tmp_path)
    watched = Watched(str(tmp_path))
    fill(ledger, 250)
    position = watched.news().position
    shutil.rmtree(tmp_path / "unskew" / "journal")
    fill(ledger, 120)
    assert numbers(watched, position) == list(range(120))
    assert numbers(watched) == list(range(120))


def test_a_checkpoint_begun_anew_is_read_from_the_start(tmp_path: Path) -> None:
    watched = Watched(str(begin(tmp_path / "c").spark.address))
    fill(begin(tmp_path / "c"), 3)
    position = watched.news().position
    shutil.rmtree(tmp_path / "c")
    fill(begin(tmp_path / "c", checkpoint_id="two", max_slots=5), 4)
    assert numbers(watched, position) == [0, 1, 2, 3]
    assert watched.max_slots == 5


def test_what_was_read_stays_when_the_checkpoint_is_deleted(tmp_path: Path) -> None:
    fill(begin(tmp_path / "c"), 3)
    watched = Watched(str(tmp_path / "c"))
    watched.news()
    shutil.rmtree(tmp_path / "c")
    assert watched.news().status.word == "gone"
    assert numbers(watched) == [0, 1, 2]


@pytest.mark.parametrize(
    "position",
    ["x", ".", "1", "é.3", "0" * 32 + ".5", "9" * 5000, "\0", "<script>.1", f"{'0' * 32}.{'9' * 5000}"],
)
def test_an_unknown_position_gives_everything(tmp_path: Path, position: str) -> None:
    fill(begin(tmp_path), 3)
    assert numbers(Watched(str(tmp_path)), position) == [0, 1, 2]


def test_old_files_are_not_read_again(tmp_path: Path) -> None:
    ledger = begin(tmp_path)
    fill(ledger, 10_000)
    watched = Watched(str(tmp_path))
    position = watched.news().position
    (tmp_path / "unskew" / "journal" / "00000000").write_text("it would be missed if it were read again")
    ledger.write_line(line(10_000))
    assert numbers(watched, position) == [10_000]
    assert len(numbers(watched)) == 10_001


def test_the_status_tells_who_runs_it_and_since_when_nobody_does(tmp_path: Path) -> None:
    ledger = begin(tmp_path)
    watched = Watched(str(tmp_path))
    assert watched.news().status.text == "no batch yet, and no query runs"
    lease = Lease(str(tmp_path)).take()
    assert watched.news().status.word == "waiting"
    ledger.write_line(line(0, time=time.time() - 2))
    assert watched.news().status.word == "running"
    assert "last batch 2 s ago" in watched.news().status.text
    ledger.write_line(line(1, time=time.time() - 7500))
    assert watched.news().status.word == "idle"
    assert "no batch for 2 h 5 min" in watched.news().status.text
    lease.release()
    assert watched.news().status.text == "stopped, last batch 2 h 5 min ago"


@pytest.mark.parametrize("made", ["", "unskew", "offsets"])
def test_another_folder_is_refused_by_name(tmp_path: Path, made: str) -> None:
    (tmp_path / "c" / made).mkdir(parents=True)
    with pytest.raises(ValueError, match=f"{tmp_path}/c is not a checkpoint of unskew.stream"):
        Watched(f"{tmp_path}/c")


def test_lines_of_an_older_journal_are_read(tmp_path: Path) -> None:
    old = line(0)
    del old["top_heavy"], old["state"]["bytes_by_slot"]
    begin(tmp_path).write_line(old)
    latest = Watched(str(tmp_path)).news().latest
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
def test_whatever_a_damaged_line_holds_can_be_shown(damage: dict[str, Any]) -> None:
    found = {**line(0), **damage, "batch": 0}
    shown = json.loads(embedded_json([Batch.of(found), vars(Latest.of(found))]))
    assert len(shown[0]) == len(Batch._fields)
    assert Batch.of(found).reason.isprintable()
    assert all(key.key.isprintable() for key in Latest.of(found).top)
