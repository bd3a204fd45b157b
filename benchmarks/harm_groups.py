"""Everyday jobs that group: aggregates, pivots, functions in Python, keys in every form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from benchmarks.harm_data import Inputs
from benchmarks.harm_functions import (
    SUMMARY,
    arrow_pair,
    arrow_summary,
    day_summary,
    keyed_arrow_summary,
    keyed_summary,
    pair,
    ranked,
    scored,
    spread,
    summary,
)
from benchmarks.harm_job import Job, Word, sorted_arrays


def _python_aggregate(column: str) -> Column:
    import pandas as pd

    def aggregate(values: Any) -> int:
        return spread(values)

    aggregate.__annotations__ = {"values": pd.Series, "return": int}  # what kind of function it is
    result: Column = F.pandas_udf(aggregate, "long")(column)
    return result


def _agg(job: str, *aggregates: Any, keys: str = "zipf", **options: Any) -> Job:
    """A job `groupBy("user").agg(…)`; an aggregate is made when the job runs, since Connect needs a session."""

    def run(word: Word, data: Inputs) -> DataFrame:
        made = [aggregate() for aggregate in aggregates]
        result: DataFrame = word.groupBy(getattr(data, keys), "user").agg(*made)
        return result

    return Job(job, run, "aggregate", **options)


AGGREGATES = [
    _agg("sum", lambda: F.sum("v")),
    _agg("avg", lambda: F.avg("v")),
    _agg("round of a sum", lambda: F.round(F.sum("v"), -2)),
    _agg("sum cast to an int", lambda: F.sum("v").cast("int")),
    _agg("sum of coalesce", lambda: F.sum(F.coalesce("v", F.lit(0)))),
    _agg("sum of abs", lambda: F.sum(F.abs("w"))),
    _agg("max of a struct", lambda: F.max(F.struct("v", "id"))),
    _agg("max_by", lambda: F.max_by("id", F.struct("v", "id"))),
    _agg("percentile_approx", lambda: F.percentile_approx("v", 0.5).alias("p"), loose={"p": 0.05}),
    _agg(
        "hll_sketch_agg",
        lambda: F.hll_sketch_agg("id").alias("sketch"),
        comparable=lambda df: df.select("user", F.hll_sketch_estimate("sketch").alias("n")),
        loose={"n": 0.1},
    ),
    _agg("count_distinct", lambda: F.count_distinct("v")),
    _agg("stddev", lambda: F.stddev("v").alias("d"), loose={"d": 1e-9}),
    _agg("collect_list", lambda: F.collect_list("v"), comparable=sorted_arrays),
    _agg("collect_list, uniform keys", lambda: F.collect_list("v"), keys="uniform", comparable=sorted_arrays),
    _agg("collect_list, one key 50 %", lambda: F.collect_list("v"), keys="half", comparable=sorted_arrays),
    _agg("collect_list, one key 90 %", lambda: F.collect_list("v"), keys="most", comparable=sorted_arrays),
    _agg("collect_list, nulls 90 %", lambda: F.collect_list("v"), keys="nulls", comparable=sorted_arrays),
    _agg("collect_set", lambda: F.collect_set("day"), comparable=sorted_arrays),
    _agg("first and last", lambda: F.first("country"), lambda: F.last("country")),
    _agg("alias with parentheses", lambda: F.sum("v").alias("total (all)")),
    _agg("exact percentile", lambda: F.expr("percentile(v, 0.5)")),
    _agg("Python aggregate", lambda: _python_aggregate("v")),
    Job("count", lambda word, data: word.groupBy(data.half, "user").count(), "aggregate"),
    Job("agg by dict", lambda word, data: word.groupBy(data.zipf, "user").agg({"v": "sum"}), "aggregate"),
    Job("few groups", lambda word, data: word.groupBy(data.zipf, "kind").agg(F.sum("v")), "aggregate"),
    Job(
        "sum, long",
        lambda word, data: word.groupBy(data.many_zipf, "user", "day", "kind").agg(F.sum("v"), F.count("*")),
        "aggregate",
        long=True,
    ),
    Job(
        "collect_list, long",
        lambda word, data: word.groupBy(data.many_half, "user").agg(F.collect_list("v")),
        "aggregate",
        comparable=sorted_arrays,
        long=True,
    ),
]

KINDS = [f"k{number}" for number in range(8)]

PIVOTS = [
    Job(
        "pivot with values",
        lambda word, data: word.groupBy(data.half, "user").pivot("kind", KINDS).agg(F.sum("v")),
        "pivot",
    ),
    Job(
        "pivot without values",
        lambda word, data: word.groupBy(data.zipf, "user").pivot("kind").sum("v"),
        "pivot",
    ),
    Job(
        "pivot with collect_list",
        lambda word, data: word.groupBy(data.half, "user").pivot("kind", KINDS).agg(F.collect_list("v")),
        "pivot",
        comparable=sorted_arrays,
    ),
]


def _aliased(word: Word, data: Inputs) -> DataFrame:
    result: DataFrame = word.groupBy(data.half.alias("e"), "e.user").agg(F.collect_list("v"))
    return result


def _by(form: str, key: Callable[[Inputs], list[Any]]) -> Job:
    return Job(
        f"collect_list by {form}",
        lambda word, data: word.groupBy(data.half, *key(data)).agg(F.collect_list("v")),
        "form of the key",
        comparable=sorted_arrays,
    )


KEY_FORMS = [
    Job(
        "sum by F.col",
        lambda word, data: word.groupBy(data.half, F.col("user")).agg(F.sum("v")),
        "form of the key",
    ),
    Job(
        "sum by F.lower",
        lambda word, data: word.groupBy(data.half, F.lower("user")).agg(F.sum("v")),
        "form of the key",
    ),
    _by("F.col", lambda _: [F.col("user")]),
    _by("df.column", lambda data: [data.half.user]),
    _by("F.lower", lambda _: [F.lower("user")]),
    _by("a field of a struct", lambda _: ["s.field"]),
    _by("a list of names", lambda _: [["user", "day"]]),
    _by("a name and an expression", lambda _: ["user", F.col("day") % 7]),
    Job("collect_list by an aliased name", _aliased, "form of the key", comparable=sorted_arrays),
]


def _apply(job: str, keys: str, method: str, function: Any, schema: str, *key: str, **options: Any) -> Job:
    def run(word: Word, data: Inputs) -> DataFrame:
        rows = getattr(data, keys).drop("s")
        result: DataFrame = getattr(word.groupBy(rows, *(key or ("user",))), method)(function, schema)
        return result

    return Job(job, run, "apply", **options)


RANKED, SCORED = "user string, id long, place long", "user string, id long, score long"


def _cogroup(word: Word, data: Inputs, method: str, function: Any) -> DataFrame:
    left, right = word.groupBy(data.half.drop("s"), "user"), word.groupBy(data.users, "user")
    result: DataFrame = getattr(left.cogroup(right), method)(function, SUMMARY)
    return result


APPLIES = [
    _apply("applyInPandas, tiny groups", "uniform", "applyInPandas", summary, SUMMARY),
    _apply("applyInPandas, Zipf keys", "zipf", "applyInPandas", summary, SUMMARY),
    _apply("applyInPandas, one huge group", "most", "applyInPandas", ranked, RANKED),
    _apply("applyInPandas, nulls 90 %", "nulls", "applyInPandas", summary, SUMMARY),
    _apply(
        "applyInPandas, few groups",
        "zipf",
        "applyInPandas",
        day_summary,
        "day int, n long, total long",
        "day",
    ),
    _apply("applyInPandas with key", "zipf", "applyInPandas", keyed_summary, SUMMARY),
    _apply("applyInArrow, tiny groups", "uniform", "applyInArrow", arrow_summary, SUMMARY),
    _apply("applyInArrow with key", "half", "applyInArrow", keyed_arrow_summary, SUMMARY),
    _apply(
        "applyInPandas, tiny groups, long",
        "many_uniform",
        "applyInPandas",
        summary,
        SUMMARY,
        "user",
        long=True,
    ),
    _apply("applyInPandas, slow function, long", "zipf", "applyInPandas", scored(60_000), SCORED, long=True),
    Job(
        "cogroup in pandas",
        lambda word, data: _cogroup(word, data, "applyInPandas", pair),
        "apply",
    ),
    Job(
        "cogroup in Arrow",
        lambda word, data: _cogroup(word, data, "applyInArrow", arrow_pair),
        "apply",
    ),
]

JOBS = [*AGGREGATES, *PIVOTS, *KEY_FORMS, *APPLIES]
