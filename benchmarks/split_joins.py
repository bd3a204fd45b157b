"""Joins with one hot key: Spark as it comes, AQE with lower thresholds, salting, whole keys, split keys.

`run(scale)` returns the figures of every case and contender. Each case runs in two profiles: with the defaults on the
two cores there are, and with 128 partitions or slots, from whose task times 16 and 64 cores are modelled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

import unskew
from benchmarks.bars import Bar
from benchmarks.harm_log import Log
from benchmarks.harm_run import settings
from benchmarks.split_runs import answer_bar, compared, logged_session, split_bars, time_bar

LEFT, RIGHT = 10_000_000, 1_000_000
FEW, MANY = 8, 128
SALTS = 16

_SHUFFLED = {"spark.sql.autoBroadcastJoinThreshold": "-1"}
_MANY_CORES = {
    "spark.sql.files.minPartitionNum": "64",
    "spark.sql.adaptive.coalescePartitions.minPartitionNum": "64",
}
"""What Spark would take from the number of cores, on the machines whose times are modelled: the tasks that read, and
those that AQE leaves when it merges small partitions."""

_DEFAULTS = {
    "spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes": "256MB",
    "spark.sql.adaptive.skewJoin.skewedPartitionFactor": "5",
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "64MB",
}
_LOWERED = {
    "spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes": "4MB",
    "spark.sql.adaptive.skewJoin.skewedPartitionFactor": "2",
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "4MB",
}


@dataclass(frozen=True)
class Case:
    """`share` of the left rows, or of the output if both sides have many rows of it, belong to the hot key."""

    share: float
    relation: str
    how: str

    @property
    def name(self) -> str:
        """The case in words."""
        return f"{self.how}, {self.relation}, {self.share:.0%} hot"


CASES = [
    Case(share, relation, how)
    for share in (0.5, 0.9, 0.1)
    for relation, how in (
        ("one to one", "inner"),
        ("many to many", "inner"),
        ("one to one", "left"),
        ("one to one", "full"),
        ("one to many", "inner"),
        ("one to one", "semi"),
        ("one to one", "anti"),
    )
]
"""Those that matter most first: a run may be stopped, and continued later."""

Joined = Callable[[DataFrame, DataFrame, str], DataFrame]


def run(scale: float, turns: int, done: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """All cases at a scale that are not done yet, one after the other; profile → contender → figures."""
    with logged_session(FEW) as (spark, log, folder):
        for number, case in enumerate(CASES):
            if case.name not in done:
                yield case.name, _case(spark, log, folder / f"case-{number}", case, scale, turns)


def bars(cases: Mapping[str, Any]) -> list[Bar]:
    """What the figures must meet."""
    return [bar for name, case in cases.items() for bar in join_bars(name, case, hot="10% hot" not in name)]


def join_bars(name: str, case: Mapping[str, Any], *, hot: bool) -> list[Bar]:
    """What both profiles of a join must meet."""
    few, many = case["two cores"], case["many partitions"]
    return [
        answer_bar(f"{name}, two cores", few),
        answer_bar(name, many),
        time_bar(name, few),
        *split_bars(name, many, "unskew split", most_rows=1.15, hot=hot),
    ]


def _case(
    spark: SparkSession, log: Log, folder: Path, case: Case, scale: float, turns: int
) -> dict[str, Any]:
    left, right = inputs(spark, folder, case, scale)
    return profiles(spark, log, left, right, case.how, ["hot"], turns)


def profiles(
    spark: SparkSession,
    log: Log,
    left: DataFrame,
    right: DataFrame,
    how: str,
    hot_keys: Sequence[str],
    turns: int,
) -> dict[str, Any]:
    """The figures of a join by `k` in both profiles; whoever salts by hand knows the `hot_keys`."""
    few, many = _contenders(how, None, hot_keys), _contenders(how, MANY, hot_keys)
    if how != "full":  # which takes no plan that was made before
        plan = unskew.plan_join(left, right, "k", how, slots=MANY)
        many["unskew split, saved plan"] = (
            lambda left, right, how: unskew.join(left, right, "k", how, plan=plan),
            {},
        )
    # on two cores: what a user would choose from
    few = {name: few[name] for name in few if name not in ("salted", "unskew whole", "unskew split")}
    return {
        # short runs on the cores there are: one more turn, since nothing of them is modelled
        "two cores": _profile(spark, log, {}, FEW, few, left, right, how, turns + 1),
        "many partitions": _profile(spark, log, _MANY_CORES, MANY, many, left, right, how, turns),
    }


def _profile(
    spark: SparkSession,
    log: Log,
    conf: Mapping[str, str],
    partitions: int,
    contenders: Mapping[str, tuple[Joined, Mapping[str, str]]],
    left: DataFrame,
    right: DataFrame,
    how: str,
    turns: int,
) -> dict[str, Any]:
    def job(name: str) -> Callable[[], DataFrame]:
        join, more = contenders[name]

        def configured() -> DataFrame:
            # what the contenders before this one have set is set back
            for key, value in {**_DEFAULTS, **more}.items():
                spark.conf.set(key, value)
            return join(left, right, how)

        return configured

    shuffle = {**_SHUFFLED, **_DEFAULTS, "spark.sql.shuffle.partitions": str(partitions)}
    with settings(spark, {**shuffle, **conf}):
        return compared({name: job(name) for name in contenders}, log, turns, "Join")


def _contenders(
    how: str, slots: int | None, hot_keys: Sequence[str]
) -> dict[str, tuple[Joined, Mapping[str, str]]]:
    """Name → the join, and Spark's settings for it. Salting cannot keep the unmatched rows of both sides."""

    def ours(**options: Any) -> Joined:
        return lambda left, right, how: unskew.join(left, right, "k", how, slots=slots, **options)

    contenders: dict[str, tuple[Joined, Mapping[str, str]]] = {
        "plain": (lambda left, right, how: left.join(right, "k", how), {}),
        "aqe lowered": (lambda left, right, how: left.join(right, "k", how), _LOWERED),
    }
    if how != "full":
        contenders |= {
            "salted": (lambda left, right, how: _salted(left, right, how, F.lit(True)), {}),
            "salted hot": (
                lambda left, right, how: _salted(left, right, how, F.col("k").isin(*hot_keys)),
                {},
            ),
        }
    return contenders | {
        "unskew whole": (ours(planner="keel"), {}),
        "unskew split": (ours(planner="split"), {}),
        "unskew": (ours(), {}),
    }


