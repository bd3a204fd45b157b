"""Whether Spark combines the aggregates of a query before the shuffle, so that skew does not hurt them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from unskew.spark.explained import Explained, Node

_AGGREGATES = ("HashAggregate", "ObjectHashAggregate", "SortAggregate")
_BETWEEN = ("Project", "Filter", "Sort", "Exchange", "Expand", "ColumnarToRow")

_GROWING = frozenset(
    """array_agg collect_list collect_set collect_union listagg median mode pandas_mode percentile percentile_cont
    percentile_disc string_agg""".split()  # noqa: SIM905 (readable)
)
"""Aggregates whose partial result holds its rows, or a count for each distinct value: combining hardly shrinks them.

Read from Spark's FunctionRegistry. All others of its aggregates have a partial result of bounded size.
"""


def combines(plan: Explained | None) -> bool:
    """Whether every aggregate of this plan has a small partial result, so that a hot key is one row per map task.

    Judged by the physical plan of the query with plain Spark. Python aggregates have no partial result. With DISTINCT,
    Spark shuffles by key and value first, or keeps one row per value. If the plan cannot be read, the answer is yes:
    the query is then left to plain Spark.
    """
    if plan is None:
        return True
    nodes = list(_aggregates(plan.physical))
    if not nodes:
        return False
    names = {name for node in nodes for name in function_names(node.text)}
    return not names & _GROWING


def _aggregates(node: Node) -> Iterator[Node]:
    """The aggregates at the top of the plan, down to the rows that they read."""
    while node.name in _AGGREGATES or node.name in _BETWEEN:
        if node.name in _AGGREGATES:
            yield node
        if len(node.children) != 1:
            return
        node = node.children[0]


def function_names(aggregate: str) -> list[str]:
    """The aggregate functions of an operator's line, without what says that they are partial.

    >>> function_names("HashAggregate(keys=[k#0], functions=[partial_sum(abs(v#1)), max(s#2)], output=[mode(x)#3])")
    ['sum', 'max']
    """
    _, _, text = aggregate.partition("functions=[")
    names, depth, start = [], 0, 0
    for i, character in enumerate(text):
        if character in "([":
            if depth == 0 and (name := re.search(r"(\w+)$", text[start:i])):
                names.append(re.sub(r"^(partial|merge|finalmerge)_", "", name[1]))
            depth += 1
        elif character in ")]":
            depth -= 1
            start = i + 1
            if depth < 0:
                break
    return names
