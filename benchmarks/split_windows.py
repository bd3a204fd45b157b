"""Hot keys in windows: plain Spark, whole keys by `unskew.window`, and keys cut by `unskew.over`.

With `--memory 600m` at scale 1 the hot key does not fit into a task: plain Spark spills it, pieces fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

import unskew
from benchmarks.bars import Bar
from benchmarks.split_runs import answer_bar, compared, logged_session, one_hot_key, split_bars, time_bar
from unskew import windows

HOT_SHARES = (0.5, 0.9)
SLOTS = 32
ROWS = 10_000_000
"""Rows at scale 1."""

USERS = 200

CASES: dict[str, tuple[dict[str, Callable[[WindowSpec], Column]], dict[str, windows.WindowFunction]]] = {
    "running": (
        {"n": lambda w: F.row_number().over(w), "total": lambda w: F.sum("amount").over(w)},
        {"n": windows.row_number(), "total": windows.sum("amount")},
    ),
    "near": (
        {
            "before": lambda w: F.lag("amount").over(w),
            "week": lambda w: F.sum("amount").over(w.rowsBetween(-6, 0)),
        },
        {"before": windows.lag("amount"), "week": windows.sum("amount").rowsBetween(-6, 0)},
    ),
    "ranks": (
        {"place": lambda w: F.dense_rank().over(w), "share": lambda w: F.percent_rank().over(w)},
        {"place": windows.dense_rank(), "share": windows.percent_rank()},
    ),
}
"""Functions of plain Spark over a window, and ours; the order is unique, so that there is one right answer."""

Job = Callable[[], DataFrame]


def run(scale: float, turns: int, done: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """All cases at a scale that are not done yet, one after the other; contender → figures."""
    with logged_session(SLOTS) as (spark, log, folder):
        for share in HOT_SHARES:
            clicks = one_hot_key(
                spark,
                folder / f"clicks-{share}",
                int(ROWS * scale),
                share,
                "user",
                USERS,
                "timestamp_micros(pmod(id * 7919, 1000003) * 1000000 + id) as at",
                "pmod(xxhash64(id, 3), 1000) as amount",
            )
            for case, contenders in {**_window_cases(clicks), "latest": _latest(clicks)}.items():
                name = f"{case}, {share:.0%} hot"
                if name not in done:
                    yield name, compared(contenders, log, turns, "Window")


def bars(cases: Mapping[str, Any]) -> list[Bar]:
    """What the figures must meet."""
    all_bars = []
    for name, case in cases.items():
        all_bars += [answer_bar(name, case), time_bar(name, case)]
        if "unskew cut" in case:
            all_bars += split_bars(name, case, "unskew cut", most_rows=1.1, hot=True)
    return all_bars


def _window_cases(clicks: DataFrame) -> dict[str, dict[str, Job]]:
    def contenders(
        plain: Mapping[str, Callable[[WindowSpec], Column]], ours: dict[str, windows.WindowFunction]
    ) -> dict[str, Job]:
        def by_window(rows: DataFrame, window: WindowSpec) -> DataFrame:
            ordered = window.orderBy("at")
            return rows.withColumns({name: function(ordered) for name, function in plain.items()})

        return {
            "plain": lambda: by_window(clicks, Window.partitionBy("user")),
            "unskew whole": lambda: by_window(*unskew.window(clicks, "user", slots=SLOTS, planner="keel")),
            "unskew cut": lambda: unskew.over(clicks, "user", "at", slots=SLOTS, planner="keel").withColumns(
                **ours
            ),
            "unskew": lambda: unskew.over(clicks, "user", "at").withColumns(**ours),
        }

    return {case: contenders(*functions) for case, functions in CASES.items()}


def _latest(clicks: DataFrame) -> dict[str, Job]:
    newest = F.row_number().over(Window.partitionBy("user").orderBy(F.col("at").desc()))
    return {
        "plain": lambda: clicks.withColumn("n", newest).where("n = 1").drop("n"),
        "max_by": lambda: (
            clicks.groupBy("user").agg(F.max_by(F.struct("*"), "at").alias("row")).select("row.*")
        ),
        "unskew": lambda: unskew.latest(clicks, "user", orderBy="at"),
    }