def _salted(left: DataFrame, right: DataFrame, how: str, is_hot: Column) -> DataFrame:
    """Salted by hand, as it is usually done; the hot keys are known beforehand."""
    salt = F.when(is_hot, F.pmod(F.xxhash64("v"), F.lit(SALTS)).cast("int")).otherwise(0)
    all_salts = F.when(is_hot, F.sequence(F.lit(0), F.lit(SALTS - 1))).otherwise(F.array(F.lit(0)))
    salted = left.withColumn("salt", salt)
    copied = right.withColumn("salt", F.explode(all_salts))
    return salted.join(copied, ["k", "salt"], how).drop("salt")


def inputs(spark: SparkSession, folder: Path, case: Case, scale: float) -> tuple[DataFrame, DataFrame]:
    """Two files: the hot key is anywhere among the rows."""
    left_rows, right_rows = int(LEFT * scale), int(RIGHT * scale)
    hot_left, hot_right = case.share * left_rows, {"one to one": 1, "one to many": 4}.get(case.relation, 0)
    if case.relation == "many to many":
        hot_left = hot_right = math.sqrt(case.share / (1 - case.share) * left_rows)
    for name, rows, hot, value in (("left", left_rows, hot_left, "v"), ("right", right_rows, hot_right, "w")):
        # a bijection of the rows that have the hot key, so that there are exactly so many of them
        cold = F.pmod(F.xxhash64("id"), F.lit(right_rows)) if name == "left" else F.col("id")
        key = F.when(_scattered(rows) < int(hot), "hot").otherwise(F.concat(F.lit("k"), cold))
        df = spark.range(0, rows, 1, 64).select(key.alias("k"), F.col("id").alias(value))
        df.write.parquet(str(folder / name))
    return spark.read.parquet(str(folder / "left")), spark.read.parquet(str(folder / "right"))


def _scattered(rows: int) -> Any:
    """The numbers 0 to rows - 1 in another order: each row's own times a number that has no factor in common."""
    factor = next(n for n in range(7_919, 20_000) if math.gcd(n, rows) == 1)
    return F.col("id") * factor % rows
