"""What Spark would do with a DataFrame, read from its own explanation: operators, shuffles, sizes. No Spark job runs.

Everything that `auto` can know before it measures comes from here. The text is parsed strictly: where it does not read
as one tree (a line break inside a literal may forge a line), there is no answer rather than a guess.
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_UNITS = {unit: 1024.0**power for power, unit in enumerate(("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"))}
_STATISTICS = re.compile(r", Statistics\(sizeInBytes=([\d.E+]+) (\w+)(?:, rowCount=([\d.E+]+))?.*\)$")
_LINE = re.compile(r"(?P<margin>(?:[ :]  )*)(?P<mark>:- |\+- )?(?:\*\(\d+\) |\* )?(?P<text>\S.*)")
_NAME = re.compile(r"\w+")


@dataclass
class Node:
    """An operator of a plan: its name, its line without the tree's marks, what it reads, and its estimated size."""

    name: str
    text: str
    bytes: float | None = None
    rows: float | None = None
    children: list[Node] = field(default_factory=list)

    def walk(self) -> Iterator[Node]:
        """This node and all below it, from the top."""
        yield self
        for child in self.children:
            yield from child.walk()

    def below(self, names: Sequence[str]) -> Node:
        """The first node on the way down the only child whose name is not in `names`."""
        node = self
        while node.name in names and len(node.children) == 1:
            node = node.children[0]
        return node

    def count(self, name: str) -> int:
        """How many nodes of this name there are."""
        return sum(node.name == name for node in self.walk())


@dataclass(frozen=True)
class Explained:
    """The optimized logical plan, with sizes, and the physical plan as it stands before it runs."""

    logical: Node
    physical: Node


_printing = threading.Lock()


class _OwnPrints:
    """Stands in for the standard output: keeps what this thread prints, and passes on what others print."""

    def __init__(self, stdout: Any) -> None:
        self.text = ""
        self._stdout = stdout
        self._thread = threading.get_ident()

    def write(self, text: str) -> None:
        if threading.get_ident() == self._thread:
            self.text += text
        else:
            self._stdout.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stdout, name)


def explained(df: DataFrame) -> Explained | None:
    """Spark's plans for the DataFrame, or None if it does not tell or the text cannot be read; no Spark job runs.

    PySpark can only print them. The statement EXPLAIN would return them, but it needs a view of the DataFrame and
    analyses it again: 25 ms, against 5.
    """
    try:
        # Without the filter, which Spark's optimizer removes, a DataFrame that has run shows the plan AQE ended with.
        text = _printed(df.where("true"))
    except PySparkException:
        return None
    match = re.fullmatch(
        r"== Optimized Logical Plan ==\n(.*)\n\n== Physical Plan ==\n(.*?)\n*", text, re.DOTALL
    )
    if match is None:
        return None
    logical, physical = map(parse_tree, match.groups())
    if logical is None or physical is None:
        return None
    return Explained(logical, physical.below(("AdaptiveSparkPlan",)))


def _printed(df: DataFrame) -> str:
    """What `df.explain` prints. One call at a time, so that every thread finds the standard output as it was."""
    with _printing:
        prints = _OwnPrints(sys.stdout)
        with redirect_stdout(prints):  # type: ignore[type-var]  # print needs no more of a file than `write`
            df.explain(mode="cost")
    return prints.text


def parse_tree(text: str) -> Node | None:
    """The tree that Spark printed, or None if a line does not fit into a tree; plans inside a node are left out.

    >>> tree = parse_tree("Join Inner\\n:- Range (0, 5)\\n:  +- Exchange x\\n+- Range (0, 7)")
    >>> [child.text for child in tree.children], tree.count("Exchange")
    (['Range (0, 5)', 'Range (0, 7)'], 1)
    >>> parse_tree("Project [a AS\\n+- x]\\n+- Range (0, 5)") is None
    True
    """
    path: list[Node] = []  # the nodes on the way from the root to the last line
    closed: list[bool] = []  # whether a node of the path has got its last child
    aside = False  # whether the last line belongs to a plan that is printed inside another: a subquery, a cached table
    for line in text.split("\n"):
        match = _LINE.match(line)
        if match is None:
            return None
        depth = len(match["margin"]) // 3 + (match["mark"] is not None)
        aside = depth == len(path) + 1 or (aside and depth > len(path))
        if aside:
            continue
        if depth > len(path) or (depth == 0) != (not path) or not _fits(match["margin"], closed):
            return None
        node = _node(match["text"])
        del path[depth:], closed[depth:]
        if path:
            if closed[-1]:
                return None
            closed[-1] = match["mark"] == "+- "
            path[-1].children.append(node)
        path.append(node)
        closed.append(False)
    return path[0] if path else None


def _fits(margin: str, closed: Sequence[bool]) -> bool:
    """Whether the margin draws a line exactly for those nodes of the path that have another child to come."""
    columns = [margin[i : i + 3] for i in range(0, len(margin), 3)]
    return all((column == "   ") == done for column, done in zip(columns, closed, strict=False))


def _node(line: str) -> Node:
    statistics = _STATISTICS.search(line)
    text = line if statistics is None else line[: statistics.start()]
    name = _NAME.match(text)
    size = rows = None
    if statistics is not None and statistics[2] in _UNITS:
        size = float(statistics[1]) * _UNITS[statistics[2]]
        rows = float(statistics[3]) if statistics[3] else None
    return Node(name[0] if name else "", text, size, rows)
