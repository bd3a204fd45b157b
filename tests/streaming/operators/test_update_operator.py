"""A user's own function as the operator."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from decimal import Decimal
from random import Random
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from tests.streaming.worker.slot_world import DictStore, ForgetfulCache
from unskew.core.hashing import hash_keys
from unskew.streaming.operators.operator import Clock, Expiry
from unskew.streaming.operators.update_operator import UpdateError, UpdateOperator
from unskew.streaming.storage.slot_state import SlotState

KEY = pa.schema([("k", pa.string())])
RECORDS = pa.schema([("k", pa.string()), ("v", pa.int64()), ("t", pa.timestamp("us", "UTC"))])
STATE = pa.schema([("n", pa.int64()), ("last", pa.string())])
OUTPUT = pa.schema([("k", pa.string()), ("n", pa.int64())])
Rows = list[tuple[str | None, int | None]]


class Slot:
    """One slot that keeps its state from batch to batch."""

    def __init__(self, fn: Callable[..., Any], each: bool = False, **options: Any) -> None:
        defaults = {"state": STATE, "output": OUTPUT, "time": "t", "expiry": None, "expired": None}
        self.operator = UpdateOperator(KEY, fn=fn, each=each, records=RECORDS, **{**defaults, **options})
        self.store, self.cache = DictStore(), ForgetfulCache(Random(1))

    def step(
        self,
        rows: Rows,
        clock: Clock = Clock(0),  # noqa: B008 it is frozen
        watermark_before: int | None = None,
    ) -> list[dict[str, Any]]:
        keys = pa.array([k for k, _ in rows], pa.string())
        values = pa.array([v for _, v in rows], pa.int64())
        times = pa.array(np.arange(len(rows)) * 1000, RECORDS.field("t").type)
        table = pa.table({"hash": hash_keys(keys), "key.0": keys, "k": keys, "v": values, "t": times})
        packed = self.operator.pack(table, watermark_before)
        payload = pa.concat_tables([self.operator.payload.empty_table(), packed])
        state = SlotState.load(self.operator.layout, 8, self.store, self.cache)
        out, self.late = self.operator.step(payload.combine_chunks(), state, clock)
        assert out.schema == self.operator.output
        state.applied = (state.applied or 0) + 1
        state.save(self.store, self.cache)
        return out.to_pylist()

    def state(self) -> dict[str | None, tuple[Any, ...]]:
        rows = SlotState.load(self.operator.layout, 8, self.store, self.cache).everything()
        values = zip(*(rows[n].to_pylist() for n in self.operator.layout.values), strict=True)
        return dict(zip(rows["key.0"].to_pylist(), values, strict=True))


def counting(rows: pd.DataFrame, states: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Counts per key; keeps the last value as text; drops a key that sends -1."""
    by_key = rows.groupby(level=0)["v"]
    states["n"] = states["n"].fillna(0) + by_key.size()
    states["last"] = by_key.last().map(lambda v: None if pd.isna(v) else str(int(v)))
    dropped = by_key.min().eq(-1).fillna(False).astype(bool)
    return states[["k", "n"]], states[~dropped]


def counting_each(
    key: tuple[str | None], rows: pd.DataFrame, state: dict[str, Any] | None
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """The same, key by key."""
    n = (0 if state is None else state["n"]) + len(rows)
    values = [int(v) for v in rows["v"] if not pd.isna(v)]
    last = str(values[-1]) if values else None
    return {"k": key[0], "n": n}, None if values and min(values) == -1 else {"n": n, "last": last}


@pytest.mark.parametrize(("fn", "each"), [(counting, False), (counting_each, True)])
def test_states_are_kept_from_batch_to_batch_and_dropped_on_demand(fn: Any, each: bool) -> None:
    random = Random(1)
    slot = Slot(fn, each)
    truth: dict[str | None, tuple[int, str | None]] = {}
    for _ in range(12):
        rows: Rows = [
            (random.choice(["a", "b", "c", None]), random.choice([-1, None, *range(8)])) for _ in range(6)
        ]
        expected = {}
        for key in dict.fromkeys(k for k, _ in rows):
            key_values = [v for k, v in rows if k == key]
            present = [v for v in key_values if v is not None]
            n = truth.get(key, (0, None))[0] + len(key_values)
            expected[key] = n
            truth[key] = (n, str(present[-1]) if present else None)
            if -1 in present:
                del truth[key]
        assert {row["k"]: row["n"] for row in slot.step(rows)} == expected
        assert slot.state() == truth
    assert slot.step([]) == []


def test_each_gets_plain_python_values_and_none_if_there_is_no_state() -> None:
    types = {
        "i": pa.int64(),
        "f": pa.float64(),
        "s": pa.string(),
        "d": pa.decimal128(10, 2),
        "t": pa.timestamp("us", "UTC"),
        "day": pa.date32(),
        "flag": pa.bool_(),
        "many": pa.list_(pa.int64()),
    }
    moment = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)
    full = {
        "i": 2**53 + 1,
        "f": 1.5,
        "s": "x",
        "d": Decimal("1.50"),
        "t": moment,
        "day": moment.date(),
        "flag": True,
        "many": [1, 2],
    }
    empty = dict.fromkeys(types)
    calls = []

    def fn(key: Any, rows: pd.DataFrame, state: Any) -> Any:
        calls.append((key, state))
        return None, full if key == ("a",) else empty

    slot = Slot(fn, each=True, state=pa.schema(types))
    slot.step([("a", 1), (None, 1)])
    slot.step([("a", 1), (None, 1)])
    assert calls == [(("a",), None), ((None,), None), (("a",), full), ((None,), empty)]
    assert type(calls[2][1]["i"]) is int


