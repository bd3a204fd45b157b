"""Every form in which `DataFrame.groupBy` and `Window.partitionBy` take a key, against plain Spark."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

import unskew
from tests.cases import mostly_thorough
from tests.spark.frames import assert_same, exchanges

REMOTE = bool(os.environ.get("UNSKEW_TEST_REMOTE"))

FORCED: dict[str, Any] = {"slots": 3, "planner": "keel", "buckets": 64}


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> DataFrame:
    """Rows whose columns need care: a struct, a name with a dot, names that differ from those of a struct's fields."""
    return spark.range(0, 60, 1, 2).selectExpr(
        "id v",
        "concat('U', if(id < 30, 0, id % 7)) user",
        "concat('u', id % 3) x",
        "named_struct('field', id % 4, 'user', id % 2) s",
        "if(id % 9 = 0, null, id / 0.5) d",
    )


FORMS: dict[str, Callable[[DataFrame], tuple[DataFrame, list[Any]]]] = {
    "a name": lambda df: (df, ["user"]),
    "another case": lambda df: (df, ["USER"]),
    "a column by name": lambda df: (df, [F.col("user")]),
    "a column of the DataFrame": lambda df: (df, [df.user]),
    "an expression": lambda df: (df, [F.lower("user")]),
    "an expression with a name of its own": lambda df: (df, [F.lower("user").alias("low")]),
    "an expression with the name of a column": lambda df: (df, [F.lower("user").alias("x")]),
    "a field of a struct": lambda df: (df, ["s.field"]),
    "a field with the name of a column": lambda df: (df, ["s.user"]),
    "a name after an alias": lambda df: (df.alias("z"), ["z.user"]),
    "a quoted name": lambda df: (df.withColumnRenamed("x", "a.b"), ["`a.b`"]),
    "several": lambda df: (df, ["user", F.col("x")]),
    "a list": lambda df: (df, [["user", F.upper("x"), "s.field"]]),
    "a column twice": lambda df: (df, ["user", "user"]),
    "a number": lambda df: (df, ["d"]),
    "one of two columns of a name": lambda df: (
        df.alias("a").join(df.select("v", "user").alias("b"), "v"),
        ["a.user"],
    ),
    "a literal": lambda df: (df, [F.lit("user"), "user"]),
    "duplicate columns": lambda df: (df.select("user", "v", "v"), ["user"]),
}


# Plain Spark's own functions cannot have rows with a dot in a column's name, or with different columns of one name.
FUNCTION_FORMS = [form for form in FORMS if form not in ("a quoted name", "one of two columns of a name")]

# Plain Spark's applyInArrow refuses two columns of one name, the key among them; its applyInPandas does not.
REFUSED_IN_ARROW = [
    "an expression with the name of a column",
    "a field with the name of a column",
    "a literal",
    "duplicate columns",
]


QUICK = (
    "a name",
    "an expression with a name of its own",
    "a field of a struct",
    "a list",
    "duplicate columns",
    "one of two columns of a name",
)


def groups(df: DataFrame, key: list[Any]) -> tuple[unskew.Grouped, Any]:
    return unskew.groupBy(df, *key, **FORCED), df.groupBy(*key)


@pytest.mark.connect(every_value=True)
@pytest.mark.parametrize("form", FORMS)
def test_aggregates(rows: DataFrame, form: str) -> None:
    df, key = FORMS[form](rows)
    ours, plain = groups(df, key)
    assert_same(ours.count(), plain.count())
    first = df.select(df.columns[0]).columns[0]
    size = F.size(F.collect_list(F.lit(1))).alias(f"n of {first}")
    assert_same(ours.agg(size), plain.agg(size))
    assert exchanges(ours.agg(size))[:1] == ["shufflepartitionidpassthrough"]
    assert len(exchanges(ours.agg(size))) == len(exchanges(plain.agg(size)))


