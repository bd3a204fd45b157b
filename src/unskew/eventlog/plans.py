"""What the plan of a query says about its shuffles: which operator reads each, and by which key.

Spark writes a query's plan into the log as a tree, and again whenever adaptive execution changes it. Every exchange
has counters for what is read from it, and a finished stage lists the counters that its tasks incremented. That leads
from a stage to its operator; the names of stages do not, since adaptive execution.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from unskew.core.text_enum import TextEnum

Node: TypeAlias = Mapping[str, Any]
"""A node of a plan as an event holds it, with its children."""


class Partitioning(TextEnum):
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
    that adaptive execution has split skewed partitions of it. For a join, `how` is its type, `compared` are the
    columns it compares and `is_left` says which side this is; `size` is its bytes and `other_size` is the size of the
    other side, if known.
    `keeps_first` says that only the first row of every key is kept (`row_number() = 1`).
    """

    operator: str
    partitioning: Partitioning
    key: tuple[str, ...] = ()
    split_by_spark: bool = False
    how: str = ""
    compared: tuple[str, ...] = ()
    is_left: bool = True
    other_size: int | None = None
    keeps_first: bool = False
    size: int | None = None
    other_counter: int | None = field(default=None, compare=False, repr=False)
    counter: int | None = field(default=None, compare=False, repr=False)

    def sized(self, sizes: Mapping[int, int]) -> Shuffle:
        """With the bytes of both sides, where `sizes` has them by their counters."""
        return replace(
            self,
            size=None if self.counter is None else sizes.get(self.counter),
            other_size=None if self.other_counter is None else sizes.get(self.other_counter),
        )

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
    "nullawarehashpartitioning": Partitioning.HASH,
    "rangepartitioning": Partitioning.RANGE,
    "roundrobinpartitioning": Partitioning.ROUND_ROBIN,
    "singlepartition": Partitioning.SINGLE,
    "shufflepartitionidpassthrough": Partitioning.SLOT,
}
_READ = " read"
"""How the names of counters end that the reading stage increments: "records read", "local bytes read" and so on."""


_SIZE = "data size"
_FIRST_ROW = re.compile(r"row_number\(\), 1\b")
_JOIN = re.compile(r"\w+(?:\(.*?\))? \[(.*?)\], \[(.*?)\], (\w+)")
_SCAN = re.compile(r"Scan |FileScan|BatchScan|MicroBatchScan|\w*Scan\b")


@dataclass(frozen=True)
class _Above:
    """What stands above a node in the plan, up to the next exchange."""

    operator: str = ""
    text: str = ""
    split: bool = False
    is_left: bool = True
    other_counter: int | None = None
    keeps_first: bool = False


def shuffles(plan: Node) -> dict[int, Shuffle]:
    """The shuffles of a plan (`sparkPlanInfo` of an event), by the numbers of their read counters."""
    by_counter: dict[int, Shuffle] = {}
    waiting: list[tuple[Node, _Above]] = [(plan, _Above())]
    while waiting:
        node, above = waiting.pop()
        name = node_name(node)
        text = str(node.get("simpleString", ""))
        if name == "Exchange":
            shuffle = replace(_shuffle(text, above), counter=next(iter(_counters(node, _SIZE)), None))
            by_counter.update((number, shuffle) for number in _counters(node, _READ))
            above = _Above()
        elif name in _OPERATORS:
            first = name == "WindowGroupLimit" and bool(_FIRST_ROW.search(text))
            above = _Above(name, text, keeps_first=first or (above.keeps_first and name in WINDOWS))
        elif name == "AQEShuffleRead":
            above = replace(above, split="skewed" in text)
        children = list(node.get("children", ()))
        if name in JOINS and len(children) == 2:
            sizes = [next(iter(_sizes(child)), None) for child in children]
            waiting += [
                (child, replace(above, is_left=side == 0, other_counter=sizes[1 - side]))
                for side, child in enumerate(children)
            ]
        else:
            waiting += [(child, above) for child in children]
    return by_counter


def source_kind(plan: Node) -> str:
    """What the plan reads, where that matters for advice: `kafka`, `bucketed`, `grouped` by storage, else nothing."""
    waiting, kind = [plan], ""
    while waiting:
        node = waiting.pop()
        text = str(node.get("simpleString", ""))
        if _SCAN.match(node_name(node)):
            if re.search(r"kafka", text, re.IGNORECASE):
                return "kafka"
            if "SelectedBucketsCount" in text or "Bucketed: true" in text:
                kind = "bucketed"
            elif re.search(r"groupedBy=\w", text) or "KeyGroupedPartitioning" in text:
                kind = "grouped"
        waiting += node.get("children", ())
    return kind


def node_name(node: Node) -> str:
    """The operator of a node, without what Spark adds in parentheses."""
    return str(node.get("nodeName", "")).partition("(")[0].strip()


def _counters(node: Node, ending: str) -> list[int]:
    return [metric["accumulatorId"] for metric in node.get("metrics", ()) if metric["name"].endswith(ending)]


def _sizes(plan: Node) -> Iterator[int]:
    """The counters of bytes in the nearest exchanges below."""
    waiting = [plan]
    while waiting:
        node = waiting.pop()
        if node_name(node) == "Exchange":
            yield from _counters(node, _SIZE)
        else:
            waiting += node.get("children", ())


def _shuffle(text: str, above: _Above) -> Shuffle:
    kind = re.match(r"Exchange (\w+)", text)
    partitioning = _KINDS.get(kind[1].lower(), Partitioning.OTHER) if kind else Partitioning.OTHER
    key = key_names(text) if partitioning is Partitioning.HASH else ()
    join = _JOIN.match(_without_numbers(above.text)) if above.operator in JOINS else None
    compared = join[1 if above.is_left else 2] if join else ""
    return Shuffle(
        above.operator,
        partitioning,
        key,
        above.split,
        how=join[3] if join else "",
        compared=_split(compared),
        is_left=above.is_left,
        keeps_first=above.keeps_first,
        other_counter=above.other_counter,
    )


def key_names(text: str) -> tuple[str, ...]:
    """The key columns in an exchange's text, without the numbers that Spark adds to names.

    >>> key_names("Exchange hashpartitioning(user#15L, coalesce(day#2, 0), 8), ENSURE_REQUIREMENTS, [plan_id=1]")
    ('user', 'coalesce(day, 0)')
    """
    match = re.search(r"hashpartitioning\((.*), \d+\)", text)
    if not match:
        return ()
    return _split(_without_numbers(match[1]))


def _without_numbers(text: str) -> str:
    return re.sub(r"#\d+L?", "", text)


def _split(text: str) -> tuple[str, ...]:
    """The expressions of a list, at its commas outside of parentheses."""
    if not text:
        return ()
    parts, depth = [""], 0
    for letter in text:
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return tuple(part.strip() for part in parts)
