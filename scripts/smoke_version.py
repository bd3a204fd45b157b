"""Every operator once on the installed Spark, beside plain Spark: non-zero exit if rows or places are wrong.

    python scripts/smoke_version.py [--remote ADDRESS]

For the versions of Spark that the tests do not run on every time; takes about a minute. With an address it runs as a
client of a Spark Connect server, whose version may be another one. The last line says what works, as JSON.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

import unskew
from tests.spark.versions.golden_plan import wrong_routes
from tests.streaming.golden.make import Always
from unskew.core.hashing import hash_keys
from unskew.spark.versions.streams import why_no_streams

ROWS, SLOTS = 20_000, 5


def session(remote: str | None) -> SparkSession:
    """A local Spark of two cores, or a client of a server."""
    settings = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "7",
        "spark.sql.autoBroadcastJoinThreshold": "-1",
        "spark.ui.enabled": "false",
        "spark.log.level": "ERROR",
        "spark.ui.showConsoleProgress": "false",
    }
    if remote is not None:
        client: SparkSession = SparkSession.builder.remote(remote).getOrCreate()
        for name, value in settings.items():
            if name.startswith("spark.sql."):
                client.conf.set(name, value)
        return client
    builder = SparkSession.builder.master("local[2]").appName("smoke")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark: SparkSession = builder.getOrCreate()
    return spark


def main() -> int:
    """Run all checks; the number of those that failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--remote", help="the address of a Spark Connect server")
    spark = session(parser.parse_args().remote)
    number = F.col("id")
    hot = F.when(number % 3 == 0, F.lit("hot")).otherwise(F.concat(F.lit("k"), number % 997))
    events = spark.range(ROWS).select(hot.alias("k"), number.alias("v"))
    users = spark.range(1000).select(
        F.when(number < 4, F.lit("hot")).otherwise(F.concat(F.lit("k"), number)).alias("k"), number.alias("w")
    )
    plan = unskew.plan(unskew.measure(events, "k"), slots=SLOTS)
    results: dict[str, str] = {}
    for name, check in CHECKS.items():
        try:
            results[name] = check(spark, events, users, plan) or "yes"
        except Exception as error:  # noqa: BLE001 (each check is reported, and the others still run)
            results[name] = f"FAILED: {type(error).__name__}: {str(error)[:600]}"
        print(f"{name}: {results[name]}", flush=True)
    failed = sum(result.startswith("FAILED") for result in results.values())
    print(f"Spark {spark.version}: {len(CHECKS) - failed} of {len(CHECKS)} checks passed")
    print(json.dumps({"spark": spark.version, "results": results}))
    spark.stop()
    return failed


def same(df: DataFrame, expected: DataFrame) -> None:
    """Refuse other rows than the expected ones."""
    assert counted(df.collect()) == counted(expected.collect()), "other rows than plain Spark"


def counted(rows: Iterable[Any]) -> Counter[str]:
    """How often each row occurs."""
    return Counter(map(str, rows))


def in_place(df: DataFrame, plan: Any) -> None:
    """Refuse rows that are not in the partition of their key's slot."""
    rows = df.select("k", F.spark_partition_id().alias("p")).distinct().collect()
    slots = plan.table.slot_of_hashes(hash_keys([row["k"] for row in rows]))
    wrong = sum(row["p"] != slot for row, slot in zip(rows, slots.tolist(), strict=True))
    assert not wrong, f"{wrong} of {len(rows)} keys are in another partition than planned"


def total(key: Any, rows: Any) -> Any:
    """The function on groups: the sum of a group."""
    import pandas as pd

    return pd.DataFrame({"k": [key[0]], "n": [len(rows)], "s": [int(rows["v"].sum())]})