@pytest.mark.parametrize("returned", ["dict", "list", "frame", "none"])
def test_each_may_emit_rows_in_several_ways(returned: str) -> None:
    row = {"k": "a", "n": 1}
    out: Any = {"dict": row, "list": [row, row], "frame": pd.DataFrame([row] * 3), "none": None}[returned]
    slot = Slot(lambda key, rows, state: (out, None), each=True)
    assert slot.step([("a", 1)]) == [row] * {"dict": 1, "list": 2, "frame": 3, "none": 0}[returned]
    assert slot.state() == {}


def test_whole_numbers_stay_whole() -> None:
    large = 2**53 + 1
    values: list[Any] = []

    def fn(rows: pd.DataFrame, states: pd.DataFrame) -> Any:
        values.extend(rows["v"])
        states["n"] = rows.groupby(level=0)["v"].max()
        return None, states

    slot = Slot(fn)
    slot.step([("a", large), ("b", None), ("a", None)])
    assert values[0] == large
    assert slot.state() == {"a": (large, None), "b": (None, None)}


@pytest.mark.parametrize("by_event_time", [False, True])
def test_expired_states_may_emit_rows(by_event_time: bool) -> None:
    slot = Slot(
        counting,
        expiry=Expiry(100, by_event_time),
        expired=lambda states: states[["k"]].assign(n=-states["n"]),
    )
    clocks = {False: (Clock(0), Clock(50), Clock(100)), True: (Clock(9), Clock(9, 50), Clock(9, 100))}
    first, second, third = clocks[by_event_time]
    slot.step([("a", 1), ("a", 1)], first)
    slot.step([("b", 1)] * 60, second)  # event times are 0, 1, 2, … ms
    assert slot.step([], Clock(third.now, third.watermark + 1)) == [{"k": "a", "n": -2}]
    assert set(slot.state()) == {"b"}


@pytest.mark.parametrize("by_event_time", [False, True])
def test_late_records_are_counted_where_event_time_ends_state(by_event_time: bool) -> None:
    slot = Slot(counting, expiry=Expiry(100, by_event_time))
    rows: Rows = [("a", 1)] * 5  # event times are 0, 1, … ms
    slot.step(rows, Clock(0, 3), watermark_before=2)
    late = 3 if by_event_time else 0
    assert slot.late == late
    assert slot.state()["a"][0] == 5 - late


def test_expired_may_emit_nothing() -> None:
    slot = Slot(counting, expiry=Expiry(100, False), expired=lambda states: None)
    slot.step([("a", 1)], Clock(0))
    assert slot.step([], Clock(100)) == []
    assert slot.state() == {}


def failing(rows: pd.DataFrame, states: pd.DataFrame) -> Any:
    if "bad" in states["k"].tolist():
        raise KeyError("oh")
    return states[["k", "n"]], states


def test_the_key_that_makes_a_function_fail_is_named() -> None:
    rows: Rows = [(f"{i}", 1) for i in range(37)]
    with pytest.raises(UpdateError, match="failed on key 'bad': KeyError"):
        Slot(failing).step([*rows, ("bad", 1), ("bad", 2)])

    def fn(key: tuple[str], rows: pd.DataFrame, state: Any) -> Any:
        raise KeyError(key)

    with pytest.raises(UpdateError, match="failed on key 'a'"):
        Slot(fn, each=True).step([("a", 1)])


def together(rows: pd.DataFrame, states: pd.DataFrame) -> Any:
    if len(states) > 1:
        raise ValueError("too many")
    return None, states


