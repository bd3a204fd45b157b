"""A user's mistake is a ValueError that names the thing and the remedy, before any Spark job starts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import unskew
from tests.spark.frames import Frames, assert_same, setting

pytestmark = pytest.mark.connect

Call = Callable[..., Any]


def apply(df: DataFrame, *key: Any, **options: Any) -> DataFrame:
    return unskew.groupBy(df, *key, **options).applyInPandas(lambda rows: rows, df.schema)


def collect(df: DataFrame, *key: Any, **options: Any) -> DataFrame:
    return unskew.groupBy(df, *key, **options).agg(F.collect_list("v"))


def join(df: DataFrame, *key: Any, **options: Any) -> DataFrame:
    return unskew.join(df, df, key[0] if len(key) == 1 else key, **options)


def cogroup(df: DataFrame, *key: Any, **options: Any) -> DataFrame:
    sides = [unskew.groupBy(df, *key, **options) for _ in range(2)]
    return sides[0].cogroup(sides[1]).applyInPandas(lambda a, b: a, df.schema)


def window(df: DataFrame, *key: Any, **options: Any) -> DataFrame:
    rows, over = unskew.window(df, *key, **options)
    return rows.withColumn("n", F.count(F.lit(1)).over(over))


OPERATORS: list[Call] = [apply, collect, join, cogroup, window]
EVERYTHING: list[Call] = [*OPERATORS, unskew.measure, unskew.observe, unskew.diagnose]


def test_these_rows_cannot_be_read(doomed: DataFrame) -> None:
    """Guards the tests below: a job over these rows does fail."""
    with pytest.raises(PySparkException, match="a job ran"):
        doomed.count()
    with pytest.raises(PySparkException, match="a job ran"):
        unskew.measure(doomed, "string")


@pytest.mark.parametrize("call", [call for call in EVERYTHING if call is not join])
def test_what_cannot_be_a_key(doomed: DataFrame, call: Call) -> None:
    df = doomed.withColumns(
        {"m": F.create_map("v", "w"), "a": F.array("v"), "s": F.struct(F.array("v").alias("x"))}
    )
    for names, message in [
        (["strin"], "there is no column 'strin': did you mean 'string'"),
        (["qqq"], "there is no column 'qqq': the columns are v, w, string"),
        (["string", "qqq"], "there is no column 'qqq'"),
        (["m.z.q"], "the key cannot be resolved: "),
        ([F.lower("qqq")], "the key cannot be resolved: .*qqq.*the columns are v, w, string"),
        ([0], "there is no column 0: the positions of the .* columns start with 1"),
        ([99], "there is no column 99"),
        ([1.5], "a key column is a name, a Column or a position, not 1.5"),
    ]:
        with pytest.raises(ValueError, match=message):
            call(df, *names)
    with pytest.raises(ValueError, match="column 'twin' is ambiguous: 2 columns have that name"):
        call(doomed.select("v", F.col("w").alias("twin"), F.col("v").alias("TWIN")), "twin")


@pytest.mark.parametrize("call", EVERYTHING)
def test_no_key_at_all(doomed: DataFrame, call: Call) -> None:
    with pytest.raises(ValueError, match="name at least one key column"):
        call(doomed, [])


@pytest.mark.parametrize("call", [apply, unskew.groupBy, unskew.window, unskew.measure, unskew.observe])
def test_a_list_and_more_names_is_not_a_key(doomed: DataFrame, call: Call) -> None:
    with pytest.raises(ValueError, match=r"a name, a Column or a position, not \['string'\]"):
        call(doomed, ["string"], "int")


@pytest.mark.parametrize("call", [unskew.groupBy, unskew.observe])
def test_a_key_is_one_name_several_or_a_list(doomed: DataFrame, call: Call) -> None:
    assert call(doomed, "string").keys == call(doomed, ["string"]).keys == call(doomed, key="string").keys
    names = ("string", "int")
    assert call(doomed, *names).keys == call(doomed, list(names)).keys == call(doomed, names).keys


def test_names_that_differ_in_case_only(frames: Frames) -> None:
    df = frames.left.select(F.col("string").alias("k"), F.col("int").alias("K"))
    with setting(frames.spark, caseSensitive="true"):
        assert unskew.measure(df, "K").key_type == pa.int32()
        with pytest.raises(ValueError, match=r"there is no column 'STRING': .*the columns are v"):
            unskew.measure(frames.left, "STRING")


@pytest.mark.parametrize("call", [unskew.measure, unskew.observe, unskew.diagnose])
def test_what_cannot_be_measured(doomed: DataFrame, call: Call) -> None:
    df = doomed.withColumns(
        {
            "m": F.create_map("v", "w"),
            "a": F.array("v"),
            "s": F.struct(F.array("v").alias("x")),
            "k": F.expr("collate(string, 'UTF8_LCASE')"),
        }
    )
    for key, message in [
        ("m", "key column 'm' has the type map<.*to_json"),
        ("a", "key column 'a' has the type array<bigint>, which cannot be a key"),
        ("s", "key column 's.x' has the type array<bigint>"),
        ("k", "key column 'k' has the collation UTF8_LCASE"),
        (F.rand(), "is not deterministic"),
    ]:
        with pytest.raises(ValueError, match=message):
            call(df, key)


@pytest.mark.parametrize(
    "call", [apply, collect, cogroup, window, unskew.measure, unskew.observe, unskew.diagnose]
)
def test_frames_of_another_kind(spark: SparkSession, call: Call) -> None:
    stream = spark.readStream.format("rate").load()
    with pytest.raises(ValueError, match=r"the DataFrame is a stream: use unskew\.stream"):
        call(stream, "value")
    with pytest.raises(ValueError, match=r"a Spark DataFrame is needed, not a .*createDataFrame"):
        call(pd.DataFrame({"k": [1]}), "k")


@pytest.mark.parametrize("call", OPERATORS)
def test_options_that_make_no_sense(doomed: DataFrame, frames: Frames, call: Call) -> None:
    plan = frames.plans["string"]
    cases: list[tuple[dict[str, Any], str]] = [
        ({"slots": 0}, "at least one slot, not 0"),
        ({"slots": -2}, "at least one slot, not -2"),
        ({"slots": 2.5}, "slots is a whole number, not 2.5"),
        ({"slots": 5000}, "5000 slots but only 4096 buckets.*buckets=131072"),
        ({"slots": 9, "buckets": 8}, "9 slots but only 8 buckets"),
        ({"planner": "keal"}, "there is no planner 'keal': did you mean 'keel'"),
        ({"planner": "pkg"}, "planner 'pkg' splits keys over slots: "),
        ({"plan": unskew.plan(plan.histogram, 3, "pkg")}, "planner 'pkg' splits keys over slots: "),
        ({"plan": frames.plans["int"]}, "the plan is for int32 keys, but the key here is string"),
        ({"plan": frames.plans["composite"]}, "the plan is for struct<"),
        ({"plan": plan, "slots": 4}, "the plan is for 3 slots, but slots=4 was passed"),
        ({"plan": plan.table}, "plan is what unskew.plan returns, .* not a RoutingTable"),
        ({"sample": 0}, "sample is a share below 1"),
        ({"sample": "all"}, "sample is a share below 1.*not 'all'"),
        ({"weight": "string"}, "weight column 'string' is not a number but string"),
        ({"weight": "wt"}, "there is no column 'wt'"),
        ({"weight": "w", "plan": frames.plans["int"]}, "the plan is for int32 keys"),
    ]
    for options, message in cases:
        with pytest.raises(ValueError, match=message):
            call(doomed, "string", **options)


def test_measurements_that_make_no_sense(doomed: DataFrame) -> None:
    for options, message in [
        ({"buckets": 0}, "buckets is at least 1, not 0"),
        ({"tracked": -1}, "tracked is the number of keys"),
        ({"sample": True}, "sample is a share"),
        ({"weight": "date"}, "weight column 'date' is not a number but date"),
    ]:
        with pytest.raises(ValueError, match=message):
            unskew.measure(doomed, "string", **options)
    for options, message in [
        ({"slots": 0}, "at least one slot, not 0"),
        ({"slots": 9, "buckets": 8}, "9 slots but only 8 buckets"),
        ({"cores": 0}, "cores is at least 1, not 0"),
        ({"weight": "date"}, "weight column 'date'"),
    ]:
        with pytest.raises(ValueError, match=message):
            unskew.diagnose(doomed, "string", **options)


def test_joins_that_make_no_sense(doomed: DataFrame) -> None:
    right = doomed.select(F.col("int").alias("string"), "long", "w")
    with pytest.raises(ValueError, match="there is no join type 'outher': use one of anti, cross, full"):
        unskew.join(doomed, right, "long", "outher")
    with pytest.raises(AnalysisException, match="UNRESOLVED_COLUMN"):
        unskew.join(doomed, right, F.col("nothing") == 1)
    arrays = [df.select(F.array("long").alias("a")) for df in (doomed, right)]
    with pytest.raises(ValueError, match="cannot be a key of unskew"):
        unskew.join(*arrays, "a", planner="keel")
    with pytest.raises(ValueError, match="there is no column 'date'"):
        unskew.join(doomed, right, "date")
    with pytest.raises(ValueError, match="a key column is named twice: long, LONG"):
        unskew.join(doomed, right, ["long", "LONG"])
    twins = doomed.select("long", F.col("v").alias("LONG"))
    with pytest.raises(ValueError, match="column 'long' is ambiguous: 2 columns have that name"):
        unskew.join(twins, right, "long")
    with pytest.raises(ValueError, match="there is no column 'w'"):
        unskew.join(doomed.drop("w"), right.drop("w"), "long", weight="w")


def test_cogroups_that_make_no_sense(doomed: DataFrame) -> None:
    ours = unskew.groupBy(doomed, "string")
    with pytest.raises(ValueError, match=r"cogroup takes what unskew\.groupBy returns, not GroupedData"):
        ours.cogroup(doomed.groupBy("string"))
    with pytest.raises(ValueError, match="the keys differ in length"):
        ours.cogroup(unskew.groupBy(doomed, "string", "int"))
    with pytest.raises(ValueError, match="cannot cogroup keys of type string and int32"):
        ours.cogroup(unskew.groupBy(doomed, "int"))
    with pytest.raises(ValueError, match="run under one plan"):
        unskew.groupBy(doomed, "string", slots=2).cogroup(unskew.groupBy(doomed, "string", slots=3))
    with pytest.raises(ValueError, match="there is no column 'w'"):
        unskew.groupBy(doomed, "string", weight="w").cogroup(unskew.groupBy(doomed.drop("w"), "string"))


def test_merges_that_make_no_sense(doomed: DataFrame) -> None:
    grouped = unskew.groupBy(doomed, "string", slots=2, planner="pkg")
    with pytest.raises(ValueError, match=r"merge= groups the partial results by key.*no column 'string'"):
        grouped.applyInPandas(lambda rows: rows, "n long", merge=lambda rows: rows)
    whole = unskew.groupBy(doomed, "string", slots=2, planner="keel")
    with pytest.raises(
        ValueError, match=r"'keel' keeps keys whole, so merge= has nothing to merge.*wrap-around"
    ):
        whole.applyInPandas(lambda rows: rows, doomed.schema, merge=lambda rows: rows)
    with pytest.raises(ValueError, match="pass merge= to combine"):
        grouped.applyInArrow(lambda rows: rows, doomed.schema)


def test_plans_that_cannot_be_applied(doomed: DataFrame, frames: Frames) -> None:
    plan = frames.plans["string"]
    with pytest.raises(ValueError, match="the plan does not know its key columns: name them"):
        doomed.transform(plan.apply)
    with pytest.raises(ValueError, match="has a column 'Slot' already: rename it first"):
        plan.apply(doomed.withColumn("Slot", F.lit(1)), "string")
    with pytest.raises(ValueError, match="the plan is for string keys, but the key here is int32"):
        plan.apply(doomed, "int")
    with pytest.raises(ValueError, match="did you mean 'string'"):
        plan.apply(doomed, ["strin"])


@pytest.mark.parametrize("call", OPERATORS)
def test_a_plan_file_that_is_damaged(doomed: DataFrame, frames: Frames, tmp_path: Path, call: Call) -> None:
    path = tmp_path / "users.plan"
    frames.plans["string"].save(path)
    whole = path.read_bytes()
    for content in (whole[:-10], whole[:50], b"", whole.replace(b"keel", b"kerl", 1)):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"users\.plan: "):
            call(doomed, "string", plan=path)
        with pytest.raises(ValueError, match=r"users\.plan: "):
            unskew.load(path)
    path.write_bytes(whole)
    assert call(doomed, "string", plan=str(path)).columns
    with pytest.raises(FileNotFoundError):
        call(doomed, "string", plan=tmp_path / "none.plan")


@pytest.mark.parametrize("planner", ["keel", "auto"])
def test_no_rows_give_no_rows_of_the_right_schema(frames: Frames, planner: str) -> None:
    nothing = frames.left.where("v < 0").select("v", "string", "int")
    names = ["string", "int"]
    options: Any = {"slots": 3, "planner": planner, "buckets": 64}
    results = {
        "apply": (apply(nothing, *names, **options), nothing),
        "agg": (collect(nothing, *names, **options), nothing.groupBy(*names).agg(F.collect_list("v"))),
        "count": (unskew.groupBy(nothing, *names, **options).count(), nothing.groupBy(*names).count()),
        "join": (join(nothing, *names, **options), nothing.join(nothing, names)),
        "cogroup": (cogroup(nothing, *names, **options), nothing),
        "window": (window(nothing, *names, **options).drop("n"), nothing),
    }
    for name, (ours, plain) in results.items():
        assert ours.toArrow().num_rows == 0, name
        assert ours.schema == plain.schema, name
    full = unskew.join(nothing, frames.right.select("v", *names), names, "full", **options)
    assert_same(full, nothing.join(frames.right.select("v", *names), names, "full"))
