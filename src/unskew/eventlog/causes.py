"""Why the tasks of a stage took unequal time, as far as the log shows, and what would help.

A cause counts if it explains at least half of what the longest task took beyond the mean. Data comes
first: a task with more records also collects more garbage, spills more and waits longer for its blocks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import mean, median

from unskew.core.text_enum import TextEnum
from unskew.eventlog.plans import (
    AGGREGATES,
    COGROUPS,
    GROUPS,
    JOINS,
    STATEFUL,
    WINDOWS,
    Partitioning,
    Shuffle,
)
from unskew.eventlog.stages import Stage, Task

BROADCAST = 32 * 2**20
"""Bytes, as Spark counts rows in a shuffle: a side this small may be sent to every executor."""

TINY_ROWS = 10_000
"""Groups of fewer rows in all do not matter, however small they are."""


LEAST_SPILL = 64 * 2**20
"""Bytes, as they were in memory: a stage whose tasks spilled this much waited for disks."""


class Cause(TextEnum):
    """What made tasks unequal."""

    DATA = "data skew"
    WORK = "uneven work"
    FEW = "few tasks"
    INPUT = "uneven input"
    NODE = "slow node"
    STARTING = "Python start-up"
    COLLECTING = "garbage collection"
    SPILL = "spill"
    FETCHING = "slow fetch"
    SCHEDULING = "scheduling"
    TINY = "many tiny groups"


@dataclass(frozen=True)
class Advice:
    """Whether unskew could help, and what to do either way."""

    fixable: bool
    text: str


def cause_of(stage: Stage) -> Cause:
    """The cause that explains the longest task best; `WORK` if nothing in the log does."""
    excess = stage.longest.seconds / float(stage.seconds.mean()) - 1
    for cause, amounts in _AMOUNTS.items():
        if any(_over_mean(stage, amount) >= excess / 2 for amount in amounts):
            return cause
    if _slow_node(stage):
        return Cause.NODE
    beyond = stage.longest.seconds - float(stage.seconds.mean())
    for cause, part in _PARTS.items():
        if part(stage.longest) - mean(map(part, stage.tasks)) >= beyond / 2:
            return cause
    spilled = sum(task.spilled for task in stage.tasks)
    spills = spilled >= LEAST_SPILL or _over_mean(stage, lambda task: task.spilled) >= 1
    return Cause.SPILL if spills else Cause.WORK


def has_tiny_groups(stage: Stage) -> bool:
    """Whether a function got its rows in so many groups that wrapping them up was most of what was sent to Python.

    A row takes less in Arrow than in a shuffle, unless few rows share the hundred bytes that every group costs.
    """
    shuffle = stage.shuffle
    return (
        shuffle is not None
        and shuffle.operator in GROUPS
        and shuffle.size is not None
        and sum(task.shuffle_records for task in stage.tasks) >= TINY_ROWS
        and stage.sent > shuffle.size
    )


def advise(cause: Cause, shuffle: Shuffle | None, source: str = "") -> Advice:
    """What to do about a stage that reads `shuffle`, in a query that reads from `source` (`source_kind`)."""
    if cause is Cause.INPUT and source in _SOURCES:
        return Advice(False, _SOURCES[source])
    if cause is Cause.SPILL:
        return Advice(False, _NOT_FOR_UNSKEW[cause])
    if cause not in _BY_PLACEMENT:
        return Advice(False, _NOT_FOR_UNSKEW[cause])
    if shuffle is None:
        return Advice(False, _WITHOUT_KEY[cause])
    if shuffle.partitioning is not Partitioning.HASH:
        return Advice(False, _NOT_HASHED[shuffle.partitioning])
    call = _call(shuffle)
    if cause is Cause.WORK:
        return Advice(
            True,
            f"Records are even but their cost is not: use {call} with weight= a column that holds the cost.",
        )
    if cause is Cause.FEW:
        return Advice(
            True,
            f"Fewer tasks than cores: use {call} with slots=, or raise spark.sql.shuffle.partitions; adaptive "
            "execution merges small partitions up to spark.sql.adaptive.coalescePartitions.minPartitionSize.",
        )
    if cause is Cause.TINY:
        return Advice(
            True,
            f"The function gets many groups of a few rows: use {call}, which sends all groups of a task in one stream; "
            "where an aggregate or an expression can say it, that is faster still.",
        )
    return Advice(True, _about_skew(shuffle, call))


def _about_skew(shuffle: Shuffle, call: str) -> str:
    """What to do about a hot key: where Spark alone is enough, that comes first."""
    if shuffle.keeps_first:
        columns = ", ".join(f'"{name}"' for name in shuffle.key)
        return (
            f"Only the first row of every key is kept: use unskew.latest(df, {columns}, orderBy=…), or max_by in an "
            "aggregate: each task then sends one row per key."
        )
    if shuffle.operator not in JOINS:
        return f"Use {call}."
    if shuffle.split_by_spark:
        return f"Use {call}. Spark's own skew join is already at work here; unskew would replace it."
    if _can_broadcast(shuffle):
        size = (shuffle.other_size or 0) / 1e6
        return (
            f"The other side is small ({size:,.1f} MB): broadcast it, with F.broadcast(…) or a higher "
            f"spark.sql.autoBroadcastJoinThreshold, and no row is shuffled. Else use {call}."
        )
    texts = []
    if set(shuffle.key) < set(shuffle.compared):
        texts.append(
            f"The join compares {', '.join(shuffle.compared)}, but rows are placed by {', '.join(shuffle.key)} only: "
            "place them by all columns before anything is salted."
        )
    if shuffle.how in _KEEPS_NULLS and _KEEPS_NULLS[shuffle.how](shuffle.is_left):
        texts.append(
            "If the hot key is null (count the rows where it is), set "
            f"spark.sql.shuffle.spreadNullJoinKeys.enabled=true (Spark 4.3) or use {call}: null matches nothing, so "
            "its rows may go anywhere. Another hot key: the same call."
        )
    else:
        texts.append(f"Use {call}.")
    if len(shuffle.compared) > 1:
        texts.append("Salting by hand helps only if all these columns are skewed together.")
    return " ".join(texts)


def _can_broadcast(shuffle: Shuffle) -> bool:
    """Whether the other side is small and may be sent to every task: never the side whose rows are all kept."""
    if shuffle.other_size is None or shuffle.other_size > BROADCAST:
        return False
    if shuffle.how in ("Inner", "InnerLike", "Cross"):
        return True
    return shuffle.how == "RightOuter" if not shuffle.is_left else shuffle.how in _RIGHT_MAY_BE_SENT


def _over_mean(stage: Stage, amount: Callable[[Task], float]) -> float:
    """How much more than the mean the longest task had of something, in means."""
    average = mean(map(amount, stage.tasks))
    return amount(stage.longest) / average - 1 if average else 0.0


def _slow_node(stage: Stage) -> bool:
    """Whether tasks took at least 1.5 times as long on the longest task's host as elsewhere."""
    on_host = [task.seconds for task in stage.tasks if task.host == stage.longest.host]
    elsewhere = [task.seconds for task in stage.tasks if task.host != stage.longest.host]
    return min(len(on_host), len(elsewhere)) >= 2 and median(on_host) >= 1.5 * median(elsewhere)


