"""Joins with one hot key: Spark as it comes, AQE with lower thresholds, salting, whole keys, split keys.

`run(scale)` returns the figures of every case and contender. Each case runs in two profiles: with the defaults on the
two cores there are, and with 128 partitions or slots, from whose task times 16 and 64 cores are modelled.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import unskew
from benchmarks.harm_log import Log
from benchmarks.harm_run import Rows, session, settings
from benchmarks.split_tasks import measured

LEFT, RIGHT = 10_000_000, 1_000_000
FEW, MANY = 8, 128
SALTS = 16

_SHUFFLED = {"spark.sql.autoBroadcastJoinThreshold": "-1"}
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
    *(
        Case(share, "one to one", how)
        for share in (0.1, 0.5, 0.9)
        for how in ("inner", "left", "semi", "anti", "full")
    ),
    *(
        Case(share, relation, "inner")
        for share in (0.1, 0.5, 0.9)
        for relation in ("one to many", "many to many")
    ),
]

Joined = Callable[[DataFrame, DataFrame, str], DataFrame]


def run(scale: float = 1.0, turns: int = 3, cases: list[Case] | None = None) -> dict[str, Any]:
    """All cases at this share of the full size; the shortest of `turns` runs counts."""
    with tempfile.TemporaryDirectory(prefix="unskew-split-", ignore_cleanup_errors=True) as temporary:
        folder = Path(temporary)
        (folder / "events").mkdir()
        spark = session(False, folder / "events")
        log = Log(spark, folder / "events")
        try:
            return {
                case.name: _case(spark, log, folder / f"case-{number}", case, scale, turns)
                for number, case in enumerate(cases or CASES)
            }
        finally:
            spark.stop()


def _case(
    spark: SparkSession, log: Log, folder: Path, case: Case, scale: float, turns: int
) -> dict[str, Any]:
    left, right = _inputs(spark, folder, case, scale)
    profiles: dict[str, Any] = {}
    with settings(spark, _SHUFFLED):
        answer = Rows.of(left.join(right, "k", case.how), {})
        for profile, slots in (("two cores", None), ("many partitions", MANY)):
            figures: dict[str, Any] = {}
            for name, (join, more) in _contenders(case, slots).items():
                partitions = {"spark.sql.shuffle.partitions": str(slots or FEW)}
                with settings(spark, {**more, **partitions}):
                    same = Rows.of(join(left, right, case.how), {}).equals(answer)
                    runs = [
                        measured(log, lambda join=join: _write(join(left, right, case.how)), "Join")
                        for _ in range(turns)
                    ]
                best = min(runs, key=lambda each: each.seconds)
                figures[name] = {**best.record(), "same_rows": same}
            plain = figures["spark"]["shuffled_records"]
            for contender in figures.values():
                contender["copied_rows"] = contender["shuffled_records"] - plain
            profiles[profile] = figures
    return profiles


def _contenders(case: Case, slots: int | None) -> dict[str, tuple[Joined, Mapping[str, str]]]:
    """Name → the join, and Spark's settings for it. Salting cannot keep the unmatched rows of both sides."""

    def ours(**options: Any) -> Joined:
        return lambda left, right, how: unskew.join(left, right, "k", how, slots=slots, **options)

    contenders: dict[str, tuple[Joined, Mapping[str, str]]] = {
        "spark": (lambda left, right, how: left.join(right, "k", how), {}),
        "aqe lowered": (lambda left, right, how: left.join(right, "k", how), _LOWERED),
    }
    if case.how != "full":
        contenders |= {
            "salted": (lambda left, right, how: _salted(left, right, how, only_hot=False), {}),
            "salted hot": (lambda left, right, how: _salted(left, right, how, only_hot=True), {}),
        }
    return contenders | {
        "unskew whole": (ours(planner="keel"), {}),
        "unskew split": (ours(planner="split"), {}),
        "unskew": (ours(), {}),
    }


def _salted(left: DataFrame, right: DataFrame, how: str, *, only_hot: bool) -> DataFrame:
    """Salted by hand, as it is usually done; the hot key is known beforehand."""
    is_hot = F.col("k") == "hot" if only_hot else F.lit(True)
    salt = F.when(is_hot, F.pmod(F.xxhash64("v"), F.lit(SALTS)).cast("int")).otherwise(0)
    all_salts = F.when(is_hot, F.sequence(F.lit(0), F.lit(SALTS - 1))).otherwise(F.array(F.lit(0)))
    salted = left.withColumn("salt", salt)
    copied = right.withColumn("salt", F.explode(all_salts))
    return salted.join(copied, ["k", "salt"], how).drop("salt")


def _inputs(spark: SparkSession, folder: Path, case: Case, scale: float) -> tuple[DataFrame, DataFrame]:
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


def _write(df: DataFrame) -> None:
    df.write.format("noop").mode("overwrite").save()