@pytest.mark.connect
@pytest.mark.parametrize("form", mostly_thorough(FUNCTION_FORMS, QUICK))
def test_functions(rows: DataFrame, form: str) -> None:
    if REMOTE and form in REFUSED_IN_ARROW and form != "duplicate columns":
        pytest.skip("on Connect, plain Spark finds such a key ambiguous in applyInPandas as well")
    df, key = FORMS[form](rows)
    ours, plain = groups(df, key)
    expected_columns = df.columns

    def frame(part: tuple[Any, ...], group: pd.DataFrame) -> pd.DataFrame:
        assert list(group.columns) == expected_columns
        return pd.DataFrame({"key": [str(part)], "n": [len(group)], "of": [str(sorted(group.iloc[:, 0]))]})

    def table(part: tuple[Any, ...], group: pa.Table) -> pa.Table:
        assert group.column_names == expected_columns
        of = str(sorted(group.column(0).to_pylist()))
        return pa.table({"key": [str(part)], "n": [group.num_rows], "of": [of]})

    schema = "key string, n long, of string"
    result = ours.applyInPandas(frame, schema)
    assert exchanges(result) == ["shufflepartitionidpassthrough"]
    assert_same(result, plain.applyInPandas(frame, schema))
    if form in REFUSED_IN_ARROW:
        assert ours.applyInArrow(table, schema).count() == plain.count().count()
    else:
        assert_same(ours.applyInArrow(table, schema), plain.applyInArrow(table, schema))


@pytest.mark.parametrize("form", mostly_thorough(FORMS, QUICK))
def test_windows(rows: DataFrame, form: str) -> None:
    df, key = FORMS[form](rows)

    def ranked(df: DataFrame, over: Any) -> DataFrame:
        by_first = over.orderBy(F.lit(1))
        return df.select("*", F.sum(F.lit(1)).over(by_first).alias("n"))

    if form == "duplicate columns":
        df = df.select("user", F.col("v").alias("w"), F.col("v").alias("w"))
    ours = ranked(*unskew.window(df, *key, **FORCED))
    assert_same(ours, ranked(df, Window.partitionBy(*key)))


@pytest.mark.parametrize("form", mostly_thorough(FUNCTION_FORMS, QUICK))
def test_cogroups(rows: DataFrame, form: str) -> None:
    df, key = FORMS[form](rows)
    few = df.where(F.length(F.lit("x")) == 1).limit(9) if form != "a column of the DataFrame" else df
    ours, plain = groups(df, key)
    others, plain_others = groups(few, key)

    def pair(part: tuple[Any, ...], left: pa.Table, right: pa.Table) -> pa.Table:
        return pa.table({"key": [str(part)], "n": [left.num_rows], "m": [right.num_rows]})

    schema = "key string, n long, m long"
    assert_same(
        ours.cogroup(others).applyInArrow(pair, schema),
        plain.cogroup(plain_others).applyInArrow(pair, schema),
    )


@pytest.mark.parametrize("form", mostly_thorough(FORMS, QUICK))
def test_measuring(rows: DataFrame, form: str) -> None:
    df, key = FORMS[form](rows)
    counts = sorted(row["count"] for row in df.groupBy(*key).count().collect())
    for sample in ("auto", None):
        assert sorted(unskew.measure(df, *key, sample=sample).tracked.counts.tolist()) == counts
    observed = unskew.observe(df, *key)
    assert_same(observed.df, df)
    assert sorted(observed.histogram.tracked.counts.tolist()) == counts
    assert unskew.diagnose(df, *key, slots=3).histogram.records == 60


@pytest.mark.connect
def test_a_position_is_a_key_of_groups(rows: DataFrame) -> None:
    assert_same(unskew.groupBy(rows, 2, **FORCED).count(), rows.groupBy(2).count())
    assert unskew.groupBy(rows, 2, 3).keys.names == ("user", "x")


