"""Whether measuring a key can pay at all, judged by what costs nothing: Spark's own plan, sizes, cores, settings.

Placing keys helps where some tasks of a shuffle take longer than others. It cannot help where Spark does not shuffle,
where the job is too short to win back the measuring pass, or where measuring would compute an expensive input twice. In
these cases plain Spark does the work, and the reason is one sentence.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

from unskew.spark.explained import Explained, Node, explained
from unskew.spark.parallelism import cores_of, default_slots
from unskew.spark.settings import setting

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_log = logging.getLogger("unskew")

Kind = Literal["join", "function", "cogroup", "aggregate", "window"]

BYTES_PER_SECOND = 25e6
"""What a core of a present-day machine sorts and joins per second, shuffle included: 6M rows of 24 bytes took 2.9 s."""

SHORTEST = 5.0
"""Seconds that an operator of Spark's own must be expected to take before its key is measured. Whole keys can be placed
better by a factor of two at most, and measuring takes some tenths of a second."""

SHORTEST_CUT = 2.0
"""The same where the hot keys of a window may be cut: then all cores share them, and the functions of a window take
longer than the sort (expected to take 3 s, 10M rows took 10 to 17 s, and 11 s cut)."""

_PARSED_PER_SECOND = {"csv": 30e6, "json": 20e6, "xml": 5e6, "text": 100e6}
"""Bytes that a core reads per second from formats of which everything is parsed to get at one column."""

_PARSING = 0.25
"""Seconds that parsing such files again may take."""

_NARROW = frozenset(("Project", "Filter", "ColumnarToRow", "Coalesce", "Union", "Sample", "InputAdapter"))
_CHEAP_SOURCES = frozenset(
    ("Range", "LocalTableScan", "InMemoryTableScan", "FileScan", "BatchScan", "EmptyRelation")
)
_PARTIAL = ("HashAggregate", "ObjectHashAggregate", "SortAggregate")
"""Below the exchange of an aggregation: the measuring pass does not run it."""

_BETWEEN = ("Sort", "Project", "Filter", "WindowGroupLimit", "ColumnarToRow")
"""What may stand between an operator and the exchange that Spark put in for it."""

_OWN_EXCHANGE = ", ENSURE_REQUIREMENTS"
"""How Spark marks an exchange that an operator needs, in contrast to one that the user asked for."""


def reason_to_step_aside(
    plan: Explained | None,
    kind: Kind,
    spark: SparkSession,
    measured: Callable[[], Sequence[DataFrame]] | None,
    *,
    cuts: bool = False,
) -> str | None:
    """Why plain Spark should do this, or None if measuring may pay; no Spark job runs.

    `plan` is that of the plain operator on top of its inputs. `measured` gives the inputs cut down to what the
    measuring pass reads, which may not need what is expensive about them; None if nothing would be measured. `cuts`
    says that hot keys may be cut. The reason is logged, too.
    """
    reason = _reason(plan, kind, spark, measured, SHORTEST_CUT if cuts else SHORTEST)
    if reason is not None:
        log_plain(kind, reason)
    return reason


def log_plain(kind: str, reason: str) -> None:
    """Say to those who ask why plain Spark does the work: `logging.getLogger("unskew").setLevel("INFO")`."""
    _log.info("plain Spark does this %s: %s", kind, reason)


def _reason(
    plan: Explained | None,
    kind: Kind,
    spark: SparkSession,
    measured: Callable[[], Sequence[DataFrame]] | None,
    shortest: float,
) -> str | None:
    if plan is None:
        return "Spark's plan for it cannot be read"
    if requires_all_keys(spark):
        return "spark.sql.requireAllClusterKeysForDistribution is true, so rows placed by slot would be shuffled again"
    exchanges = own_exchanges(operator_of(plan.physical))
    if not exchanges:
        return "Spark does not shuffle for it"
    cores = cores_of(spark) or default_slots(spark)
    if kind not in ("function", "cogroup"):
        seconds = shuffled_bytes(plan.logical) / (BYTES_PER_SECOND * cores)
        if seconds < shortest:
            return f"it takes about {seconds:.1f} s, too short for measuring to pay"
    if measured is None:
        return None
    inputs = [exchange.children[0] for exchange in exchanges]
    if kind == "aggregate":
        inputs = [node.below(_PARTIAL) for node in inputs]
    expensive = _expensive(inputs) or _long_to_parse(plan.logical, cores)
    if expensive:
        needed = [explained(df) for df in measured()]
        if needed and all(needed):
            expensive = next(filter(None, (_twice(each, cores) for each in needed)), "")
    return f"measuring would {expensive} a second time" if expensive else None


def requires_all_keys(spark: SparkSession) -> bool:
    """Whether Spark shuffles rows again that are placed by a function of their key."""
    return setting(spark, "spark.sql.requireAllClusterKeysForDistribution") == "true"


def _twice(plan: Explained | None, cores: int) -> str:
    """What of this input is too expensive to do twice, as the end of a sentence; empty if nothing is."""
    return "" if plan is None else _expensive([plan.physical]) or _long_to_parse(plan.logical, cores)


def operator_of(physical: Node) -> Node:
    """The operator that the user asked for: the topmost that is more than a projection or a filter."""
    return physical.below(("Project", "Filter", "ColumnarToRow"))


def own_exchanges(operator: Node) -> list[Node]:
    """The shuffles that Spark put in for this operator, one for each input that needs one."""
    inputs = (child.below(_BETWEEN) for child in operator.children)
    return [node for node in inputs if node.name == "Exchange" and _OWN_EXCHANGE in node.text]


def shuffled_bytes(logical: Node) -> float:
    """The estimated size of what the operator reads; unknown sizes count as nothing."""
    operator = logical.below(("Project", "Filter"))
    return sum(child.bytes or 0.0 for child in operator.children)


def size_of(df: DataFrame) -> float:
    """The bytes that Spark expects these rows to have; 0 if it does not say."""
    plan = explained(df)
    return 0.0 if plan is None else plan.logical.bytes or 0.0


def _expensive(inputs: Sequence[Node]) -> str:
    for node in (node for each in inputs for node in each.walk()):
        if node.name == "Scan":
            return f"read {' '.join(node.text.split()[1:2])}"
        if node.name == "BatchScan" and "kafka" in node.text.lower():
            return "read Kafka"
        if node.name not in _NARROW and node.name not in _CHEAP_SOURCES:
            return f"run {node.name}"
    return ""


def _long_to_parse(logical: Node, cores: int) -> str:
    seconds = {
        kind: sum(
            leaf.bytes or 0.0
            for leaf in logical.walk()
            if leaf.name == "Relation" and leaf.text.endswith(f" {kind}")
        )
        / (rate * cores)
        for kind, rate in _PARSED_PER_SECOND.items()
    }
    slowest = max(seconds, key=lambda kind: seconds[kind])
    return f"parse the {slowest} files" if seconds[slowest] > _PARSING else ""
