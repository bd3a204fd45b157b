"""`over` against the window functions of plain Spark: random windows, ties, bad input, how even the pieces are."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

import unskew
from tests.cases import mostly_thorough
from tests.spark.frames import exchanges
from unskew import windows
from unskew.core.window_functions import Frame, WindowFunction
from unskew.spark import worth
from unskew.spark.over_layout import OrderedSample
from unskew.spark.over_pieces import cut_window

ROWS = 900
_FLOATS = [0.0, -0.0, float("nan"), float("inf"), float("-inf"), 1.5, -2.25, 1e300, 0.1]
_TEXTS = ["", "a", "b", "Füße", "日本語", "🙂", "z" * 70, "z" * 69 + "y", "\ue000"]

ORDERS: dict[str, Callable[[random.Random], Any]] = {
    "int": lambda draw: draw.randrange(-60, 60),
    "double": lambda draw: draw.choice(_FLOATS) if draw.random() < 0.3 else draw.randrange(-80, 80) / 2,
    "float": lambda draw: draw.choice(_FLOATS[:7]) if draw.random() < 0.3 else draw.randrange(-80, 80) / 10,
    "decimal": lambda draw: Decimal(draw.randrange(-6000, 6000)) / 100,
    "date": lambda draw: date(1970, 1, 10) + timedelta(days=draw.randrange(-40, 40)),
    "timestamp": lambda draw: datetime(2024, 10, 27) + timedelta(minutes=draw.randrange(0, 300)),
    "string": lambda draw: draw.choice(_TEXTS) if draw.random() < 0.2 else str(draw.randrange(200)),
    "binary": lambda draw: bytes([draw.randrange(256), draw.randrange(3)]),
    "boolean": lambda draw: draw.random() < 0.5,
}
_TYPES = {
    "int": pa.int32(),
    "float": pa.float32(),
    "decimal": pa.decimal128(10, 2),
    "timestamp": pa.timestamp("us", "UTC"),
}
NUMBERS = ("int", "double", "float", "decimal")
"""Order columns that RANGE frames may be bounded by."""


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> DataFrame:
    """Rows of two hot keys, one of them null, and of some others; `id` is unique, and order values are often null."""
    draw = random.Random(7)
    keys = draw.choices(["hot", None, "a", "b", "c", "d"], [10, 5, 1, 1, 1, 1], k=ROWS)
    columns: dict[str, Any] = {"id": list(range(ROWS)), "user": keys}
    for name, value in ORDERS.items():
        values = [None if draw.random() < 0.08 else value(draw) for _ in range(ROWS)]
        columns[name] = pa.array(values, _TYPES.get(name))
    columns["n"] = pa.array(
        [None if draw.random() < 0.2 else draw.randrange(100) for _ in range(ROWS)], pa.int32()
    )
    columns["x"] = [None if draw.random() < 0.2 else draw.randrange(1000) / 4 for _ in range(ROWS)]
    columns["d"] = pa.array(
        [Decimal(draw.randrange(10**6)) / 1000 for _ in range(ROWS)], pa.decimal128(12, 3)
    )
    columns["wide"] = pa.array([Decimal(draw.randrange(10**6)) for _ in range(ROWS)], pa.decimal128(30, 4))
    table = pa.table(columns)
    frame = spark.createDataFrame(table).repartition(3)
    return frame.withColumn("ntz", F.col("timestamp").cast("timestamp_ntz")).localCheckpoint()


def plan_of(rows: DataFrame, slots: int) -> unskew.Plan:
    return unskew.plan(unskew.measure(rows, "user", sample=None), slots, planner="keel")


def framed(spec: Any, frame: Frame | None) -> Any:
    if frame is None:
        return spec
    low = Window.unboundedPreceding if frame.start is None else frame.start
    high = Window.unboundedFollowing if frame.end is None else frame.end
    return spec.rowsBetween(low, high) if frame.kind == "rows" else spec.rangeBetween(low, high)


def with_frame(function: WindowFunction, frame: Frame | None) -> WindowFunction:
    return framed(function, frame)  # type: ignore[no-any-return]  # the same methods as those of a window


Case = tuple[WindowFunction, Column, Frame | None]


def random_frame(draw: random.Random, *, by_row: bool, by_value: bool) -> Frame | None:
    if draw.random() < 0.2:
        return None
    kind = draw.choice([*(["rows"] if by_row else []), "range"])
    bounds = [-7, -2, -1, 0, 1, 3] if kind == "rows" or by_value else [0]
    start, end = sorted(draw.choices(bounds, k=2))
    return Frame(
        kind,  # type: ignore[arg-type]
        None if draw.random() < 0.4 else start,
        None if draw.random() < 0.4 else end,
    )


def random_case(draw: random.Random, *, by_row: bool, by_value: bool) -> Case:
    """A function of ours and of Spark, and its frame; `by_row` if no rows are tied, `by_value` if RANGE has bounds."""
    ranks: list[tuple[WindowFunction, Column]] = [
        (windows.rank(), F.rank()),
        (windows.dense_rank(), F.dense_rank()),
        (windows.percent_rank(), F.percent_rank()),
        (windows.cume_dist(), F.cume_dist()),
    ]
    if by_row:
        parts, offset = draw.choice([1, 2, 7, 1000]), draw.randrange(-3, 9)
        ranks += [
            (windows.row_number(), F.row_number()),
            (windows.ntile(parts), F.ntile(parts)),
            (windows.lag("string", offset), F.lag("string", offset)),
            (windows.lead(F.col("n") * 2, offset, -1), F.lead(F.col("n") * 2, offset, -1)),
            (windows.lag("d", 4, Decimal("1.500")), F.lag("d", 4, Decimal("1.500"))),
        ]
    if draw.random() < 0.4:
        return (*draw.choice(ranks), None)
    frame = random_frame(draw, by_row=by_row, by_value=by_value)
    aggregates: list[tuple[WindowFunction, Column]] = [
        (windows.sum("n"), F.sum("n")),
        (windows.sum("x"), F.sum("x")),
        (windows.sum("d"), F.sum("d")),
        (windows.sum("wide"), F.sum("wide")),
        (windows.count(), F.count(F.lit(1))),
        (windows.count("x"), F.count("x")),
        (windows.min("string"), F.min("string")),
        (windows.max("n"), F.max("n")),
        (windows.min("x"), F.min("x")),
        (windows.max("date"), F.max("date")),
        (windows.mean("n"), F.mean("n")),
        (windows.avg("x"), F.avg("x")),
    ]
    bounded = frame is not None and frame.start is not None and frame.end is not None
    if by_row:
        beyond = (
            frame is not None and frame.kind == "range" and ((frame.end or 0) < 0 or (frame.start or 0) > 0)
        )
        if bounded or not beyond:
            aggregates += [(windows.first("n"), F.first("n")), (windows.last("string"), F.last("string"))]
        if bounded:
            aggregates += [
                (windows.first("n", ignorenulls=True), F.first("n", ignorenulls=True)),
                (windows.mean("d"), F.mean("d")),
            ]
    function, plain = draw.choice(aggregates)
    return with_frame(function, frame), plain, frame


def random_order(draw: random.Random, names: list[str]) -> list[str | Column]:
    order: list[str | Column] = []
    for name in names:
        direction = draw.choice(
            ["", "asc", "desc", "asc_nulls_first", "asc_nulls_last", "desc_nulls_first", "desc_nulls_last"]
        )
        order.append(getattr(F.col(name), direction)() if direction else name)
    return order


# Three orders that leave ties, four that do not; thirty functions each.
SPECS = [
    ["double"],
    ["boolean", "string"],
    ["decimal"],
    ["int", "id"],
    ["string", "date", "id"],
    ["ntz", "binary", "float", "id"],
    ["id"],
]


@pytest.mark.parametrize("number", mostly_thorough(range(len(SPECS)), (0, 5)))
def test_random_windows(rows: DataFrame, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """210 windows: every function, every kind of frame, every type and direction of order columns."""
    monkeypatch.setattr("unskew.spark.over.MOST_COPIED", 9.0)  # so few rows are all near a cut
    draw = random.Random(number)
    names = SPECS[number]
    order = random_order(draw, names)
    by_row = names[-1] == "id"
    by_value = len(names) == 1 and names[0] in (*NUMBERS, "id")
    cases = [random_case(draw, by_row=by_row, by_value=by_value) for _ in range(30)]
    window = Window.partitionBy("user").orderBy(*order)
    plain = rows.withColumns(
        {f"c{i}": function.over(framed(window, frame)) for i, (_, function, frame) in enumerate(cases)}
    )
    planned = unskew.over(rows, "user", orderBy=order, plan=plan_of(rows, draw.choice([3, 5]))).planned(
        **{f"c{i}": function for i, (function, *_) in enumerate(cases)}
    )
    assert planned.pieces >= 2, planned.reason
    assert planned.rows.schema == plain.schema
    assert_rows(planned.rows, plain, [(case[0], case[2]) for case in cases])


def assert_rows(ours: DataFrame, plain: DataFrame, cases: list[Any]) -> None:
    """Equal rows by `id`; if not, the columns that differ are named with their functions."""
    left, right = (sorted(df.toArrow().to_pylist(), key=lambda row: row["id"]) for df in (ours, plain))
    assert len(left) == len(right) > 0
    wrong = {
        name: (cases[int(name[1:])] if name[0] == "c" else None, a["id"], a[name], b[name])
        for a, b in zip(left, right, strict=True)
        for name in b
        if repr(a[name]) != repr(b[name])
    }
    assert not wrong


def test_tied_rows_are_numbered_alike_on_both_sides_of_a_cut(rows: DataFrame) -> None:
    """`lag` is the value of the row numbered one less, and a running sum that of the numbers so far."""
    planned = unskew.over(rows, "user", orderBy="date", plan=plan_of(rows, 5)).planned(
        number=windows.row_number(),
        before=windows.lag("id", 3),
        after=windows.lead("id"),
        total=windows.sum("id").rowsBetween(Window.unboundedPreceding, 0),
        first=windows.first("id"),
        place=windows.rank(),
    )
    assert planned.pieces >= 4
    by_key: dict[Any, list[dict[str, Any]]] = {}
    for row in planned.rows.toArrow().to_pylist():
        by_key.setdefault(row["user"], []).append(row)
    for mine in by_key.values():
        mine.sort(key=lambda row: row["number"])
        assert [row["number"] for row in mine] == list(range(1, len(mine) + 1))
        ids = [row["id"] for row in mine]
        assert [row["before"] for row in mine] == ([None] * 3 + ids)[: len(ids)]
        assert [row["after"] for row in mine] == [*ids[1:], None]
        assert [row["total"] for row in mine] == [sum(ids[: i + 1]) for i in range(len(ids))]
        assert {row["first"] for row in mine} == {ids[0]}
        dates = [row["date"] or date.min for row in mine]
        assert dates == sorted(dates)
        assert [row["place"] for row in mine] == [dates.index(day) + 1 for day in dates]


@pytest.mark.classic
@pytest.mark.connect
def test_pieces_of_a_key_with_most_rows_are_even(spark: SparkSession, eager: None) -> None:
    """A key with 90 % of the rows, found and cut from a thin sample, in one shuffle of the rows."""
    rows = spark.range(0, 100_000, 1, 3).select(
        F.when(F.col("id") % 10 != 3, "hot").otherwise(F.concat(F.lit("k"), F.col("id") % 70)).alias("user"),
        (F.col("id") * 7919 % 100_000).alias("at"),
        "id",
    )
    planned = unskew.over(rows, "user", orderBy=F.col("at").desc(), slots=8, planner="keel").planned(
        number=windows.row_number(), near=windows.sum("at").rowsBetween(-2, 0), last=windows.min("at")
    )
    assert planned.pieces == 8
    assert 0.0 < planned.copied < 0.1
    results = planned.rows.select("*", F.spark_partition_id().alias("slot"))
    sizes = [row["count"] for row in results.groupBy("slot").count().collect()]
    assert sum(sizes) == 100_000
    assert len(sizes) == 8
    assert max(sizes) <= 1.1 * sum(sizes) / 8
    window = Window.partitionBy("user").orderBy(F.col("at").desc())
    expected = rows.select(
        "id",
        F.row_number().over(window).alias("number"),
        F.sum("at").over(window.rowsBetween(-2, 0)).alias("near"),
        F.min("at").over(window).alias("last"),
    )
    assert planned.rows.select(expected.columns).exceptAll(expected).count() == 0


def test_auto_cuts_only_what_is_hot(rows: DataFrame, eager: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unskew.spark.over.cores_of", lambda spark: 16)
    hot = unskew.over(rows, "user", orderBy="id", slots=8)
    assert hot.planned(n=windows.rank()).pieces >= 8
    # so many keys that hashing is as even as a plan
    ids = rows.sparkSession.range(0, 50_000, 1, 3).select(F.xxhash64("id").alias("id"))
    even = unskew.over(ids, "id", orderBy="id", slots=3).planned(n=windows.rank())
    assert even.pieces == 0
    assert exchanges(even.rows) == ["hashpartitioning"]
    assert "no key" in even.reason
    monkeypatch.setattr("unskew.spark.over.cores_of", lambda spark: 1)
    alone = hot.planned(n=windows.rank())
    assert alone.pieces == 0
    assert "on 1 cores" in alone.reason


def test_a_job_of_medium_length_has_its_hot_keys_cut_but_no_keys_placed(
    rows: DataFrame, eager: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unskew.spark.over.cores_of", lambda spark: 16)
    monkeypatch.setattr("unskew.spark.over.hashing_suffices", lambda plan, options: False)
    hot = unskew.over(rows, "user", orderBy="id", slots=8)
    monkeypatch.setattr(worth, "SHORTEST", 1e9)
    assert hot.planned(n=windows.rank()).pieces >= 8
    monkeypatch.setattr("unskew.spark.over.cores_of", lambda spark: 1)
    whole = hot.planned(n=windows.rank())
    assert not whole.loads
    assert exchanges(whole.rows) == ["hashpartitioning"]
    monkeypatch.setattr(worth, "SHORTEST", 0.0)
    assert hot.planned(n=windows.rank()).loads


def test_a_short_job_is_that_of_plain_spark(doomed: DataFrame) -> None:
    planned = unskew.over(doomed, "string", orderBy="v").planned(n=windows.row_number())
    assert "too short" in planned.reason
    assert exchanges(planned.rows) == ["hashpartitioning"]


@pytest.mark.parametrize(
    ("function", "order", "reason"),
    [
        (windows.mean("d"), "id", "rounded"),
        (windows.first("n", ignorenulls=True), "id", "ignores nulls"),
        (windows.sum("n").rowsBetween(-300, 300), "id", "would be copied"),
        (windows.count(), (), "no order"),
        (windows.count(), "list", "array<int>"),
    ],
)
def test_what_cannot_be_cut_runs_whole_and_says_so(
    rows: DataFrame, function: WindowFunction, order: Any, reason: str
) -> None:
    rows = rows.withColumn("list", F.array("int"))
    over = unskew.over(rows, "user", orderBy=order, plan=plan_of(rows, 3))
    with pytest.warns(UserWarning, match=reason):
        planned = over.planned(c0=function)
    assert planned.pieces == 0
    plain = Window.partitionBy("user").orderBy(*([order] if order else []))
    spark_function = {"mean": F.mean("d"), "first": F.first("n", ignorenulls=True), "sum": F.sum("n")}.get(
        function.name, F.count(F.lit(1))
    )
    expected = rows.withColumn("c0", spark_function.over(framed(plain, function.frame)))
    assert_rows(planned.rows.drop("list"), expected.drop("list"), [function])


def test_hot_keys_that_exist_no_more_leave_the_others_whole(rows: DataFrame) -> None:
    gone = unskew.Histogram.from_counts({"gone": 900, "lost": 500, "a": 3})
    over = unskew.over(rows, "user", orderBy="id", plan=unskew.plan(gone, slots=4, planner="keel"))
    with pytest.warns(UserWarning, match="too few order values"):
        ours = over.withColumns(c0=windows.row_number())
    plain = rows.withColumn("c0", F.row_number().over(Window.partitionBy("user").orderBy("id")))
    assert_rows(ours, plain, ["row_number"])


def test_columns_are_replaced_and_bound_columns_work(rows: DataFrame) -> None:
    window = Window.partitionBy("user").orderBy((F.col("id") % 100).desc(), "id")
    ours = unskew.over(
        rows, rows["user"], orderBy=[(F.col("id") % 100).desc(), rows["id"]], plan=plan_of(rows, 4)
    ).planned(n=windows.sum(rows["n"]), N2=windows.lag(F.col("x") + 1))
    assert ours.pieces > 1
    plain = rows.withColumns({"n": F.sum("n").over(window), "N2": F.lag(F.col("x") + 1).over(window)})
    assert ours.rows.schema == plain.schema
    assert_rows(ours.rows, plain, [])


def test_rows_that_change_between_two_readings_are_an_error(
    rows: DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = unskew.over(rows, "user", orderBy="id", plan=plan_of(rows, 4))

    def other_source(df: DataFrame, source: DataFrame, *more: Any) -> DataFrame:
        return cut_window(df, source.where("id > 40"), *more)

    monkeypatch.setattr("unskew.spark.over.cut_window", other_source)
    with pytest.raises(Exception, match="read other rows than it measured"):
        over.withColumns(n=windows.row_number()).collect()
    monkeypatch.undo()
    # as if the sample had promised more rows near the cuts than there are
    monkeypatch.setattr(OrderedSample, "back", lambda sample, start, rows: start - 1)
    with pytest.raises(Exception, match="read other rows than it measured"):
        over.withColumns(n=windows.lag("id", 5)).collect()


@pytest.mark.parametrize(
    ("order", "backwards"),
    [
        (["double", "id"], lambda: [F.col("double").desc(), F.col("id").desc()]),
        (["string desc", "id desc"], lambda: [F.col("string").asc(), "id"]),
        (
            ["date", "int desc_nulls_first", "id"],
            lambda: [F.col("date").desc(), F.col("int").asc_nulls_last(), F.col("id").desc()],
        ),
    ],
)
def test_latest(rows: DataFrame, order: list[str], backwards: Callable[[], list[Any]]) -> None:
    """The last row in the given order, which `id` makes unique; in one direction, or in both."""
    columns = [
        getattr(F.col(name), way or "asc")() for name, _, way in (each.partition(" ") for each in order)
    ]
    ours = unskew.latest(rows, "user", orderBy=columns)
    number = F.row_number().over(Window.partitionBy("user").orderBy(*backwards()))
    plain = rows.withColumn("number", number).where("number = 1").drop("number")
    assert [(f.name, f.dataType) for f in ours.schema] == [(f.name, f.dataType) for f in plain.schema]
    assert_rows(ours, plain, [])


@pytest.mark.since("4.0", "variants")
def test_bad_input_is_refused_before_a_job_runs(doomed: DataFrame) -> None:
    def refused(text: str, call: Callable[[], Any]) -> None:
        with pytest.raises(ValueError, match=text):
            call()

    mapped = doomed.withColumn("m", F.create_map("v", "w")).withColumn("j", F.parse_json(F.lit("1")))
    n = windows.row_number()
    refused("no column 'strin'", lambda: unskew.over(doomed, "strin", orderBy="v"))
    refused("no column 'vv'", lambda: unskew.over(doomed, "string", orderBy="vv"))
    refused("vv", lambda: unskew.over(doomed, "string", orderBy=F.col("vv").desc()))
    refused("has no order", lambda: unskew.over(mapped, "string", orderBy="m"))
    refused("has no order", lambda: unskew.over(mapped, "string", orderBy=F.col("j").desc()))
    refused("a name or a Column", lambda: unskew.over(doomed, "string", orderBy=[3]))  # type: ignore[list-item]
    refused("no column 'no'", lambda: unskew.over(doomed, "string", "v").withColumns(c=windows.sum("no")))
    refused("cannot be computed", lambda: unskew.over(doomed, "string").withColumns(c=n))
    refused("unskew.windows", lambda: unskew.over(doomed, "string", "v").withColumns(c=unskew.sum("v")))  # type: ignore[arg-type]
    refused("at least one", lambda: unskew.over(doomed, "string", "v").withColumns())
    refused("frame of its own", lambda: n.rowsBetween(-1, 0))
    refused("start comes first", lambda: windows.sum("v").rowsBetween(2, 1))
    refused("whole number", lambda: unskew.over(doomed, "string", "v").rowsBetween(-1, 0.5))  # type: ignore[arg-type]
    two = unskew.over(doomed, "string", ["v", "w"]).rangeBetween(-1, 1)
    refused("cannot be computed", lambda: two.withColumns(c=windows.sum("v")))
    refused("splits keys", lambda: unskew.over(doomed, "string", "v", planner="pkg").withColumns(c=n))
    refused("number of parts", lambda: windows.ntile(0))
    refused("number of rows", lambda: windows.lag("v", 1.5))  # type: ignore[arg-type]
    refused("needs an order", lambda: unskew.latest(doomed, "string", []))
    stream = doomed.sparkSession.readStream.format("rate").load()
    refused("is a stream", lambda: unskew.over(stream, "value", orderBy="timestamp"))
    refused("is a stream", lambda: unskew.latest(stream, "value", orderBy="timestamp"))


def test_an_input_that_is_random_is_not_read_twice(spark: SparkSession, eager: None) -> None:
    draw = F.udf(random.random, "double").asNondeterministic()
    rows = spark.range(600).select(
        F.expr("if(id % 3 > 0, 'hot', string(id % 50))").alias("k"), draw().alias("v"), "id"
    )
    over = unskew.over(rows, "k", orderBy="id", slots=4, planner="keel")
    with pytest.warns(UserWarning, match="other values when it is read again"):
        assert over.planned(total=windows.sum("v")).pieces == 0
    with pytest.warns(UserWarning, match="other values when it is read again"):
        assert over.planned(total=windows.sum(F.rand())).rows.where("total > 0").count() == 600
    assert over.planned(before=windows.lag("v")).pieces > 1