ONLY_SPARK: dict[str, Callable[[], Column]] = {
    "array": lambda: F.array("v"),
    "map": lambda: F.create_map("user", "v"),
    "collation": lambda: F.expr("collate(user, 'UTF8_LCASE')"),
    "calendar interval": lambda: F.expr("make_interval(0, 0, 0, v)"),
    "random": lambda: F.floor(F.rand(1) * 3),
    "array in a struct": lambda: F.struct(F.array("v")),
    "position of a result column": lambda: F.lit(1),
}


@pytest.mark.connect(every_value=True)
@pytest.mark.connect
@pytest.mark.parametrize("name", ONLY_SPARK)
def test_what_only_spark_can_group_by_is_left_to_spark(rows: DataFrame, name: str) -> None:
    key = ONLY_SPARK[name]()
    df = rows.select("user", "v")
    ours, plain = groups(df, [key])
    assert ours.plan is None
    assert ours.keys.obstacle is not None
    size = F.size(F.collect_list("v"))
    assert ours.agg(size).schema == plain.agg(size).schema
    assert exchanges(ours.agg(size)) == exchanges(plain.agg(size))
    if name not in ("calendar interval", "position of a result column"):  # plain Spark cannot, either
        assert ours.applyInPandas(lambda group: group, df.schema).count() == 60
    over = unskew.window(df, key, **FORCED)
    assert over[0] is df
    with pytest.raises(ValueError, match="key"):
        unskew.measure(df, key)


@pytest.mark.parametrize("sample", ["auto", pytest.param(None, marks=pytest.mark.thorough)])
def test_dates_times_and_intervals_beyond_those_of_python(spark: SparkSession, sample: Any) -> None:
    values = {
        "t": "date'0001-01-01' - interval 10 day",
        "u": "timestamp'9999-12-31 23:59:59' + make_dt_interval(400)",
        "w": "timestamp_ntz'9999-12-31 23:59:59.5' + make_dt_interval(400)",
        "n": "timestamp_ntz'0001-01-01 00:00:00.5' - make_dt_interval(400)",
        "i": "make_dt_interval(-3, 4, 5, 6.789)",
        "h": "cast(make_dt_interval(0, -4) as interval hour)",
        "m": "make_ym_interval(-1, 5)",
        "y": "cast(make_ym_interval(7) as interval year)",
    }
    df = spark.range(0, 20).selectExpr(
        "id", *(f"if(id < 15, {value}, null) {name}" for name, value in values.items())
    )
    # of all records, intervals and times are counted alike
    for name in values if sample == "auto" else ("t", "n", "i", "m"):
        histogram = unskew.measure(df, name, sample=sample)
        assert sorted(histogram.tracked.counts.tolist()) == [5.0, 15.0], name
        hashes = {row[0] for row in df.select(F.xxhash64(name)).distinct().collect()}
        assert set(histogram.hashes.tolist()) == hashes, name
        grouped = unskew.groupBy(df, name, sample=sample, **FORCED)
        assert grouped.plan is not None
        assert len(grouped.plan.heavy) == 2, name
        assert repr(grouped.plan)
        assert sorted(row[0] for row in grouped.count().select("count").collect()) == [5, 15]


@pytest.mark.connect
def test_the_function_gets_an_expression_as_its_key_and_does_not_see_it_as_a_column(rows: DataFrame) -> None:
    ours, plain = groups(rows.select("v", "user"), [F.lower("user"), F.col("user")])

    def keys(part: tuple[Any, ...], group: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame({"text": [f"{part} {list(group.columns)}"]})

    assert_same(ours.applyInPandas(keys, "text string"), plain.applyInPandas(keys, "text string"))


@pytest.mark.connect
def test_the_heavy_keys_of_several_columns_are_known_by_value(rows: DataFrame) -> None:
    plan = unskew.groupBy(rows, "user", F.lower("x"), **FORCED).plan
    assert plan is not None
    assert ("U0", "u0") in plan.heavy
