"""Live stateful streams on real Spark: every batch equals a single-threaded replay, whatever moves meanwhile."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import unskew
from tests.cases import mostly_thorough
from tests.streaming.live.live import Live, counted, drifting


def by_key(rows: list[dict[str, Any]], *names: str) -> dict[Any, tuple[int, int]]:
    one = len(names) == 1
    return {
        (row[names[0]] if one else tuple(row[n] for n in names)): (row["n"], row["total"]) for row in rows
    }


def totals(live: Live, *names: str) -> Any:
    operation = unskew.stream(live.events(), list(names))
    return operation.aggregate(n=unskew.count(), total=unskew.sum("v"))


@pytest.mark.connect
def test_state_moves_while_it_runs_and_every_batch_is_right(spark: SparkSession, tmp_path: Path) -> None:
    live = Live(spark, tmp_path, "k string, v long")
    tables = drifting(batches=8, rows=2000, keys=300, exponent=1.3, change=4)
    wanted = counted(tables, lambda row: row["k"])
    live.add(*tables[:5])
    live.run(totals(live, "k"))
    live.add(*tables[5:])
    query = live.run(totals(live, "k"))  # again, from the checkpoint

    assert [by_key(rows, "k") for rows in live.outputs().values()] == wanted
    lines = query.journal()
    assert [line["batch"] for line in lines] == list(range(8))
    assert sum(line["moved"]["rows"] for line in lines) > 0
    assert lines[-1]["version"] > lines[0]["version"]
    for settled in (3, 7):
        assert (
            lines[settled]["imbalance"] <= 1.15 * lines[settled]["bound"]
        )  # it was twice that; 2000 records are noisy
    assert lines == unskew.journal(live.checkpoint)

    state = {row["k"]: row for row in unskew.state(live.checkpoint, spark).toArrow().to_pylist()}
    final = {k: v for batch in wanted for k, v in batch.items()}
    assert {k: (row["n"], row["total"]) for k, row in state.items()} == final
    assert {row["slot"] for row in state.values()} == {0, 1, 2}
    assert {row["entry"].split()[0] for row in state.values()} == {"heavy", "bucket"}


MOMENTS = [
    dt.datetime(2026, 11, 1, h, 30, tzinfo=dt.timezone.utc) for h in (4, 5, 6)
]  # the clocks go back in New York
KEYS: dict[str, tuple[str, pa.DataType, list[Any]]] = {
    "double": ("double", pa.float64(), [0.0, -0.0, float("nan"), None, 1.5]),
    "timestamp": ("timestamp", pa.timestamp("us", "UTC"), [*MOMENTS, None]),
    "decimal": (
        "decimal(20,3)",
        pa.decimal128(20, 3),
        [Decimal("1.500"), Decimal("-12345678901234.001"), None],
    ),
    "binary": ("binary", pa.binary(), [b"", b"\x00\xff", None]),
    "date": ("date", pa.date32(), [dt.date(1969, 12, 31), dt.date(2026, 1, 1), None]),
    "text": ("string", pa.string(), ["", "ключ", "x" * 20_000, "<script>", None]),
    "struct": (
        "struct<a:int,b:string>",
        pa.struct([("a", pa.int32()), ("b", pa.string())]),
        [{"a": 1, "b": None}, {"a": 1, "b": ""}, None],
    ),
}


# A query takes seconds, so most types share one, as parts of a composite key.
KEY_COLUMNS = [["double"], ["timestamp", "decimal", "binary", "date"], ["text", "struct"]]


@pytest.mark.parametrize("names", KEY_COLUMNS, ids="-".join)
def test_keys_of_every_type(spark: SparkSession, tmp_path: Path, names: list[str]) -> None:
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        live = Live(spark, tmp_path, ", ".join(f"{name} {KEYS[name][0]}" for name in names) + ", v long")
        rows = 30
        columns = {name: pa.array(list(islice(cycle(KEYS[name][2]), rows)), KEYS[name][1]) for name in names}
        tables = [pa.table({**columns, "v": pa.array(range(rows))}) for _ in range(2)]
        live.add(*tables)
        live.run(totals(live, *names))
        output = live.output(1)
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)

    def key_of(row: dict[str, Any]) -> tuple[str, ...]:
        return tuple(text(row[name]) for name in names)

    counts = {key_of(row): (row["n"], row["total"]) for row in output}
    assert len(counts) == len(output), "a key came out twice"
    assert counts == counted(tables, key_of)[1]


def test_every_key_type_is_part_of_a_query() -> None:
    assert sorted(name for names in KEY_COLUMNS for name in names) == sorted(KEYS)


def text(value: Any) -> str:
    """Keys that Spark takes for one have one text."""
    if isinstance(value, float) and value == 0:
        value = 0.0
    if isinstance(value, dt.datetime):
        value = pd.Timestamp(value)  # Spark writes Parquet in UTC, without saying so
        value = value.tz_localize("UTC") if value.tzinfo is None else value.tz_convert("UTC")
    return repr(value)


def test_composite_keys(spark: SparkSession, tmp_path: Path) -> None:
    live = Live(spark, tmp_path, "a string, b long, v long")
    a, b = ["x", "x", None, "y", "x"], [1, 2, None, 1, 1]
    tables = [pa.table({"a": a, "b": pa.array(b, pa.int64()), "v": [1, 2, 3, 4, 5]})] * 2
    live.add(*tables)
    live.run(totals(live, "a", "b"))
    assert by_key(live.output(1), "a", "b") == counted(tables, lambda row: (row["a"], row["b"]))[1]


def moments(*minutes: float) -> pa.Array:
    return pa.array([int(m * 60e6) for m in minutes], pa.int64()).cast(pa.timestamp("us", "UTC"))


@pytest.mark.classic
@pytest.mark.connect
def test_windows_close_once_and_late_records_are_counted(spark: SparkSession, tmp_path: Path) -> None:
    live = Live(spark, tmp_path, "k string, at timestamp, v long")
    live.add(
        pa.table({"k": ["a", "a", "b"], "at": moments(1, 4, 7), "v": [1, 2, 3]}),
        pa.table({"k": ["a", "b"], "at": moments(26, 21), "v": [4, 5]}),  # the watermark goes to minute 16
        pa.table({"k": ["a"], "at": moments(27), "v": [6]}),
        pa.table({"k": ["a", "b"], "at": moments(2, 60), "v": [100, 7]}),  # the first is too late
    )
    stream = unskew.stream(live.events(), "k", time="at", watermark="10 minutes")
    query = live.run(stream.aggregate(window="5 minutes", n=unskew.count(), total=unskew.sum("v")))
    rows = [row for rows in live.outputs().values() for row in rows]
    found = sorted(
        (r["k"], r["window"]["start"].minute, r["window"]["end"].minute, r["n"], r["total"]) for r in rows
    )
    assert found == [("a", 0, 5, 2, 3), ("a", 25, 30, 2, 10), ("b", 5, 10, 1, 3), ("b", 20, 25, 1, 5)]
    assert sum(line["late"] for line in query.journal()) == 1
    left = unskew.state(live.checkpoint, spark).toArrow().to_pylist()
    assert [(r["k"], r["n"]) for r in left] == [("b", 1)]


def test_a_record_in_several_windows_counts_once_in_the_journal(spark: SparkSession, tmp_path: Path) -> None:
    live = Live(spark, tmp_path, "k string, at timestamp, v long")
    live.add(
        pa.table({"k": ["a", "b"], "at": moments(4, 60), "v": [1, 2]}),
        pa.table({"k": ["b"], "at": moments(61), "v": [3]}),
        pa.table({"k": ["a", "b"], "at": moments(2, 55), "v": [4, 5]}),  # all, or some, windows have passed
    )
    stream = unskew.stream(live.events(), "k", time="at", watermark="1 minute")
    query = live.run(stream.aggregate(window="10 minutes", slide="2 minutes", n=unskew.count()))
    lines = [line for line in query.journal() if line["records"]]
    assert [(line["records"], line["late"]) for line in lines] == [(2, 0), (1, 0), (2, 1)]
    assert [sum(line["loads"]) for line in lines] == [2, 1, 2]


def test_the_state_shows_windows_in_the_type_of_the_time_column(spark: SparkSession, tmp_path: Path) -> None:
    live = Live(spark, tmp_path, "k string, at timestamp_ntz, v long")
    live.add(pa.table({"k": ["a"], "at": moments(1).cast(pa.timestamp("us")), "v": [1]}))
    live.run(unskew.stream(live.events(), "k", time="at").aggregate(window="5 minutes", n=unskew.count()))
    shown = unskew.state(live.checkpoint, spark)
    assert shown.schema["window"].dataType.simpleString() == "struct<start:timestamp_ntz,end:timestamp_ntz>"
    start = dt.datetime(1970, 1, 1)
    assert [row["window"]["start"] for row in shown.toArrow().to_pylist()] == [start]


def test_state_expires_by_event_time_and_says_so(spark: SparkSession, tmp_path: Path) -> None:
    live = Live(spark, tmp_path, "k string, at timestamp, v long")
    live.add(
        pa.table({"k": ["a", "b"], "at": moments(1, 2), "v": [1, 1]}),
        pa.table({"k": ["b"], "at": moments(31), "v": [1]}),
        pa.table({"k": ["c"], "at": moments(32), "v": [1]}),
        pa.table({"k": ["a"], "at": moments(33), "v": [1]}),
    )

    def session(rows: pd.DataFrame, states: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
        states["n"] = states["n"].fillna(0) + rows.groupby(level=0).size()
        return states[["k", "n"]].assign(closed=False), states

    def closed(states: pd.DataFrame) -> pd.DataFrame:
        return states[["k", "n"]].assign(closed=True)

    stream = unskew.stream(live.events(), "k", time="at", watermark="1 minute")
    live.run(
        stream.update(
            session,
            output="k string, n long, closed boolean",
            state="n long",
            ttl="10 minutes",
            expired=closed,
        )
    )
    rows = [(r["k"], r["n"], r["closed"]) for rows in live.outputs().values() for r in rows]
    assert rows.count(("a", 1, True)) == 1  # idle from minute 1 to 30
    assert ("a", 2, False) not in rows  # it began anew
    assert ("b", 2, False) in rows or ("b", 1, True) in rows


def test_update_each_and_a_poison_record(spark: SparkSession, tmp_path: Path) -> None:
    live = Live(spark, tmp_path, "k string, v long")

    def balance(key: tuple[str], rows: pd.DataFrame, state: dict[str, Any] | None) -> Any:
        if (rows["v"] < 0).any():
            raise ValueError("negative amount")
        total = (state["total"] if state else 0) + int(rows["v"].sum())
        return {"k": key[0], "total": total}, {"total": total} if total < 100 else None

    def operation() -> Any:
        stream = unskew.stream(live.events(), "k")
        return stream.update_each(balance, output="k string, total long", state="total long")

    live.add(pa.table({"k": ["a", "b", "a"], "v": [1, 2, 3]}), pa.table({"k": ["a", "b"], "v": [200, 1]}))
    live.run(operation())
    live.add(pa.table({"k": ["a", "evil"], "v": [1, -1]}))
    with pytest.raises(Exception, match=r"failed on key 'evil'.*negative amount"):
        live.run(operation())
    assert {r["k"]: r["total"] for r in live.output(1)} == {"a": 204, "b": 3}
    assert {r["k"]: r["total"] for r in unskew.state(live.checkpoint, spark).toArrow().to_pylist()} == {
        "b": 3
    }
    pq.write_table(pa.table({"k": ["a", "good"], "v": [1, 1]}), live.source / "00002.parquet")
    live.run(operation())
    assert {r["k"]: r["total"] for r in live.output(2)} == {"a": 1, "good": 1}


def test_slots_grow_and_shrink(spark: SparkSession, tmp_path: Path) -> None:
    live = Live(spark, tmp_path, "k string, v long")
    tables = drifting(batches=9, rows=600, keys=100, exponent=0.5, change=99)
    wanted = counted(tables, lambda row: row["k"])
    options: dict[str, Any] = {"slots": 2, "max_slots": 4}
    live.add(*tables[:2])
    query = live.run(totals(live, "k"), **options)
    query.scale(4)
    live.add(*tables[2:6])
    query = live.run(totals(live, "k"), **options, budget=unskew.Budget.batched(0.5))
    assert query.journal()[-1]["slots"] == 4
    query.scale(1)
    live.add(*tables[6:])
    lines = live.run(totals(live, "k"), **options).journal()
    assert [by_key(rows, "k") for rows in live.outputs().values()] == wanted
    assert lines[-1]["slots"] == 1
    with pytest.raises(ValueError, match="from 1 to max_slots=4"):
        query.scale(5)


@pytest.mark.thorough
def test_slots_follow_the_load_by_rule(spark: SparkSession, tmp_path: Path) -> None:
    live = Live(spark, tmp_path, "k string, v long")
    few, many = drifting(3, rows=100, keys=40, exponent=1.0, change=9), drifting(4, 900, 40, 1.0, change=9)
    tables = [*many, *few]
    live.add(*tables)
    query = live.run(totals(live, "k"), slots=1, max_slots=4, scaling=unskew.LoadRange(150, 400))
    slots = [line["slots"] for line in query.journal()]
    assert slots[0] == 1
    assert max(slots) == 4
    assert slots[-1] < 4
    expected = counted(tables, lambda row: row["k"])
    assert by_key(live.output(6), "k") == expected[6]


@pytest.mark.parametrize("planner", mostly_thorough(["kip", "elb", "clb"], ["kip"]))
def test_other_planners_move_state_rightly(spark: SparkSession, tmp_path: Path, planner: str) -> None:
    live = Live(spark, tmp_path, "k string, v long")
    tables = drifting(6, rows=400, keys=40, exponent=1.5, change=2)
    live.add(*tables)
    eager = unskew.Policy(horizon=10**6, patience=1, cooldown=0)  # whatever moving costs here, it pays
    query = live.run(totals(live, "k"), planner=planner, policy=eager)
    assert [by_key(rows, "k") for rows in live.outputs().values()] == counted(tables, lambda row: row["k"])
    assert sum(line["moved"]["rows"] for line in query.journal()) > 0


def test_a_sink_that_reads_little_or_nothing(spark: SparkSession, tmp_path: Path) -> None:
    live = Live(spark, tmp_path, "k string, v long")
    tables = drifting(batches=3, rows=300, keys=50, exponent=1.0, change=9)
    live.add(*tables)

    def lazy(df: Any, batch: int) -> None:
        if batch == 1:
            df.limit(1).collect()

    operation = totals(live, "k")
    query = live.start(operation, lazy, trigger="availableNow")
    query.awaitTermination()
    final = {k: v for batch in counted(tables, lambda row: row["k"]) for k, v in batch.items()}
    assert by_key(unskew.state(live.checkpoint, spark).toArrow().to_pylist(), "k") == final


def test_a_checkpoint_knows_its_operator(spark: SparkSession, tmp_path: Path) -> None:
    live = Live(spark, tmp_path, "k string, v long")
    live.add(pa.table({"k": ["a"], "v": [1]}))
    live.run(totals(live, "k"))
    before = sorted(p.name for p in (tmp_path / "checkpoint").rglob("*"))
    with pytest.raises(ValueError, match=r"the number of buckets is 128, but .* begun with 64"):
        live.run(totals(live, "k"), buckets=128)
    with pytest.raises(ValueError, match="the key is"):
        live.run(totals(live, "v"))
    with pytest.raises(ValueError, match="the state is"):
        live.run(unskew.stream(live.events(), "k").aggregate(most=unskew.max("v")))
    assert sorted(p.name for p in (tmp_path / "checkpoint").rglob("*")) == before

    other = tmp_path / "other"
    plain = live.events().writeStream.option("checkpointLocation", str(other)).format("noop")
    plain.trigger(availableNow=True).start().awaitTermination()
    with pytest.raises(ValueError, match="belongs to another query"):
        live.run(totals(live, "k"), checkpoint=str(other))


def test_a_second_query_on_a_checkpoint_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    live = Live(spark, tmp_path, "k string, v long")
    live.add(pa.table({"k": ["a"], "v": [1]}))
    query = live.start(totals(live, "k"), "console", slots=2)
    try:
        with pytest.raises(
            ValueError, match="already running a query on this checkpoint: stop that query first"
        ):
            live.run(totals(live, "k"))
    finally:
        query.stop()
    live.run(totals(live, "k"))


def test_bad_input_is_refused_before_anything_starts(spark: SparkSession, tmp_path: Path) -> None:
    live = Live(spark, tmp_path, "k string, at timestamp, v long")
    events = live.events()
    with pytest.raises(ValueError, match="not a streaming DataFrame"):
        unskew.stream(spark.range(3), "id")
    with pytest.raises(ValueError, match="there is no column 'user'"):
        unskew.stream(events, "user")
    with pytest.raises(ValueError, match="a watermark needs time="):
        unskew.stream(events, "k", watermark="1 minute")
    with pytest.raises(ValueError, match="'v' is not a timestamp but bigint"):
        unskew.stream(events, "k", time="v")
    with pytest.raises(ValueError, match="watermark is a length of time like '10 minutes', not '1 hr 5 x'"):
        unskew.stream(events, "k", time="at", watermark="1 hr 5 x")
    hourly = unskew.stream(events, "k", time="at", watermark="1 h")
    assert hourly.watermark == "3600000 milliseconds", "which Spark reads, as it does not read '1 h'"
    assert events.withWatermark("at", str(hourly.watermark)).isStreaming
    stream = unskew.stream(events, "k", time="at")
    for match, options in {
        "at least one aggregate": {},
        "is not an aggregate": {"n": 1},
        "is taken by the key": {"k": unskew.count()},
        "length of time": {"n": unskew.count(), "window": "soon"},
        "needs window= and a watermark": {"n": unskew.count(), "window": "1 hour", "emit": "closed"},
        "longer than window": {"n": unskew.count(), "window": "1 hour", "slide": "2 hours"},
        "'nope'": {"n": unskew.sum("nope")},
        "'k'": {"n": unskew.sum("k")},
    }.items():
        with pytest.raises(ValueError, match=match):
            stream.aggregate(**options)
    ready = stream.aggregate(n=unskew.count())
    for match, options in {
        "splits keys over slots": {"planner": "pkg"},
        "planner": {"planner": "best"},
        "there is no sink": {"sink": "postgres"},
        "max_slots": {"slots": 4, "max_slots": 2},
        "at least one slot": {"slots": -1},
        "only 8 buckets": {"slots": 9, "buckets": 8},
        "fixed table": {"policy": "never"},
    }.items():
        arguments = {"sink": "console", "buckets": None, **options}
        with pytest.raises(ValueError, match=match):
            live.start(ready, arguments.pop("sink"), **arguments)
    with pytest.raises(ValueError, match=r"placement is an unskew\.Placement"):
        ready.start("console", checkpoint=live.checkpoint, placement={"max_slots": 2})
    assert not Path(live.checkpoint).exists()


def test_a_checkpoint_knows_what_its_aggregates_mean(spark: SparkSession, tmp_path: Path) -> None:
    live = Live(spark, tmp_path, "k string, v long, w long")
    live.add(pa.table({"k": ["a"], "v": [1], "w": [2]}))
    live.run(unskew.stream(live.events(), "k").aggregate(n=unskew.sum("v")))
    with pytest.raises(ValueError, match="the set of aggregates is"):
        live.run(unskew.stream(live.events(), "k").aggregate(n=unskew.sum("w")))


def test_a_sink_that_reads_a_part_of_every_slot_and_expiry_by_the_clock(
    spark: SparkSession, tmp_path: Path
) -> None:
    live = Live(spark, tmp_path, "k string, v long")
    tables = drifting(batches=3, rows=200, keys=50, exponent=1.0, change=9)
    live.add(*tables)

    def few(df: Any, batch: int) -> None:
        df.limit(1).collect()

    operation = unskew.stream(live.events(), "k").aggregate(
        n=unskew.count(), total=unskew.sum("v"), ttl="1 hour"
    )
    query = live.start(operation, few, slots=1, trigger="availableNow")
    assert query.awaitTermination(800), "a query by the clock must end, too"
    query.awaitTermination()
    final = {k: v for batch in counted(tables, lambda row: row["k"]) for k, v in batch.items()}
    assert by_key(unskew.state(live.checkpoint, spark).toArrow().to_pylist(), "k") == final
    live.run(operation, slots=1)  # a query that has ended holds no lease


@pytest.mark.connect
def test_the_memory_sink_keeps_all_batches(spark: SparkSession, tmp_path: Path) -> None:
    live = Live(spark, tmp_path, "k string, v long")
    live.add(*[pa.table({"k": ["a", "b"], "v": [1, 2]})] * 2)
    query = live.start(totals(live, "k"), "memory:kept", slots=2, trigger="availableNow")
    query.awaitTermination()
    rows = spark.table("global_temp.kept").toArrow().to_pylist()
    found = sorted((row["batch"], row["k"], row["n"]) for row in rows)
    assert found == [(0, "a", 1), (0, "b", 1), (1, "a", 2), (1, "b", 2)]


@pytest.mark.connect
def test_the_memory_sink_of_a_new_checkpoint_does_not_show_the_rows_of_another_query(
    spark: SparkSession, tmp_path: Path
) -> None:
    live = Live(spark, tmp_path, "k string, v long")

    def shown(checkpoint: str) -> list[tuple[int, int]]:
        query = live.start(
            totals(live, "k"),
            "memory:renewed",
            slots=2,
            trigger="availableNow",
            checkpoint=str(tmp_path / checkpoint),
        )
        query.awaitTermination()
        rows = spark.table("global_temp.renewed").toArrow().to_pylist()
        return sorted((row["batch"], row["n"]) for row in rows)

    live.add(*[pa.table({"k": ["a"], "v": [1]})] * 3)
    assert shown("first") == [(0, 1), (1, 2), (2, 3)]
    for file in sorted(live.source.iterdir())[1:]:
        file.unlink()
    assert shown("second") == [(0, 1)]
    live.add(pa.table({"k": ["a"], "v": [1]}))
    assert shown("second") == [(0, 1), (1, 2)], "the same checkpoint goes on"
