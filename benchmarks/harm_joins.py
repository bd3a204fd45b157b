"""Everyday jobs that join."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from benchmarks.harm_data import Inputs
from benchmarks.harm_job import SHUFFLED, Job, Word, count

_CHOSEN_LATE = {"spark.sql.autoBroadcastJoinThreshold": "200KB"}
"""Spark sees only while it runs that a filter has made a side small enough to broadcast."""


def _users(data: Inputs) -> DataFrame:
    return data.users.select("user", "name", "age")


def _join(job: str, events: str, how: str = "inner", **options: Any) -> Job:
    """Events of a kind with their users, both sides shuffled."""
    options = {"settings": SHUFFLED, **options}
    return Job(
        job,
        lambda word, data: word.join(getattr(data, events), _users(data), "user", how),
        "join",
        **options,
    )


def _columns(word: Word, data: Inputs) -> DataFrame:
    visits = data.visits.select("visit", "visitor", "pages")
    events = data.uniform
    return word.join(events, visits, events.user == visits.visitor)


def _with_inequality(word: Word, data: Inputs) -> DataFrame:
    events, visits = data.uniform, data.visits.select("visit", "visitor", F.col("day").alias("until"))
    return word.join(events, visits, [events.user == visits.visitor, events.day < visits.until])


def _null_safe(word: Word, data: Inputs) -> DataFrame:
    # one row without a user on the right, so that it matches
    few = data.users.select(F.col("user").alias("u"), "age").unionByName(
        data.spark.sql("SELECT string(NULL) AS u, -1 AS age")
    )
    return word.join(data.nulls, few, data.nulls.user.eqNullSafe(few.u), "left")


def _self_join(word: Word, data: Inputs) -> DataFrame:
    some = data.zipf.where("id % 50 = 0").select("id", "user", "v")
    pairs = word.join(some.alias("a"), some.alias("b"), F.col("a.user") == F.col("b.user"))
    return pairs.where("a.id < b.id").select("a.user", "a.id", F.col("b.v").alias("other"))


def _many_to_many(word: Word, data: Inputs) -> DataFrame:
    left = data.half.where("id % 40 = 0").select("user", "id")
    right = data.half.where("id % 40 = 1").select("user", F.col("id").alias("other"))
    return word.join(left, right, "user")


def _int_and_long(word: Word, data: Inputs) -> DataFrame:
    return word.join(data.zipf, data.users.select(F.col("small").alias("number"), "name"), "number")


def _int_and_long_condition(word: Word, data: Inputs) -> DataFrame:
    users = data.users.select("small", "name")
    return word.join(data.zipf, users, data.zipf.number == users.small)


def _two_columns(word: Word, data: Inputs) -> DataFrame:
    return word.join(data.uniform, data.visits.select("user", "day", "pages"), ["user", "day"])


def _expression(word: Word, data: Inputs) -> DataFrame:
    users = data.users.select(F.col("user").alias("u"), "age")
    return word.join(data.half, users, F.lower(data.half.user) == F.lower(users.u))


JOBS = [
    _join("inner, shuffled", "zipf"),
    _join("left, shuffled", "zipf", "left"),
    _join("right, shuffled", "zipf", "right"),
    _join("full, shuffled", "zipf", "full"),
    _join("semi, shuffled", "zipf", "left_semi"),
    _join("anti, shuffled", "zipf", "left_anti"),
    _join("inner, uniform keys", "uniform"),
    _join("inner, one key 50 %", "half"),
    _join("left, one key 90 %", "most", "left"),
    _join("left, nulls 90 %", "nulls", "left"),
    _join("full, nulls 90 %", "nulls", "full"),
    _join("anti, nulls 90 %", "nulls", "left_anti"),
    _join("inner, then count", "half", act=count),
    _join("inner, long", "many_half", long=True),
    _join("left, uniform keys, long", "many_uniform", "left", long=True),
    _join("broadcast by size", "half", settings={}),
    Job(
        "broadcast by size, tiny side",
        lambda word, data: word.join(data.zipf, data.countries, "country", "left"),
        "join",
    ),
    Job(
        "broadcast by hint",
        lambda word, data: word.join(data.half, F.broadcast(_users(data)), "user"),
        "join",
        settings=SHUFFLED,
    ),
    Job(
        "broadcast by hint, long",
        lambda word, data: word.join(data.many_half, F.broadcast(_users(data)), "user"),
        "join",
        settings=SHUFFLED,
        long=True,
    ),
    Job(
        "a filter makes one side small",
        lambda word, data: word.join(
            data.zipf, data.visits.where("pages = 3").select("user", "visit"), "user"
        ),
        "join",
        settings=_CHOSEN_LATE,
    ),
    Job("left.a == right.b", _columns, "join", settings=SHUFFLED),
    Job("two conditions, one no equality", _with_inequality, "join", settings=SHUFFLED),
    Job("null-safe equality", _null_safe, "join", settings=SHUFFLED),
    Job("int and long keys", _int_and_long, "join", settings=SHUFFLED),
    Job("int and long keys, by condition", _int_and_long_condition, "join", settings=SHUFFLED),
    Job("many to many, hot key", _many_to_many, "join", settings=SHUFFLED),
    Job("self join", _self_join, "join", settings=SHUFFLED),
    Job("two columns", _two_columns, "join", settings=SHUFFLED),
    Job("equal expressions", _expression, "join", settings=SHUFFLED),
]
