"""Frames hold what the tables held."""

from __future__ import annotations

import pandas as pd
import pyarrow as pa

from unskew.streaming.operators.frames import frame_of


def test_whole_numbers_in_lists_and_structs_stay_whole() -> None:
    big = 2**60 + 1
    table = pa.table(
        {
            "n": pa.array([big, None]),
            "list": pa.array([[big, None], None], pa.list_(pa.int64())),
            "struct": pa.array([{"a": big}, None], pa.struct([("a", pa.int64())])),
        }
    )
    frame = frame_of(table, pd.ArrowDtype)
    assert frame["list"].tolist() == [[big, None], None]
    assert frame["struct"].tolist() == [{"a": big}, None]
    assert pa.Table.from_pandas(frame, schema=table.schema, preserve_index=False).equals(table)
