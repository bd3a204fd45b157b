"""Aggregates per key and per window: what is emitted, what is late, what expires."""

from __future__ import annotations

import json
from collections import Counter
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.streaming.worker.slot_world import DictStore, ForgetfulCache
from unskew.core.hashing import hash_keys
from unskew.streaming.operators import aggregate_operator
from unskew.streaming.operators import aggregates as agg
from unskew.streaming.operators.aggregate_operator import AggregateOperator
from unskew.streaming.operators.aggregation import Aggregation
from unskew.streaming.operators.operator import Clock, Expiry, Window, loads_of, record_column, without_late
from unskew.streaming.storage.slot_state import SlotState

SECOND = 1_000_000
MOMENT = pa.timestamp("us", "UTC")
KEY = pa.schema([("k", pa.string())])
VALUES = pa.schema([("v", pa.int64()), ("t", MOMENT)])
Event = tuple[str | None, int | None]  # key, event time in microseconds


def records(events: list[Event], hashes: dict[str | None, int] | None = None) -> pa.Table:
    keys = pa.array([k for k, _ in events], pa.string())
    hash_column = hash_keys(keys) if hashes is None else np.array([hashes[k] for k, _ in events], np.int64)
    times = pa.array([t for _, t in events], pa.int64()).cast(MOMENT)
    ones = pa.array(np.ones(len(events), np.int64))
    return pa.table({"hash": hash_column, "key.0": keys, "v": ones, "t": times})


@pytest.mark.parametrize("name", ["hash", "key.0", "key.1", "window", "in.v"])
def test_a_column_may_be_called_like_one_of_ours(name: str) -> None:
    aggregation = Aggregation({"total": agg.sum(name)}, pa.schema([(name, pa.int64()), ("t", MOMENT)]))
    operator = AggregateOperator(KEY, aggregation, Window(SECOND, SECOND), "t")
    rows = records([("a", 0), ("a", 1)])
    rows = rows.rename_columns([record_column(name) if n == "v" else n for n in rows.column_names])
    assert operator.pack(rows)[operator.layout.values[0]].to_pylist() == [2]


@pytest.mark.parametrize("moment", [MOMENT, pa.timestamp("us")], ids=str)
def test_a_restored_operator_shows_windows_in_the_type_of_their_time_column(moment: pa.DataType) -> None:
    aggregation = Aggregation({"n": agg.count()}, VALUES)
    operator = AggregateOperator(KEY, aggregation, Window(SECOND, SECOND), "t", moment=moment)
    description = operator.describe()
    assert json.loads(json.dumps(description)) == description
    assert AggregateOperator.restore(description).output == operator.output


def test_a_checkpoint_that_does_not_name_the_type_of_time_shows_windows_in_utc() -> None:
    aggregation = Aggregation({"n": agg.count()}, VALUES)
    description = AggregateOperator(KEY, aggregation, Window(SECOND, SECOND), "t").describe()
    del description["moment"]
    assert AggregateOperator.restore(description).output.field("window").type.field("start").type == MOMENT


class Slot:
    """One slot that keeps its state from batch to batch; records are late by the watermark of the batch before."""

    watermark_before: int | None = None

    def __init__(self, **options: Any) -> None:
        aggregation = Aggregation({"n": agg.count(), "total": agg.sum("v")}, VALUES)
        self.operator = AggregateOperator(KEY, aggregation, time="t", **options)
        self.store, self.cache = DictStore(), ForgetfulCache(Random(1))

    def step(
        self,
        events: list[Event],
        clock: Clock = Clock(0),  # noqa: B008 it is frozen
        tasks: int = 2,
        hashes: dict[str | None, int] | None = None,
    ) -> tuple[list[dict[str, Any]], int]:
        """A batch whose records come from several map tasks."""
        before, self.watermark_before = (
            self.watermark_before,
            clock.watermark if clock.watermark >= 0 else None,
        )
        parts = [self.operator.pack(records(events[i::tasks], hashes), before) for i in range(tasks)]
        payload = pa.concat_tables([self.operator.payload.empty_table(), *parts]).combine_chunks()
        state = SlotState.load(self.operator.layout, 8, self.store, self.cache)
        out, late = self.operator.step(payload, state, clock)
        assert out.schema == self.operator.output
        state.applied = (state.applied or 0) + 1
        state.save(self.store, self.cache)
        self.state_rows = len(state)
        return out.to_pylist(), late


