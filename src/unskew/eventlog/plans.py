"""What the plan of a query says about its shuffles: which operator reads each, and by which key.

Spark writes a query's plan into the log as a tree, and again whenever adaptive execution changes it. Every exchange
has counters for what is read from it, and a finished stage lists the counters that its tasks incremented. That leads
from a stage to its operator; the names of stages do not, since adaptive execution.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Partitioning(StrEnum):
    """How an exchange deals records to tasks."""

    HASH = "hash of the key"
    RANGE = "ranges of a sort order"
    ROUND_ROBIN = "round-robin"
    SINGLE = "all to one task"
    SLOT = "given slot"
    OTHER = "unknown"


@dataclass(frozen=True)
class Shuffle:
    """A shuffle that a stage reads.

    `operator` is Spark's name of the operator that needed it, empty for a plain repartition; `split_by_spark` says
    that adaptive execution has split skewed partitions of it.
    """

    operator: str
    partitioning: Partitioning
    key: tuple[str, ...] = ()
    split_by_spark: bool = False

    def __str__(self) -> str:
        by = f" by {', '.join(self.key)}" if self.key else ""
        return (self.operator or "repartition") + by


GROUPS = ("FlatMapGroupsInPandas", "FlatMapGroupsInArrow")
COGROUPS = ("FlatMapCoGroupsInPandas", "FlatMapCoGroupsInArrow")
JOINS = ("SortMergeJoin", "ShuffledHashJoin")
WINDOWS = ("Window", "WindowInPandas", "ArrowWindowPython", "WindowGroupLimit")
AGGREGATES = (
    "HashAggregate",
    "ObjectHashAggregate",
    "SortAggregate",
    "AggregateInPandas",
    "ArrowAggregatePython",
)
STATEFUL = (
    "StateStoreSave",
    "FlatMapGroupsWithState",
    "FlatMapGroupsInPandasWithState",
    "TransformWithState",
    "TransformWithStateInPandas",
    "TransformWithStateInPySpark",
)
_OPERATORS = frozenset(GROUPS + COGROUPS + JOINS + WINDOWS + AGGREGATES + STATEFUL)

_KINDS = {
    "hashpartitioning": Partitioning.HASH,
    "rangepartitioning": Partitioning.RANGE,
    "roundrobinpartitioning": Partitioning.ROUND_ROBIN,
    "singlepartition": Partitioning.SINGLE,
    "shufflepartitionidpassthrough": Partitioning.SLOT,
}
_READ = " read"
"""How the names of counters end that the reading stage increments: "records read", "local bytes read" and so on."""


def shuffles(plan: Mapping[str, Any]) -> dict[int, Shuffle]:
    """The shuffles of a plan (`sparkPlanInfo` of an event), by the numbers of their read counters."""
    by_counter: dict[int, Shuffle] = {}
    waiting: list[tuple[Mapping[str, Any], str, bool]] = [(plan, "", False)]
    while waiting:
        node, operator, split = waiting.pop()
        name = str(node.get("nodeName", "")).partition("(")[0].strip()
        text = str(node.get("simpleString", ""))
        if name == "Exchange":
            shuffle = _shuffle(text, operator, split)
            counters = (metric for metric in node.get("metrics", ()) if metric["name"].endswith(_READ))
            by_counter.update((metric["accumulatorId"], shuffle) for metric in counters)
            operator, split = "", False
        elif name in _OPERATORS:
            operator = name
        elif name == "AQEShuffleRead":
            split = "skewed" in text
        waiting += [(child, operator, split) for child in node.get("children", ())]
    return by_counter


def _shuffle(text: str, operator: str, split: bool) -> Shuffle:
    kind = re.match(r"Exchange (\w+)", text)
    partitioning = _KINDS.get(kind[1].lower(), Partitioning.OTHER) if kind else Partitioning.OTHER
    key = key_names(text) if partitioning is Partitioning.HASH else ()
    return Shuffle(operator, partitioning, key, split)


def key_names(text: str) -> tuple[str, ...]:
    """The key columns in an exchange's text, without the numbers that Spark adds to names.

    >>> key_names("Exchange hashpartitioning(user#15L, coalesce(day#2, 0), 8), ENSURE_REQUIREMENTS, [plan_id=1]")
    ('user', 'coalesce(day, 0)')
    """
    match = re.search(r"hashpartitioning\((.*), \d+\)", text)
    if not match:
        return ()
    parts, depth = [""], 0
    for letter in re.sub(r"#\d+L?", "", match[1]):
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return tuple(part.strip() for part in parts)