def _call(shuffle: Shuffle) -> str:
    """The unskew call that would replace the operator."""
    names = [f'"{name}"' for name in shuffle.key]
    columns = ", ".join(names)
    key = f"[{columns}]" if len(names) > 1 else columns
    match shuffle.operator:
        case operator if operator in GROUPS:
            return f"unskew.groupBy(df, {columns}).applyIn{operator.rpartition('In')[2]}(…)"
        case operator if operator in COGROUPS:
            return f"unskew.groupBy(left, {columns}).cogroup(unskew.groupBy(right, …))"
        case operator if operator in JOINS:
            return f"unskew.join(left, right, on={key})"
        case operator if operator in WINDOWS:
            return f"unskew.window(df, {columns})"
        case operator if operator in AGGREGATES:
            return f"unskew.groupBy(df, {columns}).agg(…)"
        case operator if operator in STATEFUL:
            return f"unskew.stream(df, key={key})"
    return f"df.transform(unskew.plan(unskew.measure(df, {key}), slots=…).apply)"


_AMOUNTS: dict[Cause, tuple[Callable[[Task], float], ...]] = {
    Cause.DATA: (lambda task: task.shuffle_records, lambda task: task.shuffle_bytes),
    Cause.INPUT: (lambda task: task.input_records, lambda task: task.input_bytes),
}

