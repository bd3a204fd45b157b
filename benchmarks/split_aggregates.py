"""Hot keys in aggregates and files: `applyInPandas` with `merge=`, collecting and sketching, tables to be written.

At tiny scales AQE makes one task of plain Spark's shuffles: compare at scale 0.1 and above.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import unskew
from benchmarks.bars import Bar
from benchmarks.harm_log import Log
from benchmarks.split_runs import (
    Case,
    answer_bar,
    compared,
    logged_session,
    one_hot_key,
    split_bars,
    time_bar,
    timed,
)

HOT_SHARES = (0.1, 0.5, 0.9)
SLOTS = 32
SALTS = 32
ROWS = 10_000_000
"""Rows at scale 1."""

COUNTRIES = 200
SCHEMA = "country string, n long, total double"

Job = Callable[[], DataFrame]


def run(scale: float, turns: int, done: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """All cases at a scale that are not done yet, one after the other; contender → figures."""
    limit = max(int(ROWS * scale) // 20, 1000)
    with logged_session(SLOTS) as (spark, log, folder):
        for share in HOT_SHARES:
            visits = one_hot_key(
                spark,
                folder / f"visits-{share}",
                int(ROWS * scale),
                share,
                "country",
                COUNTRIES,
                "pmod(xxhash64(id, 2), 1000000) as visitor",
                "pmod(xxhash64(id, 3), 1000) / 10 as amount",
            )
            hot = f"{share:.0%} hot"
            if f"merge, {hot}" not in done:
                loose = {"total": 1e-4}
                yield f"merge, {hot}", compared(merging(visits, share), log, turns, "MapIn", loose)
            for case, contenders in collecting(visits).items():
                if f"{case}, {hot}" not in done:
                    loose = {"x": 0.05 if case == "hll" else 0.0}
                    yield f"{case}, {hot}", compared(contenders, log, turns, "Aggregate", loose)
            if f"write, {hot}" not in done:
                yield f"write, {hot}", _written(writing(visits, limit), log, turns, folder / "table", limit)


def bars(cases: Mapping[str, Any]) -> list[Bar]:
    """What the figures must meet."""
    all_bars = []
    for name, case in cases.items():
        all_bars += [answer_bar(name, case), time_bar(name, case)]
        if name.startswith("merge"):
            hot = "10%" not in name
            all_bars += split_bars(name, case, "unskew split", most_rows=1.15, hot=hot)
        if name.startswith("write"):
            ours = case["unskew"]
            all_bars += [
                Bar(f"{name}: rows of the largest file / limit", ours["largest_file"] / ours["limit"], 1.0),
                *split_bars(name, case, "unskew", most_rows=1.15, hot="10%" not in name),
            ]
    return all_bars


def _partial(rows: pd.DataFrame) -> pd.DataFrame:
    """A computation that takes as long as the group has rows."""
    values = rows["amount"].to_numpy()
    for _ in range(20):
        values = np.sqrt(values * values)
    return pd.DataFrame({"country": rows["country"].head(1), "n": [len(rows)], "total": [values.sum()]})


def _merge(parts: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame(
        {"country": parts["country"].head(1), "n": [parts["n"].sum()], "total": [parts["total"].sum()]}
    )


def merging(visits: DataFrame, share: float) -> Mapping[str, Job]:
    """A function on groups whose partial results can be merged."""
    rows = visits.select("country", "amount")
    is_hot = F.col("country") == "hot" if share >= 1 / SLOTS else F.lit(False)

    def salted(salt: Any) -> Job:
        def job() -> DataFrame:
            parts = visits.select("country", "amount", salt.alias("salt")).groupBy("country", "salt")
            partial = parts.applyInPandas(_partial, SCHEMA)
            return partial.groupBy("country").applyInPandas(_merge, SCHEMA)

        return job

    def ours(**options: Any) -> Job:
        grouped = unskew.groupBy(rows, "country", **options)
        return lambda: grouped.applyInPandas(_partial, SCHEMA, merge=_merge)

    draw = F.pmod(F.xxhash64("id"), F.lit(SALTS))
    return {
        "plain": lambda: rows.groupBy("country").applyInPandas(_partial, SCHEMA),
        "all keys salted": salted(draw),
        "hot key salted": salted(F.when(is_hot, draw).otherwise(0)),
        "unskew whole": lambda: unskew.groupBy(rows, "country", slots=SLOTS).applyInPandas(_partial, SCHEMA),
        "unskew split": ours(slots=SLOTS, planner="wrap-around"),
        "unskew": ours(),
    }


def collecting(visits: DataFrame) -> Mapping[str, Mapping[str, Job]]:
    """Spark's own aggregates that hold rows or sketches, in one step and in two."""
    salt = F.pmod(F.xxhash64("id"), F.lit(SALTS)).alias("salt")
    functions: dict[str, tuple[Any, Any, Any]] = {
        "collect_list": (F.collect_list, lambda part: F.flatten(F.collect_list(part)), F.size),
        "collect_set": (
            F.collect_set,
            lambda part: F.array_distinct(F.flatten(F.collect_list(part))),
            F.size,
        ),
        "hll": (F.hll_sketch_agg, F.hll_union_agg, F.hll_sketch_estimate),
    }

    def contenders(first: Any, second: Any, finish: Any) -> Mapping[str, Job]:
        collected, size = first("visitor").alias("x"), finish("x").alias("x")
        return {
            "plain": lambda: visits.groupBy("country").agg(collected).select("country", size),
            "all keys salted": lambda: (
                visits.groupBy("country", salt)
                .agg(collected)
                .groupBy("country")
                .agg(second("x").alias("x"))
                .select("country", size)
            ),
            "unskew": lambda: unskew.groupBy(visits, "country").agg(collected).select("country", size),
        }

    return {name: contenders(*three) for name, three in functions.items()}


def writing(visits: DataFrame, rows_per_file: int) -> Mapping[str, Job]:
    """The rows as they are handed to the writer of a table partitioned by country."""
    salt = F.pmod(F.xxhash64("id"), F.lit(SALTS))
    return {
        "plain": lambda: visits.repartition("country"),
        "all keys salted": lambda: visits.repartition("country", salt),
        "unskew": lambda: unskew.repartition(visits, "country", rows_per_file=rows_per_file),
    }


def _written(contenders: Mapping[str, Job], log: Log, turns: int, table: Path, limit: int) -> Case:
    """The answer is how many rows each country has in the files."""
    sizes: dict[str, dict[str, list[int]]] = {}

    def writer(name: str, job: Job) -> Callable[[], None]:
        def write() -> None:
            job().write.partitionBy("country").mode("overwrite").parquet(str(table))
            sizes[name] = defaultdict(list)
            for file in table.rglob("*.parquet"):
                sizes[name][file.parent.name].append(pq.read_metadata(file).num_rows)

        return write

    figures = timed({name: writer(name, job) for name, job in contenders.items()}, log, turns, "Write")
    rows = {name: {country: sum(each) for country, each in files.items()} for name, files in sizes.items()}
    return {
        name: {
            **figures[name],
            "files": sum(map(len, files.values())),
            "largest_file": max(map(max, files.values())),
            "limit": limit,
            "same_rows": rows[name] == rows["plain"],
        }
        for name, files in sizes.items()
    }