def total_in_arrow(key: Any, rows: Any) -> Any:
    """As `total`, on Arrow tables."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return pa.table({"k": [key[0].as_py()], "n": [rows.num_rows], "s": [pc.sum(rows["v"]).as_py()]})


def merged(key: Any, rows: Any) -> Any:
    """Partial results of `total` together."""
    import pandas as pd

    return pd.DataFrame({"k": [key[0]], "n": [int(rows["n"].sum())], "s": [int(rows["s"].sum())]})


def pair(key: Any, left: Any, right: Any) -> Any:
    """The function on cogroups."""
    import pandas as pd

    return pd.DataFrame({"k": [key[0]], "n": [len(left)], "s": [len(right)]})


RESULT = "k string, n long, s long"


def measuring(spark: SparkSession, events: DataFrame, users: DataFrame, plan: Any) -> None:
    """All ways to measure agree about the hot key."""
    exact = unskew.measure(events, "k", sample=None)
    observed = unskew.observe(events, "k")
    observed.df.write.format("noop").mode("overwrite").save()
    for histogram in (
        exact,
        unskew.measure(events, "k"),
        unskew.measure(events, "k", sample=0.5),
        observed.histogram,
    ):
        heaviest = histogram.tracked.counts.max()
        assert abs(heaviest - ROWS / 3) < ROWS / 20, heaviest
    assert abs(exact.total - ROWS) < 1


def grouping(spark: SparkSession, events: DataFrame, users: DataFrame, plan: Any) -> None:
    """`agg` and functions on groups, placed by a plan."""
    expected = events.groupBy("k").agg(F.count("*").alias("n"), F.sum("v").alias("s"))
    grouped = unskew.groupBy(events, "k", plan=plan)
    same(grouped.agg(F.count("*").alias("n"), F.sum("v").alias("s")), expected)
    in_place(grouped.agg(F.collect_list("v")), plan)
    for result in (grouped.applyInPandas(total, RESULT), grouped.applyInArrow(total_in_arrow, RESULT)):
        same(result, expected)
        in_place(result, plan)
    split = unskew.groupBy(events, "k", planner="pkg", slots=SLOTS)
    same(split.applyInPandas(total, RESULT, merge=merged), expected)
    same(unskew.groupBy(events, "k").applyInPandas(total, RESULT), expected)


def cogrouping(spark: SparkSession, events: DataFrame, users: DataFrame, plan: Any) -> None:
    """Cogroups, placed by a plan."""
    plain = events.groupBy("k").cogroup(users.groupBy("k")).applyInPandas(pair, RESULT)
    routed = (
        unskew.groupBy(events, "k", plan=plan).cogroup(unskew.groupBy(users, "k")).applyInPandas(pair, RESULT)
    )
    same(routed, plain)
    in_place(routed, plan)


def joining(spark: SparkSession, events: DataFrame, users: DataFrame, plan: Any) -> None:
    """Joins of whole keys, placed by a plan: also more slots than Spark's own partitions."""
    many = unskew.plan(unskew.measure(events, "k"), slots=3 * SLOTS)
    for each in (plan, many):
        for how in ("inner", "left", "right", "full", "left_semi", "left_anti"):
            routed = unskew.join(events, users, "k", how, plan=each)
            same(routed, events.join(users, "k", how))
            if how in ("inner", "full"):
                in_place(routed, each)
        in_place(
            unskew.groupBy(unskew.join(events, users, "k", plan=each), "k").agg(F.collect_list("v")), each
        )


def joining_by_numbers(spark: SparkSession, events: DataFrame, users: DataFrame, plan: Any) -> None:
    """Joins whose keys Spark normalises, casts or takes apart: the same rows, and no more shuffles."""
    left = events.select((F.col("v") % 100).alias("k"), "v")
    right = users.select((F.col("w") % 50).alias("k"), "w")
    as_double = (
        left.withColumn("k", F.col("k").cast("double")),
        right.withColumn("k", F.col("k").cast("double")),
    )
    as_int = left, right.withColumn("k", F.col("k").cast("int"))
    for one, other in (as_double, as_int):
        for on in ("k", one["k"].eqNullSafe(other["k"])):
            routed, plain = unskew.join(one, other, on, planner="keel", slots=SLOTS), one.join(other, on)
            same(routed, plain)
            assert exchanges(routed) == exchanges(plain) == 2, "a join is shuffled again"


def exchanges(df: DataFrame) -> int:
    """How often the rows are shuffled."""
    text = df.sparkSession.sql("EXPLAIN SELECT * FROM {df}", df=df).collect()[0][0]
    return len(re.findall(r"\bExchange ", text))


def splitting(spark: SparkSession, events: DataFrame, users: DataFrame, plan: Any) -> None:
    """Joins that split the hot key."""
    for how in ("inner", "left", "full"):
        routed = unskew.join(events, users, "k", how, planner="split", slots=SLOTS)
        same(routed, events.join(users, "k", how))
        partitions = routed.where("k = 'hot'").select(F.spark_partition_id()).distinct().count()
        assert partitions > 1, "the hot key is in one partition"


def windows(spark: SparkSession, events: DataFrame, users: DataFrame, plan: Any) -> None:
    """Windows, placed by a plan, and windows that cut the hot key."""
    plain = Window.partitionBy("k").orderBy("v")
    rows, window = unskew.window(events, "k", plan=plan)
    result = rows.select("k", "v", F.row_number().over(window.orderBy("v")).alias("n"))
    same(result, events.select("k", "v", F.row_number().over(plain).alias("n")))
    in_place(result, plan)
    cut = unskew.over(events, "k", orderBy="v", slots=SLOTS, planner="auto")
    same(
        cut.withColumns(n=unskew.windows.row_number(), s=unskew.windows.sum("v")),
        events.select("*", F.row_number().over(plain).alias("n"), F.sum("v").over(plain).alias("s")),
    )