_PARTS: dict[Cause, Callable[[Task], float]] = {
    Cause.STARTING: lambda task: task.starting,
    Cause.COLLECTING: lambda task: task.collecting,
    Cause.FETCHING: lambda task: task.fetching,
    Cause.SCHEDULING: lambda task: task.seconds - task.run,
}

_BY_PLACEMENT = frozenset({Cause.DATA, Cause.WORK, Cause.FEW, Cause.TINY})
"""Causes that another placement of keys, or another way to call the function, could remove."""

_KEEPS_NULLS: dict[str, Callable[[bool], bool]] = {
    "LeftOuter": lambda is_left: is_left,
    "RightOuter": lambda is_left: not is_left,
    "FullOuter": lambda _: True,
}
"""The joins whose rows with a null key Spark can spread, and on which side; inner joins drop them beforehand."""

_RIGHT_MAY_BE_SENT = ("LeftOuter", "LeftSemi", "LeftAnti", "ExistenceJoin")

_SOURCES = {
    "kafka": "Kafka's partitions differ in length: set maxRecordsPerPartition (or minPartitions) on the source, so "
    "that a long one is read by several tasks.",
    "bucketed": "A bucket of the table holds far more rows than the others, and the join reads bucket by bucket: set "
    "spark.sql.sources.bucketing.enabled=false for this query, then use unskew.join.",
    "grouped": "A partition of the table holds far more rows than the others, and the join reads partition by "
    "partition: set spark.sql.sources.v2.bucketing.partiallyClusteredDistribution.enabled=true (and "
    "pushPartValues.enabled), so that Spark splits it and repeats the other side.",
}
"""What to do about input that Spark reads as the storage has dealt it."""

_NOT_FOR_UNSKEW = {
    Cause.INPUT: "The files or splits that tasks read differ in size, so no key is to blame: lower "
    "spark.sql.files.maxPartitionBytes, or write files of similar size (one that cannot be split, such as gzip, stays "
    "in one task).",
    Cause.NODE: "Tasks on one host are slow: check that machine.",
    Cause.STARTING: "The task waited for a Python worker to start: once per executor, whatever the data is like.",
    Cause.COLLECTING: "The task waited for garbage collection: give executors more memory, or run fewer tasks in each.",
    Cause.SPILL: "The tasks ran out of memory and wrote to disk, and no key is to blame: give executors more memory, "
    "or use more partitions (spark.sql.shuffle.partitions).",
    Cause.FETCHING: "The task waited for shuffle blocks: check the network, and the disks of the other hosts.",
    Cause.SCHEDULING: "The task waited to be launched or unpacked, or for its result to be fetched: check the driver, "
    "and look for large closures and results.",
}

_WITHOUT_KEY = {
    Cause.DATA: "No SQL plan in the log names the key of this shuffle (an RDD job?): unskew works on DataFrames.",
    Cause.WORK: "The stage reads no shuffle, so no key decides where records go: split the input more finely.",
    Cause.FEW: "Fewer tasks than cores: split the input more finely.",
    Cause.TINY: "The function gets many groups of a few rows.",
}

_NOT_HASHED = {
    Partitioning.RANGE: "The records are sorted, and sorted ranges must stay whole: sort by more columns.",
    Partitioning.ROUND_ROBIN: "The records were dealt round-robin, so no key decides where they go.",
    Partitioning.SINGLE: "The operator needs all records in one task: give it a key to group or window by.",
    Partitioning.SLOT: "The records were already placed on purpose, by unskew or repartitionById: make a new plan, "
    "with weight= where records differ in cost.",
    Partitioning.OTHER: "The log does not say how these records were dealt to tasks.",
}