def counts(out: list[dict[str, Any]]) -> dict[Any, int]:
    """Key, or (key, start of the window in microseconds) → count; each at most once."""
    counts = {}
    for row in out:
        assert row["n"] == row["total"]
        name = row["k"]
        if "window" in row:
            name = (row["k"], micros(row["window"]["start"]))
        assert name not in counts
        counts[name] = row["n"]
    return counts


def micros(moment: Any) -> int:
    return int(pa.scalar(moment, MOMENT).cast(pa.int64()).as_py())


def test_without_a_window_each_batch_emits_what_it_touched() -> None:
    slot = Slot()
    assert counts(slot.step([("a", 0), ("b", None), ("a", 0), (None, 0)])[0]) == {"a": 2, "b": 1, None: 1}
    assert counts(slot.step([("a", 0), (None, None)])[0]) == {"a": 3, None: 2}
    assert slot.step([])[0] == []
    assert slot.state_rows == 3


@given(st.integers(1, 12), st.integers(1, 12), st.lists(st.integers(-50, 50), max_size=10))
def test_a_record_is_in_every_window_around_it(size: int, slide: int, moments: list[int]) -> None:
    slide = min(size, slide)
    rows, starts = Window(size, slide).assign(np.array(moments, np.int64))
    expected = [
        (row, start)
        for row, moment in enumerate(moments)
        for start in range(-100, 100)
        if start % slide == 0 and start <= moment < start + size
    ]
    assert sorted(zip(rows.tolist(), starts.tolist(), strict=True)) == expected


BATCHES = st.lists(
    st.tuples(
        st.lists(st.tuples(st.sampled_from(["a", "b", None]), st.none() | st.integers(0, 39)), max_size=8),
        st.integers(-4, 12),
    ),
    max_size=6,
)


