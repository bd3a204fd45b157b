"""How results travel to Spark."""

from __future__ import annotations

import pyarrow as pa

from unskew.streaming.worker.processor import flat, frame

WINDOWS = pa.array([{"start": 0, "end": 5}, None], pa.struct([("start", pa.int64()), ("end", pa.int64())]))


def test_a_window_travels_as_its_start_and_end() -> None:
    out = pa.table({"k": ["a"], "window": WINDOWS[:1], "n": [1]})
    assert flat(out.schema, windowed=True).names == ["k", "window.start", "window.end", "n"]
    assert frame(out, windowed=True).to_dict("list") == {
        "k": ["a"],
        "window.start": [0],
        "window.end": [5],
        "n": [1],
    }


def test_a_column_of_the_user_that_is_called_window_stays_null_where_it_is_null() -> None:
    out = pa.table({"k": ["a", "b"], "window": WINDOWS})
    assert flat(out.schema, windowed=False) == out.schema
    assert frame(out, windowed=False)["window"].tolist() == [{"start": 0, "end": 5}, None]
