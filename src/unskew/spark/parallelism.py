"""How many tasks Spark may run at once, and how many slots and buckets a plan gets if nobody says."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from unskew.core.histogram import DEFAULT_BUCKETS
from unskew.spark.settings import (
    DEFAULT_PARTITIONS,
    parsed_bytes,
    setting,
    shuffle_partitions,
    whole_number,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SLOTS_PER_CORE = 3
"""The KIP paper finds 2-3 slots per core best under a balanced table."""

BUCKETS_PER_SLOT = 2
"""The fewest. Up to 1365 slots the default number of buckets gives three and more, which balance better."""

MOST_SLOTS = DEFAULT_BUCKETS // SLOTS_PER_CORE
"""Above this a core gets one slot: a table that describes more buckets would cost more than it gains."""

_BYTES_PER_SLOT = 256 << 20
"""A slot larger than this would spill: more data gets more slots."""

_BYTES_WORTH_A_SLOT = 8 << 20
"""Less data does not get a slot of its own as long as every core has one: each slot is a task, which takes time."""


_ADVISED, _SMALLEST = 64 << 20, 1 << 20
"""AQE's defaults: it merges partitions up to so many bytes, and never leaves them smaller than that."""


@dataclass(frozen=True)
class PlainShuffle:
    """A shuffle of Spark's own: its partitions, and up to which share of all bytes AQE merges neighbours; 0 if not."""

    partitions: int
    merged_share: float

    @classmethod
    def of(cls, spark: SparkSession, size: float = 0.0) -> PlainShuffle:
        """That of this session, for so many bytes; 0 if nobody knows."""
        partitions = whole_number(first_partitions(spark)[1], DEFAULT_PARTITIONS)
        if not merges_partitions(spark):
            return cls(partitions, 0.0)
        rules = "spark.sql.adaptive.coalescePartitions"
        parallel = setting(spark, f"{rules}.parallelismFirst") != "false"
        fewest = (cores_of(spark) or partitions) if parallel else 1
        share = 1 / max(whole_number(setting(spark, f"{rules}.minPartitionNum"), fewest), 1)
        if size:
            advised = parsed_bytes(
                setting(spark, "spark.sql.adaptive.advisoryPartitionSizeInBytes"), _ADVISED
            )
            smallest = parsed_bytes(setting(spark, f"{rules}.minPartitionSize"), _SMALLEST)
            share = max(min(share, advised / size), smallest / size)
        return cls(partitions, min(share, 1.0))


def cores_of(spark: SparkSession) -> int | None:
    """How many tasks Spark runs at once, as far as this client can know; with dynamic allocation, may run at once."""
    now: int | None
    try:
        now = int(spark.sparkContext.defaultParallelism)
    except PySparkException:
        now = _configured_cores(spark)  # Spark Connect has no SparkContext, but shows the server's settings
    most = _dynamic_cores(spark)
    return max(now or 0, most or 0) or None


def default_slots(spark: SparkSession, size: float = 0.0) -> int:
    """The slots of a plan for which no number was given.

    `spark.sql.shuffle.partitions` if the user has set it. Else three per core, or one where there are very many cores;
    never fewer than the data needs; and Spark's own number for a shuffle if the cores are unknown or may grow without
    limit. Little data (`size` in bytes, 0 if unknown) gets fewer, one or two per core: where the user has set the
    partitions, only if Spark may merge small ones as well.
    """
    partitions = shuffle_partitions(spark)
    cores = cores_of(spark)
    # Spark multiplies the sizes of joined inputs, up to infinity
    worth = _filled(int(min(size / _BYTES_WORTH_A_SLOT, 1 << 31)) + 1, cores or 1) if size else MOST_SLOTS
    if partitions != DEFAULT_PARTITIONS:
        fewer = cores is not None and size and merges_partitions(spark)
        return max(min(partitions, max(2, worth)) if fewer else partitions, 1)
    slots = partitions if cores is None else max(2, cores, min(SLOTS_PER_CORE * cores, MOST_SLOTS, worth))
    if _grows_without_limit(spark):
        slots = max(slots, partitions)
    needed = int(min(size / _BYTES_PER_SLOT, MOST_SLOTS))
    return max(slots, needed)


def _filled(slots: int, cores: int) -> int:
    """The next multiple of the cores: of three equal slots on two cores, the last would run alone.

    >>> _filled(1, 2), _filled(3, 2), _filled(4, 2)
    (2, 4, 4)
    """
    return -(-slots // cores) * cores


def first_partitions(spark: SparkSession, *, streaming: bool = False) -> tuple[str, str]:
    """The setting that gives the number of partitions of Spark's own shuffles before AQE merges any, and its value."""
    first = "spark.sql.adaptive.coalescePartitions.initialPartitionNum"
    value = setting(spark, first)
    if value and not streaming and merges_partitions(spark):
        return first, value
    every = "spark.sql.shuffle.partitions"
    return every, setting(spark, every) or str(DEFAULT_PARTITIONS)


def merges_partitions(spark: SparkSession) -> bool:
    """Whether adaptive execution merges small partitions."""
    names = ("spark.sql.adaptive.enabled", "spark.sql.adaptive.coalescePartitions.enabled")
    return all(setting(spark, name) != "false" for name in names)


def buckets_for(slots: int, buckets: int = DEFAULT_BUCKETS) -> int:
    """The number of buckets for that many slots, at least `buckets`.

    >>> buckets_for(6), buckets_for(100_000)
    (4096, 262144)
    """
    return max(buckets, 1 << (BUCKETS_PER_SLOT * slots - 1).bit_length())


def _configured_cores(spark: SparkSession) -> int | None:
    local = re.fullmatch(r"local(?:-cluster)?\[(\d+)(?:,(\d+))?.*\]", setting(spark, "spark.master"))
    if local:
        return int(local[1]) * int(local[2] if local[0].startswith("local-cluster") and local[2] else 1)
    instances = setting(spark, "spark.executor.instances")
    return int(instances) * _executor_cores(spark) if instances.isdigit() else None


def _dynamic_cores(spark: SparkSession) -> int | None:
    if setting(spark, "spark.dynamicAllocation.enabled") != "true":
        return None
    executors = setting(spark, "spark.dynamicAllocation.maxExecutors")
    return (
        int(executors) * _executor_cores(spark) if executors.isdigit() and int(executors) < 1 << 20 else None
    )


def _grows_without_limit(spark: SparkSession) -> bool:
    return setting(spark, "spark.dynamicAllocation.enabled") == "true" and _dynamic_cores(spark) is None


def _executor_cores(spark: SparkSession) -> int:
    cores = setting(spark, "spark.executor.cores")
    return int(cores) if cores.isdigit() else 1
