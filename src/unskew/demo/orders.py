"""The demo's first act: a join with one hot key, after which every row waits for a look-up, as a fraud check would."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unskew.demo.runs import PLAIN, TUNED, UNSKEW, Outcome, Way, compare

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = "shop string, number long, country string"
HOT = "shop-000000"
SHUFFLED = {"spark.sql.autoBroadcastJoinThreshold": "-1"}
PROFILE = 12
"""Hashes in the profile of a shop, which do not compress: so many bytes that Spark does not merge all partitions."""


@dataclass(frozen=True)
class Orders:
    """How large the join is, and how skewed."""

    orders: int = 40_000
    shops: int = 10_000
    share: float = 0.7
    wait: float = 0.00022
    cores: int = 8


def run(spark: SparkSession, orders: Orders, step: Callable[[str], None] = lambda _: None) -> Outcome:
    """The join in three ways."""
    import unskew

    left, right = _orders(spark, orders), _shops(spark, orders)
    # the Python workers start before anything is timed
    few = left.limit(orders.cores).repartition(orders.cores)
    few.mapInPandas(_check(0.0), "shop string, number long").toArrow()
    tuned = {
        **SHUFFLED,
        "spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes": "100k",
        "spark.sql.adaptive.skewJoin.skewedPartitionFactor": "2",
        "spark.sql.shuffle.partitions": str(3 * orders.cores),
        "spark.sql.adaptive.coalescePartitions.enabled": "false",
    }
    ways = [
        Way(PLAIN, lambda: _checked(left.join(right, "shop"), orders), SHUFFLED),
        Way(TUNED, lambda: _checked(_salted(left, right, orders.cores), orders), tuned),
        Way(
            UNSKEW,
            lambda: _checked(unskew.join(left, right, on="shop", planner="split"), orders),
            SHUFFLED,
        ),
    ]
    text = (
        f"{orders.orders:,} orders joined with {orders.shops:,} shops, then {1000 * orders.wait:g} ms per row, on "
        f"{orders.cores} cores; one shop has {orders.share:.0%} of the orders. Tuned: the hot shop salted by hand, "
        "AQE's thresholds lowered. No side is broadcast in any of them, as with tables of real size. "
        'unskew: join(…, planner="split").'
    )
    return Outcome("A join with one hot key", text, orders.cores, compare(spark, ways, step))


def _salted(left: DataFrame, right: DataFrame, salts: int) -> DataFrame:
    """The join as an expert writes it who knows the hot key: its orders get a salt, and its shop one row per salt."""
    from pyspark.sql import functions as F

    is_hot = F.col("shop") == HOT
    salted = left.withColumn("salt", F.when(is_hot, F.col("number") % salts).otherwise(0))
    zero, last = F.lit(0).cast("long"), F.lit(salts - 1).cast("long")
    copied = right.withColumn(
        "salt", F.explode(F.when(is_hot, F.sequence(zero, last)).otherwise(F.array(zero)))
    )
    return salted.join(copied, ["shop", "salt"]).drop("salt")


def _checked(joined: DataFrame, orders: Orders) -> DataFrame:
    """Every joined row waits; what is left of them is a few figures, by which results are compared."""
    from pyspark.sql import functions as F

    rows = joined.mapInPandas(_check(orders.wait), SCHEMA)
    return rows.agg(F.count("*"), F.sum("number"), F.sum(F.xxhash64("shop", "number", "country") % 1000))


def _check(wait: float) -> Callable[[Iterator[Any]], Iterator[Any]]:
    def check(batches: Iterator[Any]) -> Iterator[Any]:
        import time

        for rows in batches:
            time.sleep(wait * len(rows))
            yield rows[[name for name in ("shop", "number", "country") if name in rows]]

    return check


def _orders(spark: SparkSession, orders: Orders) -> DataFrame:
    from pyspark.sql import functions as F

    # drawn by hashes, so that the rows are the same whenever they are computed
    is_hot = F.pmod(F.xxhash64("id"), F.lit(1000)) < int(1000 * orders.share)
    cold = F.pmod(F.xxhash64("id", F.lit(1)), F.lit(orders.shops - 1)) + 1
    shop = F.format_string("shop-%06d", F.when(is_hot, 0).otherwise(cold)).alias("shop")
    return spark.range(orders.orders).select(shop, F.col("id").alias("number"))


def _shops(spark: SparkSession, orders: Orders) -> DataFrame:
    from pyspark.sql import functions as F

    name = F.format_string("shop-%06d", "id").alias("shop")
    country = F.concat(F.lit("country "), F.col("id") % 50).alias("country")
    profile = F.concat(*(F.sha2(F.concat_ws(" ", "id", F.lit(i)), 512) for i in range(PROFILE)))
    return spark.range(orders.shops).select(name, country, profile.alias("profile"))