@settings(max_examples=60)
@given(BATCHES, st.sampled_from([(10, 10), (10, 5), (10, 4), (6, 1)]), st.sampled_from(["closed", "changed"]))
def test_windows_equal_those_of_a_plain_dict(
    batches: list[tuple[list[tuple[Any, Any]], int]], lengths: tuple[int, int], emit: str
) -> None:
    """In seconds; the watermark never goes back, and there is none at first.

    As in Spark, a record is late by the watermark of the batch before, and a window is closed by that of its own batch.
    """
    size, slide = lengths
    slot = Slot(window=Window(size * SECOND, slide * SECOND), emit=emit)
    opened: Counter[Any] = Counter()
    watermark = before = -1
    for events, step in batches:
        late, touched = 0, set()
        for key, moment in events:
            if moment is None:
                continue
            starts = range(moment // slide * slide, moment - size, -slide)
            in_time = [start for start in starts if before < 0 or start + size > before]
            late += not in_time
            for start in in_time:
                opened[key, start * SECOND] += 1
                touched.add((key, start * SECOND))
        closed = {w: n for w, n in opened.items() if watermark >= 0 and w[1] // SECOND + size <= watermark}
        expected = closed if emit == "closed" else {w: opened[w] for w in touched}
        in_micros = [(k, None if t is None else t * SECOND) for k, t in events]
        out, reported_late = slot.step(in_micros, Clock(0, 1000 * watermark if watermark >= 0 else -1))
        assert counts(out) == expected
        assert reported_late == late
        for window in closed:
            del opened[window]
        assert slot.state_rows == len(opened)
        for row in out:
            assert micros(row["window"]["end"]) - micros(row["window"]["start"]) == size * SECOND
        watermark, before = max(watermark, watermark + step), watermark


def test_a_record_in_several_windows_counts_once() -> None:
    aggregation = Aggregation({"n": agg.count()}, VALUES)
    rows = records([("a", 0), ("a", 7 * SECOND), ("b", 12 * SECOND), ("b", None)])
    for window in (Window(10 * SECOND, 3 * SECOND), Window(10 * SECOND, 10 * SECOND)):
        operator = AggregateOperator(KEY, aggregation, window, "t")
        loads = loads_of(operator.pack(rows), 1)
        assert dict(zip(loads["key.0"].to_pylist(), loads["records"].to_pylist(), strict=True)) == {
            "a": 2,
            "b": 1,
        }
        in_time, late = without_late(operator.pack(rows, watermark=16_000))  # in milliseconds
        assert late == 2, "of the third record only the first windows have passed"
        assert in_time["records"].to_numpy().sum() == 1


def packed_rows(payload: pa.Table) -> list[tuple[Any, ...]]:
    return sorted((repr(row["key.0"]), *list(row.values())[2:]) for row in payload.to_pylist())


@pytest.mark.parametrize("events", [0, 1, 200])
@pytest.mark.parametrize(("limit", "most"), [("CHUNK_ROWS", 12), ("CHUNK_BYTES", 2000), ("CHUNK_ROWS", 2)])
@pytest.mark.parametrize("watermark", [None, 20_000])
def test_records_in_many_windows_are_packed_in_bounded_parts(
    events: int, limit: str, most: int, watermark: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = Random(3)
    moments = [random.choice([None, random.randrange(60) * SECOND]) for _ in range(events)]
    rows = records([(random.choice(["a", "b" * 30, None]), moment) for moment in moments])
    rows = rows.set_column(2, "v", pa.array(np.arange(events)))
    aggregates = {"n": agg.count(), "total": agg.sum("v"), "last": agg.last("v", "t"), "mean": agg.mean("v")}
    operator = AggregateOperator(KEY, Aggregation(aggregates, VALUES), Window(10 * SECOND, 4 * SECOND), "t")
    whole = operator.pack(rows, watermark)
    windowed_parts = []
    assign_windows = AggregateOperator._windowed

    def remember(operator: AggregateOperator, part: pa.Table) -> pa.Table:
        windowed_parts.append((len(part), part.nbytes, assign_windows(operator, part)))
        return windowed_parts[-1][-1]

    monkeypatch.setattr(aggregate_operator, limit, most)
    monkeypatch.setattr(AggregateOperator, "_windowed", remember)
    packed = operator.pack(rows, watermark)
    assert packed.schema == whole.schema
    assert packed_rows(packed) == packed_rows(whole)
    assert sum(size for size, _, _ in windowed_parts) == events
    for size, volume, windowed in windowed_parts:
        if limit == "CHUNK_BYTES":
            assert volume <= most // 3 or size == 1
        else:
            assert len(windowed) <= most or size == 1


def test_packed_rows_that_outgrow_one_array_are_left_to_the_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    slots = [Slot(window=Window(10 * SECOND, 5 * SECOND)) for _ in range(2)]
    events: list[Event] = [("ab"[i % 2], i % 30 * SECOND) for i in range(60)]
    expected = counts(slots[0].step(events)[0])
    monkeypatch.setattr(aggregate_operator, "CHUNK_ROWS", 8)
    monkeypatch.setattr(aggregate_operator, "MAX_BYTES", 1000)
    packed = slots[1].operator.pack(records(events))
    assert len(packed) > len(expected)
    assert counts(slots[1].step(events)[0]) == expected


@pytest.mark.parametrize("emit", ["closed", "changed"])
def test_a_window_closes_when_the_watermark_reaches_its_end(emit: str) -> None:
    slot = Slot(window=Window(10 * SECOND, 10 * SECOND), emit=emit)
    slot.step([("a", 3 * SECOND)])
    out, late = slot.step([("a", 4 * SECOND)], Clock(0, 9_999))
    assert (counts(out), late) == ({} if emit == "closed" else {("a", 0): 2}, 0)
    out, late = slot.step([("a", 5 * SECOND), ("a", 10 * SECOND)], Clock(0, 10_000))
    changed = {("a", 0): 3, ("a", 10 * SECOND): 1}
    assert (counts(out), late) == ({("a", 0): 3} if emit == "closed" else changed, 0)
    assert slot.state_rows == 1
    out, late = slot.step([("a", 6 * SECOND), ("a", 10 * SECOND)], Clock(0, 10_000))
    assert (counts(out), late) == ({} if emit == "closed" else {("a", 10 * SECOND): 2}, 1)
    assert slot.state_rows == 1


def test_windows_and_late_records_are_compared_in_microseconds() -> None:
    """A window of 1.5 ms is open at a watermark of 1 ms, and closed at 2 ms."""
    slot = Slot(window=Window(1500, 1500), emit="closed")
    assert slot.step([("a", 3)], Clock(0, 1)) == ([], 0)
    out, late = slot.step([("a", 4)], Clock(0, 2))
    assert (counts(out), late) == ({("a", 0): 2}, 0)
    assert slot.step([("a", 5)], Clock(0, 2)) == ([], 1)
    slot = Slot(expiry=Expiry(100, by_event_time=True))
    slot.step([("a", 0)], Clock(0, 7))
    out, late = slot.step([("a", 7001), ("a", 7000)], Clock(0, 7))
    assert (counts(out), late) == ({"a": 2}, 1)


def test_windows_of_the_sixties_stay_open_while_there_is_no_watermark() -> None:
    slot = Slot(window=Window(10 * SECOND, 10 * SECOND))
    for n in (1, 2):
        assert counts(slot.step([("a", -95 * SECOND)])[0]) == {("a", -100 * SECOND): n}


def test_by_the_clock_a_key_expires_after_its_last_record() -> None:
    slot = Slot(expiry=Expiry(100, by_event_time=False))
    slot.step([("a", 0), ("b", 0)], Clock(1000))
    slot.step([("a", 0)], Clock(1050))
    slot.step([], Clock(1099))
    assert slot.state_rows == 2
    slot.step([], Clock(1100))
    assert slot.state_rows == 1
    assert counts(slot.step([("a", 0), ("b", 0)], Clock(1149))[0]) == {"a": 3, "b": 1}


def test_by_event_time_a_key_expires_after_its_latest_record_whenever_that_came() -> None:
    slot = Slot(expiry=Expiry(100, by_event_time=True))
    slot.step([("a", 500_000), ("a", 900_000), ("b", 800_000)], Clock(0, -1))
    slot.step([("a", 100_000)], Clock(0, 899))  # an old record does not bring the deadline forward
    assert slot.state_rows == 2
    slot.step([("a", 899_000), (None, 899_000)], Clock(10**9, 900))  # two late records
    assert slot.state_rows == 1
    assert counts(slot.step([("a", 950_000), ("b", 950_000)], Clock(0, 999))[0]) == {"a": 4, "b": 1}
    slot.step([], Clock(0, 1049))
    assert slot.state_rows == 2
    slot.step([], Clock(0, 1050))
    assert slot.state_rows == 0


def test_keys_that_share_a_hash_keep_their_own_counts_and_deadlines() -> None:
    slot = Slot(expiry=Expiry(10, by_event_time=True))
    hashes: dict[str | None, int] = {"a": 5, "b": 5, "c": 7, "d": 5}
    events: list[Event] = [("a", 100_000), ("b", 200_000), ("c", 300_000), ("d", 400_000)]
    assert counts(slot.step(events, Clock(0, 0), 4, hashes)[0]) == {"a": 1, "b": 1, "c": 1, "d": 1}
    for watermark, remaining in ((110, "bcd"), (210, "cd"), (310, "d"), (410, "")):
        slot.step([], Clock(0, watermark))
        state = SlotState.load(slot.operator.layout, 8, slot.store, slot.cache)
        assert sorted(state.everything()["key.0"].to_pylist()) == list(remaining)


@pytest.mark.parametrize("tasks", [1, 3])
def test_the_number_of_map_tasks_does_not_matter(tasks: int) -> None:
    slot = Slot()
    events: list[Event] = [(f"{i % 7}", i) for i in range(100)]
    assert counts(slot.step(events, tasks=tasks)[0]) == Counter(f"{i % 7}" for i in range(100))


def test_by_the_clock_a_key_that_was_idle_too_long_starts_again_even_in_the_batch_that_expires_it() -> None:
    slot = Slot(expiry=Expiry(1000, by_event_time=False))
    slot.step([("a", 0)], Clock(0))
    assert counts(slot.step([("a", 0)], Clock(3_600_000))[0]) == {"a": 1}


def test_by_event_time_a_key_gets_the_records_of_the_batch_before_its_watermark_ends_it() -> None:
    """As Spark handles records before it calls timers."""
    slot = Slot(expiry=Expiry(1000, by_event_time=True))
    slot.step([("a", SECOND), ("b", SECOND)], Clock(0, 0))
    out, late = slot.step([("a", SECOND // 2), ("b", 9 * SECOND)], Clock(0, 3_600_000))
    assert (counts(out), late, slot.state_rows) == ({"a": 2, "b": 2}, 0, 0)


def test_a_record_without_a_time_does_not_drop_its_key() -> None:
    slot = Slot(expiry=Expiry(1000, by_event_time=True))
    for batch in range(1, 4):
        out, _ = slot.step([("a", None)], Clock(0, 5_000_000))
        assert counts(out) == {"a": batch}
