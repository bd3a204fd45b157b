"""Everyday jobs of several operators, windows, inputs from everywhere, and what becomes of the result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import Column, DataFrame, WindowSpec
from pyspark.sql import functions as F

from benchmarks.harm_data import Inputs
from benchmarks.harm_functions import SUMMARY, scored, summary
from benchmarks.harm_job import PLAIN, SHUFFLED, Job, Word, sorted_arrays, write_by

SCORED = "user string, id long, score long"


def _over(rows: DataFrame, name: str, function: Callable[[], Column], window: WindowSpec) -> DataFrame:
    return rows.withColumn(name, function().over(window))


def _number(word: Word, events: DataFrame, *key: Any) -> DataFrame:
    rows, by_key = word.window(events, *(key or ("user",)))
    return _over(rows, "n", F.row_number, by_key.orderBy("day", "id"))


def _window(job: str, keys: str, function: Callable[[], Column], **options: Any) -> Job:
    def run(word: Word, data: Inputs) -> DataFrame:
        rows, by_user = word.window(getattr(data, keys), "user")
        return _over(rows, "x", function, by_user.orderBy("day", "id"))

    return Job(job, run, "window", **options)


def _latest(word: Word, events: DataFrame) -> DataFrame:
    return _number(word, events).where("n = 1")


def _two_windows(word: Word, data: Inputs) -> DataFrame:
    rows, by_user = word.window(data.half, "user")
    ordered = by_user.orderBy("day", "id")
    return rows.select("id", "user", F.lag("v").over(ordered).alias("x"), F.sum("v").over(by_user).alias("y"))


def _running_sum() -> Column:
    return F.sum("v")


WINDOWS = [
    _window("row_number", "zipf", F.row_number),
    _window("row_number, uniform keys", "uniform", F.row_number),
    _window("row_number, one key 50 %", "half", F.row_number),
    _window("row_number, one key 90 %", "most", F.row_number),
    _window("row_number, nulls 90 %", "nulls", F.row_number),
    _window("lag", "half", lambda: F.lag("v")),
    _window("running sum", "zipf", _running_sum),
    _window("rank", "half", F.rank),
    _window("running sum, long", "many_zipf", _running_sum, long=True),
    _window("row_number, one key 50 %, long", "many_half", F.row_number, long=True),
    Job("two windows over one key", _two_windows, "window"),
    Job("latest row per key", lambda word, data: _latest(word, data.half), "window"),
    Job("window by F.col", lambda word, data: _number(word, data.half, F.col("user")), "window"),
    Job("window by an expression", lambda word, data: _number(word, data.half, F.lower("user")), "window"),
    Job("window by a field", lambda word, data: _number(word, data.half, "s.field"), "window"),
    Job("window by two columns", lambda word, data: _number(word, data.half, "user", "kind"), "window"),
]


def _window_group(word: Word, then: Word, data: Inputs) -> DataFrame:
    grouped = then.groupBy(_number(word, data.half), "user")
    result: DataFrame = grouped.agg(F.max("n"), F.sum("v"))
    return result


def _window_collect(word: Word, then: Word, data: Inputs) -> DataFrame:
    result: DataFrame = then.groupBy(_number(word, data.half), "user").agg(F.collect_list("n"))
    return result


def _with_users(word: Word, data: Inputs, events: DataFrame) -> DataFrame:
    return word.join(events, data.users.select("user", "age"), "user")


def _join_group(word: Word, then: Word, data: Inputs) -> DataFrame:
    grouped = then.groupBy(_with_users(word, data, data.half), "user")
    result: DataFrame = grouped.agg(F.sum("v"), F.max("age"))
    return result


def _join_collect(word: Word, then: Word, data: Inputs) -> DataFrame:
    result: DataFrame = then.groupBy(_with_users(word, data, data.half), "user").agg(F.collect_list("v"))
    return result


def _join_join(word: Word, then: Word, data: Inputs) -> DataFrame:
    return then.join(_with_users(word, data, data.half), data.users.select("user", "name"), "user", "left")


def _window_window(word: Word, then: Word, data: Inputs) -> DataFrame:
    rows, by_user = then.window(_number(word, data.half), "user")
    return _over(rows, "m", lambda: F.max("n"), by_user)


def _join_window_group(word: Word, then: Word, data: Inputs) -> DataFrame:
    numbered = _number(then, _with_users(word, data, data.half))
    result: DataFrame = then.groupBy(numbered, "user").agg(F.max("n"), F.max("age"))
    return result


def _group_join(word: Word, then: Word, data: Inputs) -> DataFrame:
    totals = word.groupBy(data.half, "user").agg(F.sum("v").alias("total"))
    return then.join(data.half, totals, "user")


def _collect_join(word: Word, then: Word, data: Inputs) -> DataFrame:
    lists = word.groupBy(data.half, "user").agg(F.sort_array(F.collect_set("day")).alias("days"))
    return then.join(data.users.select("user", "age"), lists, "user", "left")


def _group_window(word: Word, then: Word, data: Inputs) -> DataFrame:
    daily = word.groupBy(data.half, "user", "day").agg(F.sum("v").alias("v"), F.max("id").alias("id"))
    return _number(then, daily)


def _apply_group(word: Word, then: Word, data: Inputs) -> DataFrame:
    summaries = word.groupBy(data.uniform.drop("s"), "user").applyInPandas(summary, SUMMARY)
    result: DataFrame = then.groupBy(summaries, "user").agg(F.sum("total"))
    return result


_CHAINS: dict[str, Callable[[Word, Word, Inputs], DataFrame]] = {
    "window → groupBy": _window_group,
    "window → collect_list": _window_collect,
    "join → groupBy": _join_group,
    "join → collect_list": _join_collect,
    "join → join": _join_join,
    "window → window": _window_window,
    "join → window → groupBy": _join_window_group,
    "groupBy → join": _group_join,
    "collect_set → join": _collect_join,
    "groupBy → window": _group_window,
    "applyInPandas → groupBy": _apply_group,
}


def _chained(job: str, run: Callable[[Word, Word, Inputs], DataFrame]) -> list[Job]:
    """The chain with every operator changed, and with only the first."""
    options: dict[str, Any] = {"settings": SHUFFLED}
    if "collect_list" in job:
        options["comparable"] = sorted_arrays
    return [
        Job(job, lambda word, data: run(word, word, data), "chain", **options),
        Job(
            f"{job}, the rest plain",
            lambda word, data: run(word, PLAIN, data),
            "chain",
            **options,
        ),
    ]


CHAINS = [job for name, run in _CHAINS.items() for job in _chained(name, run)]


def _sessions(data: Inputs) -> DataFrame:
    """Events joined with their users and visits: an input that takes two shuffles to compute."""
    visits = data.visits.groupBy("user").agg(F.sum("pages").alias("pages"))
    return data.half.drop("s").join(visits, "user", "left")


def _daily(data: Inputs) -> DataFrame:
    """Events added up by user, day and kind."""
    return data.zipf.groupBy("user", "day", "kind").agg(F.sum("v").alias("v"), F.max("id").alias("id"))


INPUTS = [
    Job(
        "CSV, collect_list",
        lambda word, data: word.groupBy(data.csv, "user").agg(F.collect_list("v")),
        "input",
        comparable=sorted_arrays,
    ),
    Job("CSV, window", lambda word, data: _number(word, data.csv), "input"),
    Job(
        "in memory, applyInPandas",
        lambda word, data: word.groupBy(data.memory, "user").applyInPandas(summary, SUMMARY),
        "input",
    ),
    Job(
        "in memory, join",
        lambda word, data: word.join(data.memory, data.users.select("user", "age"), "user", "left"),
        "input",
        settings=SHUFFLED,
    ),
    Job("cached, window", lambda word, data: _number(word, data.cached), "input"),
    Job(
        "cached, applyInPandas",
        lambda word, data: word.groupBy(data.cached.drop("s"), "user").applyInPandas(summary, SUMMARY),
        "input",
    ),
    Job(
        "after a join, window", lambda word, data: _number(word, _sessions(data)), "input", settings=SHUFFLED
    ),
    Job(
        "after an aggregation, collect_list",
        lambda word, data: word.groupBy(_daily(data), "user").agg(F.collect_list("v")),
        "input",
        comparable=sorted_arrays,
    ),
    Job("after an aggregation, window", lambda word, data: _number(word, _daily(data)), "input"),
    Job(
        "after a slow function, applyInPandas",
        lambda word, data: word.groupBy(data.computed, "user").applyInPandas(summary, SUMMARY),
        "input",
    ),
    Job(
        "after a slow function, join",
        lambda word, data: word.join(data.computed, data.users.select("user", "age"), "user"),
        "input",
        settings=SHUFFLED,
    ),
    Job("after a slow function, window", lambda word, data: _number(word, data.computed), "input"),
    Job(
        "CSV, slow function, long",
        lambda word, data: word.groupBy(data.csv, "user").applyInPandas(scored(60_000), SCORED),
        "input",
        long=True,
    ),
]

OUTPUTS = [
    Job(
        "groupBy, written by country",
        lambda word, data: word.groupBy(data.zipf, "user", "country").agg(F.collect_list("v").alias("v")),
        "output",
        act=write_by("country"),
        comparable=sorted_arrays,
    ),
    Job(
        "groupBy, written by its key",
        lambda word, data: word.groupBy(data.zipf, "country").agg(F.collect_set("kind").alias("kinds")),
        "output",
        act=write_by("country"),
        comparable=sorted_arrays,
    ),
    Job(
        "latest row, written by day",
        lambda word, data: _latest(word, data.half).drop("s"),
        "output",
        act=write_by("day"),
    ),
    Job("sorted after a window", lambda word, data: _number(word, data.half).orderBy("id"), "output"),
    Job("window, first rows only", lambda word, data: _number(word, data.half).where("id < 50"), "output"),
]

JOBS = [*WINDOWS, *CHAINS, *INPUTS, *OUTPUTS]
