"""`over` with values at the limits of their types, compared with plain Spark."""

from __future__ import annotations

from datetime import date

import pytest
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

import unskew
from unskew import windows

ROWS = 600
LARGEST = "cast(repeat('9', 38) as decimal(38,0))"


def hot_rows(spark: SparkSession, **columns: str) -> DataFrame:
    """Rows of which most have one key; `id` is unique."""
    key = F.expr("if(id % 10 < 8, 'hot', concat('k', id % 7))").alias("k")
    return spark.range(0, ROWS, 1, 2).select(
        "id", key, *(F.expr(text).alias(name) for name, text in columns.items())
    )


def planned(
    rows: DataFrame, order: str | Column | list[str], **functions: windows.WindowFunction
) -> unskew.PlannedWindow:
    plan = unskew.plan(unskew.measure(rows, "k", sample=None), 4, planner="keel")
    return unskew.over(rows, "k", orderBy=order, plan=plan).planned(**functions)


def by_id(rows: DataFrame) -> list[tuple[object, ...]]:
    return sorted(map(tuple, rows.collect()))


@pytest.mark.parametrize(
    "order",
    [f"{LARGEST} - id", f"{LARGEST} - 20 * id", "9223372036854775790 - id", "2 * id - 9223372036854775807"],
)
def test_range_frames_of_very_large_values(
    spark: SparkSession, order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unskew.spark.over.MOST_COPIED", 9.0)
    kind = "decimal(38,0)" if "repeat" in order else "bigint"
    rows = hot_rows(spark, o=f"cast({order} as {kind})").where("id > 20 or o < 0").select("id", "k", "o")
    if kind == "bigint":
        rows = rows.where("o > -9223372036854775800")
    ours = planned(rows, "o", n=windows.sum("id").rangeBetween(-5, 7))
    assert ours.pieces > 1, ours.reason
    window = Window.partitionBy("k").orderBy("o").rangeBetween(-5, 7)
    assert by_id(ours.rows) == by_id(rows.withColumn("n", F.sum("id").over(window)))


@pytest.mark.parametrize(("precision", "is_cut"), [(18, True), (27, True), (28, False)])
def test_running_sums_of_small_decimals_keep_their_last_digit(
    spark: SparkSession, precision: int, is_cut: bool
) -> None:
    rows = hot_rows(spark, d=f"cast('0.00000001' as decimal({precision},8))")
    ours = unskew.over(rows, "k", orderBy="id", slots=4, planner="keel")
    if is_cut:
        result = ours.withColumns(s=windows.sum("d"))
    else:
        with pytest.warns(UserWarning, match="s: Spark rounds the sum of two decimals"):
            result = ours.withColumns(s=windows.sum("d"))
    plain = rows.withColumn("s", F.sum("d").over(Window.partitionBy("k").orderBy("id")))
    assert by_id(result) == by_id(plain)
    assert result.schema == plain.schema


def test_order_by_long_text_and_by_another_column(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Texts that begin alike are told apart by what follows, and only then by the next column."""
    monkeypatch.setattr("unskew.spark.over.MOST_COPIED", 9.0)
    text = "x" * 70
    long_path = f"'{text}' || if(id >= 50 and id < 150, 'a', 'b')"
    rows = hot_rows(spark, path=f"if(id < 200, {long_path}, 'z' || id)")
    ours = planned(
        rows, ["path", "id"], n=windows.row_number(), before=windows.lag("id"), start=windows.first("id")
    )
    assert ours.pieces > 1, ours.reason
    window = Window.partitionBy("k").orderBy("path", "id")
    plain = rows.withColumns(
        {
            "n": F.row_number().over(window),
            "before": F.lag("id").over(window),
            "start": F.first("id").over(window),
        }
    )
    assert by_id(ours.rows) == by_id(plain)


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_sums_of_decimals_with_all_digits(spark: SparkSession, ansi: str) -> None:
    """The last digit is that of plain Spark, and without ANSI mode a sum that is too large is null."""
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    try:
        large = LARGEST if ansi == "false" else "cast(id as decimal(38,0))"
        rows = hot_rows(spark, d="cast('1.0000000001' as decimal(30,10)) * 1", large=large)
        rows = rows.withColumn("d", F.col("d").cast("decimal(30,10)"))
        window = Window.partitionBy("k").orderBy("id")
        whole = window.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
        plain = rows.withColumns(
            {"a": F.sum("d").over(window), "b": F.sum("large").over(window), "c": F.sum("large").over(whole)}
        )
        with pytest.warns(UserWarning, match="a: "):
            ours = planned(
                rows,
                "id",
                a=windows.sum("d"),
                b=windows.sum("large"),
                c=windows.sum("large").rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing),
            )
        assert by_id(ours.rows) == by_id(plain)
        assert ours.rows.schema == plain.schema
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")


def test_order_by_text_that_is_not_utf8(spark: SparkSession) -> None:
    rows = hot_rows(spark, o="cast(unhex(concat(lpad(hex(id), 4, '0'), 'FF')) as string)")
    ours = planned(rows, "o", n=windows.row_number(), before=windows.lag("id"), start=windows.first("id"))
    assert ours.pieces > 1
    window = Window.partitionBy("k").orderBy("o")
    plain = rows.withColumns(
        {
            "n": F.row_number().over(window),
            "before": F.lag("id").over(window),
            "start": F.first("id").over(window),
        }
    )
    # Python cannot read such text
    assert by_id(ours.rows.fillna(-1).drop("o")) == by_id(plain.fillna(-1).drop("o"))


def test_names_that_differ_in_case_only(spark: SparkSession) -> None:
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        rows = hot_rows(spark, n="id + 1")
        ours = planned(rows, "id", N=windows.row_number())
        assert ours.pieces > 1
        plain = rows.withColumn("N", F.row_number().over(Window.partitionBy("k").orderBy("id")))
        assert by_id(ours.rows) == by_id(plain)
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


@pytest.mark.parametrize(("column", "default"), [("text", "none"), ("day", date(1999, 1, 1)), ("id", -1)])
def test_what_is_never_null_in_plain_spark_is_never_null_here(
    spark: SparkSession, column: str, default: object
) -> None:
    rows = hot_rows(spark, text="concat('t', id)", day="date_add(date'2024-01-01', int(id))")
    ours = planned(rows, "id", n=windows.lag(column, 2, default))
    assert ours.pieces > 1, ours.reason
    plain = rows.withColumn("n", F.lag(column, 2, default).over(Window.partitionBy("k").orderBy("id")))
    assert ours.rows.schema == plain.schema
    assert by_id(ours.rows) == by_id(plain)


def test_the_latest_rows_have_the_schema_of_all_rows(spark: SparkSession) -> None:
    rows = hot_rows(spark, text="concat('t', id)", list="array(id)", maybe="nullif(id, 5)")
    ours = unskew.latest(rows, "k", orderBy="id")
    assert {field.name: field.nullable for field in rows.schema}["text"] is False
    assert ours.schema == rows.schema
    number = F.row_number().over(Window.partitionBy("k").orderBy(F.col("id").desc()))
    assert by_id(ours) == by_id(rows.withColumn("n", number).where("n = 1").drop("n"))


@pytest.mark.since("4.0", "collations")
def test_of_strings_that_a_collation_takes_for_equal_the_first_is_the_least(spark: SparkSession) -> None:
    """Plain Spark returns the spelling that comes first in the order of the window, pieces would return any."""
    rows = hot_rows(spark, c="collate(if(id % 7 = 0, 'AB', 'ab'), 'UTF8_LCASE')")
    for order in ("id", F.col("id").desc()):
        with pytest.warns(UserWarning, match="equal under a collation"):
            ours = planned(rows, order, least=windows.min("c"), most=windows.max("c"))
        window = Window.partitionBy("k").orderBy(order)
        plain = rows.withColumns({"least": F.min("c").over(window), "most": F.max("c").over(window)})
        assert by_id(ours.rows) == by_id(plain)
    near = planned(rows, "id", least=windows.min("c").rowsBetween(-2, 0))
    assert near.pieces > 1, near.reason
