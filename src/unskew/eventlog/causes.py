"""Why the tasks of a stage took unequal time, as far as the log shows, and what would help.

A cause counts if it explains at least half of what the longest task took beyond the mean. Data comes
first: a task with more records also collects more garbage, spills more and waits longer for its blocks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from statistics import mean, median

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


class Cause(StrEnum):
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
    return Cause.SPILL if _over_mean(stage, lambda task: task.spilled) >= 1 else Cause.WORK


def advise(cause: Cause, shuffle: Shuffle | None) -> Advice:
    """What to do about a stage that reads `shuffle`."""
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
    skew_join = " Spark's own skew join is already at work here; unskew would replace it."
    return Advice(True, f"Use {call}.{skew_join * shuffle.split_by_spark}")


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

_BY_PLACEMENT = frozenset({Cause.DATA, Cause.WORK, Cause.FEW})
"""Causes that another placement of keys could remove."""

_NOT_FOR_UNSKEW = {
    Cause.INPUT: "The files or splits that tasks read differ in size: write files of similar size, or lower "
    "spark.sql.files.maxPartitionBytes.",
    Cause.NODE: "Tasks on one host are slow: check that machine.",
    Cause.STARTING: "The task waited for a Python worker to start: once per executor, whatever the data is like.",
    Cause.COLLECTING: "The task waited for garbage collection: give executors more memory, or run fewer tasks in each.",
    Cause.SPILL: "The task ran out of memory and wrote to disk: give executors more memory, or use more partitions.",
    Cause.FETCHING: "The task waited for shuffle blocks: check the network, and the disks of the other hosts.",
    Cause.SCHEDULING: "The task waited to be launched or unpacked, or for its result to be fetched: check the driver, "
    "and look for large closures and results.",
}

_WITHOUT_KEY = {
    Cause.DATA: "No SQL plan in the log names the key of this shuffle (an RDD job?): unskew works on DataFrames.",
    Cause.WORK: "The stage reads no shuffle, so no key decides where records go: split the input more finely.",
    Cause.FEW: "Fewer tasks than cores: split the input more finely.",
}

_NOT_HASHED = {
    Partitioning.RANGE: "The records are sorted, and sorted ranges must stay whole: sort by more columns.",
    Partitioning.ROUND_ROBIN: "The records were dealt round-robin, so no key decides where they go.",
    Partitioning.SINGLE: "The operator needs all records in one task: give it a key to group or window by.",
    Partitioning.SLOT: "The records were already placed on purpose, by unskew or repartitionById: make a new plan, "
    "with weight= where records differ in cost.",
    Partitioning.OTHER: "The log does not say how these records were dealt to tasks.",
}