@pytest.mark.parametrize(
    ("fn", "message"),
    [
        (together, "not on either half of them alone"),
        (lambda rows, states: states, "must return \\(out, states\\), not DataFrame"),
        (lambda rows, states: (None, None), "must return \\(out, states\\)"),
        (lambda rows, states: (None, states.set_axis(states.index + 1)), "keep their index"),
        (lambda rows, states: (None, pd.concat([states, states])), "keep their index"),
        (lambda rows, states: (None, states.drop(columns="n")), "states has no column 'n'"),
        (lambda rows, states: (None, states.assign(n="x")), "states does not fit its schema"),
        (lambda rows, states: (states[["k"]], states), "out has no column 'n'"),
        (lambda rows, states: (7, states), "out must be a pandas DataFrame, not int"),
        (lambda rows, states: (None, states.assign(n=1.5)), "key 'a', field 'n' is 1.5, not a int64"),
        (lambda rows, states: (None, states.assign(n=[1, True])), "key 'b', field 'n' is True"),
        (lambda rows, states: (None, states.assign(n=True)), "key 'a', field 'n' is True"),
        (lambda rows, states: (None, states.assign(n=pd.Timestamp(0))), "field 'n' is Timestamp"),
        (
            lambda rows, states: (None, states.assign(n=pd.Series([1, 1.5], dtype=object))),
            "key 'b', field 'n'",
        ),
        (lambda rows, states: (None, states.assign(N=1)), "states has a column 'N' that its schema has not"),
        (
            lambda rows, states: (states.assign(m=1)[["k", "n", "m"]], states),
            "out has a column 'm' that its schema has not: k, n",
        ),
        (lambda rows, states: (states[["k", "n", "n"]], states), "out has two columns 'n'"),
    ],
)
def test_a_mistake_of_a_function_is_reported(fn: Any, message: str) -> None:
    slot = Slot(fn)
    with pytest.raises(UpdateError, match=message):
        slot.step([("a", 1), ("b", 2)])
    assert slot.state() == {}


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ((None, {"n": "x", "last": None}), "states does not fit its schema: key 'a', field 'n' is 'x'"),
        ((None, {"n": 2**70, "last": None}), "key 'a', field 'n' is 1180591620717411303424"),
        ((None, {"n": 1.5, "last": None}), "key 'a', field 'n' is 1.5, not a int64"),
        ((None, {"n": Decimal("1.5"), "last": None}), "key 'a', field 'n' is Decimal"),
        ((None, {"n": True, "last": None}), "key 'a', field 'n' is True"),
        ((None, {"n": math.inf, "last": None}), "key 'a', field 'n' is inf"),
        ((None, {"n": 1, "last": b"x"}), "key 'a', field 'last' is b'x'"),
        ((None, {"N": 1, "last": None}), "key 'a': states has no field 'n': it has N, last"),
        ((None, {"n": 1}), "key 'a': states has no field 'last'"),
        ((None, {"n": 1, "last": None, "m": 1}), "key 'a': states has a field 'm' that its schema has not"),
        ((None, 7), "states must be dicts, not int \\(key 'a'\\)"),
        (({"k": "a", "n": 1.5}, None), "failed on key 'a'.*field 'n' is 1.5"),
        (({"k": "a", "m": 1}, None), "failed on key 'a'.*out has no field 'n'"),
        ((pd.DataFrame({"k": ["a"], "n": [1.5]}), None), "failed on key 'a'.*field 'n' is 1.5"),
        (([7], None), "failed on key 'a'.*out must be dicts, not int"),
        (({"k": "a", "n": "x"}, None), "failed on key 'a'.*out does not fit"),
        (7, "failed on key 'a'"),
    ],
)
def test_a_mistake_of_a_function_of_one_key_is_reported(returned: Any, message: str) -> None:
    with pytest.raises(UpdateError, match=message):
        Slot(lambda key, rows, state: returned, each=True).step([("a", 1)])


NESTED = pa.struct([("x", pa.int64()), ("days", pa.list_(pa.date32()))])


@pytest.mark.parametrize(
    "value",
    [
        {"x": 1, "days": [], "y": 2},
        {"x": 1},
        {"x": 1.5, "days": None},
        {"x": 1, "days": [dt.datetime(2026, 1, 1, 5)]},
        {"x": 1, "days": [5]},
    ],
)
def test_a_wrong_value_inside_a_field_is_refused(value: Any) -> None:
    state = pa.schema([("s", NESTED)])
    with pytest.raises(UpdateError, match=r"key 'a', field 's' is \{'x': 1"):
        Slot(lambda key, rows, state: (None, {"s": value}), each=True, state=state).step([("a", 1)])
    with pytest.raises(UpdateError, match=r"key 'a', field 's' is \{'x': 1"):
        Slot(lambda rows, states: (None, states.assign(s=[value])), state=state).step([("a", 1)])


@pytest.mark.parametrize("value", [3, 3.0, np.int32(3), np.float64(3.0)])
def test_whole_numbers_fit_whatever_their_type(value: Any) -> None:
    slot = Slot(lambda key, rows, state: (None, {"n": value, "last": None}), each=True)
    slot.step([("a", 1)])
    assert slot.state() == {"a": (3, None)}


def test_nan_is_not_null() -> None:
    state = pa.schema([("f", pa.float64())])
    slot = Slot(
        lambda key, rows, state: (None, {"f": float("nan") if key == ("a",) else pd.NA}), True, state=state
    )
    slot.step([("a", 1), ("b", 1)])
    assert repr(slot.state()) == repr({"a": (float("nan"),), "b": (None,)})


def test_missing_values_of_pandas_become_null() -> None:
    slot = Slot(lambda key, rows, state: (None, {"n": pd.NA, "last": pd.NaT}), each=True)
    slot.step([("a", 1)])
    assert slot.state() == {"a": (None, None)}
