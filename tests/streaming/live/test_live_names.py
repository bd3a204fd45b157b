"""Names that collide with ours, and paths with characters that a URI would escape."""

from __future__ import annotations

import datetime as dt
import html
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql import SparkSession

import unskew
from tests.streaming.live.live import Live


def test_columns_called_like_our_own_and_a_path_with_odd_characters(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder = tmp_path / "a b%20#?é"
    folder.mkdir()
    live = Live(spark, folder, "hash string, `key.0` long")
    live.add(pa.table({"hash": ["a", "b", "a"], "key.0": [1, 2, 4]}))

    def count(rows: pd.DataFrame, states: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
        states["n"] = states["n"].fillna(0) + rows.groupby(level=0)["key.0"].sum()
        return states[["hash", "n"]], states

    stream = unskew.stream(live.events(), "hash").update(count, output="hash string, n long", state="n long")
    query = live.run(stream.thenBy("n").aggregate(total=unskew.count("hash"), most=unskew.max("hash")))
    assert query.journal()[0]["records"] == 2 + 1
    shown = query._repr_html_()
    assert query.journal()[-1]["decision"]["reason"] in html.unescape(shown)
    assert shown.count("<rect") == len(query.journal())
    rows = unskew.state(live.checkpoint, spark).toArrow().to_pylist()
    assert {row["hash"]: row["n"] for row in rows} == {"a": 5, "b": 2}
    operators = query.lastProgress["stateOperators"]
    assert [operator["numRowsTotal"] for operator in operators] == [2, 2]
    assert not list(tmp_path.glob(".unskew*"))


def test_a_column_called_window_is_null_where_the_function_emits_null(
    spark: SparkSession, tmp_path: Path
) -> None:
    live = Live(spark, tmp_path, "k string, v long")
    live.add(pa.table({"k": ["a", "b"], "v": [1, 2]}))

    def visits(key: tuple[str], rows: pd.DataFrame, state: dict[str, int] | None) -> Any:
        moment = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)
        window = {"start": moment, "end": moment} if key[0] == "a" else None
        return {"k": key[0], "window": window}, {"n": 1}

    output = "k string, window struct<start: timestamp, end: timestamp>"
    live.run(unskew.stream(live.events(), "k").update_each(visits, output=output, state="n long"))
    windows = {row["k"]: row["window"] for row in live.output(0)}
    assert windows["b"] is None
    assert windows["a"]["start"] == windows["a"]["end"]
    assert windows["a"]["start"].replace(tzinfo=None) == dt.datetime(2026, 1, 1)
