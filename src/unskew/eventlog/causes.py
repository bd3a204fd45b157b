"""Why the tasks of a stage took unequal time, as far as the log tells, and what would help.

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
    """Whether unskew could help, and what to do in any case."""

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
    if cause not in _PLACED:
        return Advice(False, _OTHERWISE[cause])
    if shuffle is None:
        return Advice(False, _WITHOUT_KEY[cause])
    if shuffle.partitioning is not Partitioning.HASH:
        return Advice(False, _NOT_HASHED[shuffle.partitioning])
    call = _call(shuffle)
    if cause is Cause.WORK:
        return Advice(
            True, f"Records are even, their cost is not: {call} with weight= a column of that cost."
        )
    if cause is Cause.FEW:
        return Advice(
            True,
            f"Fewer tasks than cores: {call} with slots=, or raise spark.sql.shuffle.partitions; adaptive execution "
            "merges small partitions up to spark.sql.adaptive.coalescePartitions.minPartitionSize.",
        )
    split = (
        " Spark's skew join is already in force here; unskew would stand in for it." * shuffle.split_by_spark
    )
    return Advice(True, f"Use {call}.{split}")


def _over_mean(stage: Stage, amount: Callable[[Task], float]) -> float:
    """How much more than the mean the longest task had of something, in means."""
    usual = mean(map(amount, stage.tasks))
    return amount(stage.longest) / usual - 1 if usual else 0.0


def _slow_node(stage: Stage) -> bool:
    """Whether tasks took half as long again on the longest task's host as elsewhere."""
    here = [task.seconds for task in stage.tasks if task.host == stage.longest.host]
    elsewhere = [task.seconds for task in stage.tasks if task.host != stage.longest.host]
    return min(len(here), len(elsewhere)) >= 2 and median(here) >= 1.5 * median(elsewhere)


def _call(shuffle: Shuffle) -> str:
    """The call of unskew's that would stand in for the operator."""
    names = [f'"{name}"' for name in shuffle.key]
    key, several = ", ".join(names), f"[{', '.join(names)}]"
    one = several if len(names) > 1 else key
    match shuffle.operator:
        case operator if operator in GROUPS:
            return f"unskew.groupBy(df, {key}).applyIn{operator.rpartition('In')[2]}(…)"
        case operator if operator in COGROUPS:
            return f"unskew.groupBy(left, {key}).cogroup(unskew.groupBy(right, …))"
        case operator if operator in JOINS:
            return f"unskew.join(left, right, on={one})"
        case operator if operator in WINDOWS:
            return f"unskew.window(df, {key})"
        case operator if operator in AGGREGATES:
            return f"unskew.groupBy(df, {key}).agg(…)"
        case operator if operator in STATEFUL:
            return f"unskew.stream(df, key={one})"
    return f"df.transform(unskew.plan(unskew.measure(df, {one}), slots=…).apply)"


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

_PLACED = frozenset({Cause.DATA, Cause.WORK, Cause.FEW})
"""Causes that another placement of keys could remove."""

_OTHERWISE = {
    Cause.INPUT: "The files or splits that tasks read differ in size: write files of similar size, or lower "
    "spark.sql.files.maxPartitionBytes.",
    Cause.NODE: "Tasks are slow on one host whatever they do: look at that machine.",
    Cause.STARTING: "The task waited for a Python worker to start, which is paid once an executor, whatever the data.",
    Cause.COLLECTING: "The task waited for the JVM's memory: give executors more, or run fewer tasks in each.",
    Cause.SPILL: "The task ran out of memory and wrote to disk: give executors more memory, or use more partitions.",
    Cause.FETCHING: "The task waited for shuffle blocks: look at the network, and at the disks of the other hosts.",
    Cause.SCHEDULING: "The task waited to be started, unpacked or collected: look at the driver, and at large closures "
    "and results.",
}

_WITHOUT_KEY = {
    Cause.DATA: "No SQL plan in the log names the key of this shuffle (an RDD job?): unskew works on DataFrames.",
    Cause.WORK: "The stage reads no shuffle, so no key decides where records go: split the input more finely.",
    Cause.FEW: "Fewer tasks than cores: split the input more finely.",
}

_NOT_HASHED = {
    Partitioning.RANGE: "The records are sorted, and sorted ranges must stay whole: sort by more columns.",
    Partitioning.ROUND_ROBIN: "The records were dealt in turn, so no key decides where they go.",
    Partitioning.SINGLE: "The operator needs all records in one task: give it a key to group or window by.",
    Partitioning.SLOT: "The records were placed on purpose already, by unskew or repartitionById: plan anew, with "
    "weight= where records differ in cost.",
    Partitioning.OTHER: "The log does not say how these records were dealt to tasks.",
}