def salting(spark: SparkSession, events: DataFrame, users: DataFrame, plan: Any) -> None:
    """Spark's own join and grouping by key and salt: heavy keys on their slots."""
    own = unskew.plan(unskew.measure(events, "k"), int(spark.conf.get("spark.sql.shuffle.partitions")))
    merging = "spark.sql.adaptive.coalescePartitions.enabled"
    spark.conf.set(merging, "false")
    left, right = (df.withColumn("salt", unskew.salt(own, df)) for df in (events, users))
    is_heavy = F.col("k").isin(list(own.heavy))
    for result, plain in (
        (left.join(right, ["k", "salt"]), events.join(users, "k")),
        (left.groupBy("k", "salt").count(), events.groupBy("k").count()),
    ):
        same(result.drop("salt"), plain)
        in_place(result.where(is_heavy), own)
    spark.conf.unset(merging)


def applying(spark: SparkSession, events: DataFrame, users: DataFrame, plan: Any) -> None:
    """`Plan.apply`, and partitions made for writing."""
    placed = plan.apply(events)
    same(placed.drop("slot"), events)
    assert placed.where(F.col("slot") != F.spark_partition_id()).count() == 0
    same(unskew.repartition(events, "k", rows_per_file=2000), events)


def keeping(spark: SparkSession, events: DataFrame, users: DataFrame, plan: Any) -> None:
    """A kept plan is made, used and reviewed."""
    with tempfile.TemporaryDirectory() as folder:
        kept = unskew.Kept(str(Path(folder) / "plan"))
        for _ in range(2):
            same(
                unskew.groupBy(events, "k", plan=kept, slots=SLOTS).applyInPandas(total, RESULT),
                events.groupBy("k").agg(F.count("*").alias("n"), F.sum("v").alias("s")),
            )
        assert kept.journal(), "no review"


def diagnosing(spark: SparkSession, events: DataFrame, users: DataFrame, plan: Any) -> None:
    """The diagnosis of a group and of a join."""
    assert unskew.diagnose(events, "k", slots=SLOTS)
    assert unskew.diagnose(events, "k", join=users, slots=SLOTS)


def routing(spark: SparkSession, events: DataFrame, users: DataFrame, plan: Any) -> None:
    """A plan that another version of Spark saved sends every key to the slot that it had there."""
    assert not any(wrong_routes(spark).values()), wrong_routes(spark)


def streaming(spark: SparkSession, events: DataFrame, users: DataFrame, plan: Any) -> str | None:
    """A stream of three batches, restarted after the second, whose state moves: counts as plain Spark's; or refused."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        parts = [events.where(F.col("v") % 3 == i) for i in range(3)]

        def run() -> None:
            source = (
                spark.readStream.schema(events.schema)
                .option("maxFilesPerTrigger", 1)
                .parquet(str(root / "in"))
            )
            stream = unskew.stream(source, "k").aggregate(n=unskew.count(), s=unskew.sum("v"))
            query = stream.start(
                f"parquet:{root / 'out'}",
                checkpoint=str(root / "checkpoint"),
                slots=3,
                policy=Always(),
                placement=unskew.Placement(buckets=64),
                trigger="availableNow",
            )
            query.awaitTermination()

        def add(part: DataFrame) -> None:
            part.coalesce(1).write.mode("append").parquet(str(root / "in"))

        add(parts[0])
        if why_no_streams(spark):
            message = ""
            try:
                run()
            except ValueError as error:
                message = str(error)
            needed = re.search(r"needs (Spark 4\.\d)", message)
            assert needed, f"not refused by name: {message!r}"
            return f"refused: needs {needed[1]}"
        add(parts[1])
        run()
        add(parts[2])
        run()
        expected = events.groupBy("k").agg(F.count("*").alias("n"), F.sum("v").alias("s"))
        same(unskew.state(str(root / "checkpoint"), spark).select("k", "n", "s"), expected)
        journal = unskew.journal(str(root / "checkpoint"))
        assert len(journal) == 3, journal
        assert sum(line["moved"]["rows"] for line in journal), "no state has moved"
    return None


CHECKS: dict[str, Callable[[SparkSession, DataFrame, DataFrame, Any], str | None]] = {
    "measure, observe": measuring,
    "groupBy": grouping,
    "cogroup": cogrouping,
    "join": joining,
    "join by numbers": joining_by_numbers,
    "split join": splitting,
    "window, over": windows,
    "salt": salting,
    "Plan.apply, repartition": applying,
    "kept plan": keeping,
    "diagnose": diagnosing,
    "plan saved by another version": routing,
    "stream, state": streaming,
}

if __name__ == "__main__":
    sys.exit(main())
