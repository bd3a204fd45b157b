"""Whether a measured join should be routed: not where AQE splits the skew itself, nor where it would take as long."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from unskew.core.histogram import Histogram
from unskew.core.join_load import JoinLoad, JoinType
from unskew.core.plan import Plan
from unskew.core.planners.auto import expected_time
from unskew.core.splitting.join_choice import routed_time
from unskew.spark.explained import Explained
from unskew.spark.keys import KeyColumns
from unskew.spark.parallelism import PlainShuffle
from unskew.spark.settings import parsed_bytes, setting, shuffle_partitions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROUTED_COST = 1.3
"""What a routed join must win back: the measuring pass, and a slot to compute, shuffle and compare (1.1 × the time)."""

ROUTED_COST_OF_NUMBERS = 1.9
"""The same where the key is one number: Spark sorts those by radix, but not together with a slot (1.8 × the time)."""

SPLIT_COST = 1.05
"""What splitting costs beyond that: rows are dealt out, and those of a copied side exploded."""

_THRESHOLD, _FACTOR = 256 << 20, 5.0


def worth_routing(plan: Plan, load: JoinLoad, cores: int, keys: KeyColumns, plain: PlainShuffle) -> bool:
    """Whether the plan is predicted to be faster than hash partitioning by more than routing costs.

    Both are times on the cores there are, where tasks start in order; hashing is the mean over random hashes.
    """
    if not load.total:
        return False
    width = min(cores, plan.slots)
    ours = routed_time(plan.loads + load.spread / plan.slots, load, width, whole_cost(keys.type))
    hashed = expected_time(load.hashed, plain.partitions, cores, merged_share=plain.merged_share)
    # in units of even work on `width` and on `min(cores, partitions)` cores
    return hashed * width / min(cores, plain.partitions) > ours


def whole_cost(key_type: pa.DataType) -> float:
    """What a join by slot takes, measuring included, in times of what its tasks would take without a slot."""
    return ROUTED_COST_OF_NUMBERS if _sorted_by_radix(key_type) else ROUTED_COST


def split_cost(key_type: pa.DataType) -> float:
    """The same where keys are split."""
    return whole_cost(key_type) * SPLIT_COST


def splits_skew(
    explanation: Explained, sides: tuple[Histogram, Histogram], kind: JoinType, spark: SparkSession
) -> bool:
    """Whether AQE would split the partition of the heaviest key, so that it is no bound to plain Spark.

    Its rule: more than 5 times the median partition and more than 256 MB, on a side that the join type lets it split.
    """
    if "false" in (
        setting(spark, "spark.sql.adaptive.enabled"),
        setting(spark, "spark.sql.adaptive.skewJoin.enabled"),
    ):
        return False
    operator = explanation.logical.below(("Project", "Filter"))
    if len(operator.children) != 2:
        return False
    rules = "spark.sql.adaptive.skewJoin.skewedPartition"
    threshold = parsed_bytes(setting(spark, f"{rules}ThresholdInBytes"), _THRESHOLD)
    factor = float(setting(spark, f"{rules}Factor") or _FACTOR)
    splittable = (kind in ("inner", "left", "semi", "anti"), kind in ("inner", "right"))
    for node, side, may_split in zip(operator.children, sides, splittable, strict=True):
        if not may_split or node.bytes is None or not side.records:
            continue
        heaviest = float(side.tracked.counts.max(initial=0.0)) / side.records
        median = node.bytes * (1 - heaviest) / shuffle_partitions(spark)
        if node.bytes * heaviest > max(threshold, factor * median):
            return True
    return False


def _sorted_by_radix(key_type: pa.DataType) -> bool:
    """Whether Spark's sort needs only eight bytes of a key of this type."""
    of_words = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_temporal)
    return any(is_word(key_type) for is_word in of_words)
