"""A plan that one version of Spark made and saved, and the slot of each key: every version routes the keys the same.

    python -m tests.spark.versions.golden_plan

writes both files. They are never written again for the same format: that would prove nothing.
"""

from __future__ import annotations

import json
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import unskew

PLAN = Path(__file__).parent / "golden" / "plan"
ROUTES = PLAN.with_name("routes.json")
KEYS = 300


def keys(spark: SparkSession) -> DataFrame:
    """Keys of two columns, which may be missing or odd; the first few have most of the rows."""
    number = F.col("id")
    odd = F.array(*map(F.lit, ["", "Füße", "日本語", "🙂 '\"\\", "-0.0"]), F.lit(None).cast("string"))
    text = F.when(number % 50 < 6, F.get(odd, (number % 50).cast("int"))).otherwise(
        F.concat(F.lit("k"), number)
    )
    return spark.range(KEYS).select(number, text.alias("a"), (F.lit(KEYS) - number).alias("b"))


def found_routes(spark: SparkSession) -> dict[str, list[int]]:
    """The slots of the keys by the saved plan: as Python computes them, by Spark's column, and by Spark's partition."""
    plan = unskew.load(PLAN)
    assert isinstance(plan, unskew.Plan)
    rows = plan.apply(keys(spark)).withColumn("partition", F.spark_partition_id()).orderBy("id").collect()
    computed = plan.table.slot_of([(row["a"], row["b"]) for row in rows])
    return {
        "Python": computed.tolist(),
        "Spark": [row["slot"] for row in rows],
        "partition": [row["partition"] for row in rows],
    }


def wrong_routes(spark: SparkSession) -> dict[str, int]:
    """How many keys each of the three sends to another slot than the file says."""
    wanted = json.loads(ROUTES.read_text("utf-8"))
    assert len(wanted) == KEYS
    return {
        name: sum(a != b for a, b in zip(slots, wanted, strict=True))
        for name, slots in found_routes(spark).items()
    }


def main() -> None:
    from tests.spark.session import make_session

    spark = make_session()
    rows = keys(spark)
    hot = rows.join(spark.range(40).select(F.col("id").alias("n")), F.col("n") < 40 / (F.col("id") + 1))
    plan = unskew.plan(unskew.measure(hot, ["a", "b"], buckets=64), slots=7)
    PLAN.parent.mkdir(exist_ok=True)
    plan.save(PLAN)
    ROUTES.write_text(json.dumps(found_routes(spark)["Spark"]) + "\n", "utf-8")


if __name__ == "__main__":
    main()
