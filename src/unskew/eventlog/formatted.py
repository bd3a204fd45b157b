"""The texts of a plan's nodes out of its formatted description, for Spark before 4.3, whose nodes have none.

The description is a tree of names with numbers, then one section per number. Nodes of the same name come in the same
order in the tree and in the list of nodes.
"""

from __future__ import annotations

import re
from collections import defaultdict

_IN_TREE = re.compile(r"^[\s:|+*\-]*([A-Za-z][^\n]*?) \((\d+)\)", re.M)
_SECTION = re.compile(r"^\((\d+)\) [^\n]*\n((?:[^\n]+\n?)*)", re.M)


def node_texts(description: str) -> dict[str, list[str]]:
    """The texts of all nodes, by name, in the order of the plan; of an adaptive plan, the one that ran."""
    tree, _, rest = description.partition("\n\n")
    if "== Initial Plan ==" in tree:
        tree = tree.partition("== Initial Plan ==")[0]
    sections = {number: _fields(body) for number, body in _SECTION.findall(rest)}
    texts: dict[str, list[str]] = defaultdict(list)
    for title, number in _IN_TREE.findall(tree):
        name = _name(title)
        texts[name].append(_text(name, sections.get(number, {})))
    return texts


def _name(title: str) -> str:
    """The name of a node, as in the list of nodes up to its first parenthesis or blank.

    >>> _name("SortMergeJoin(skew=true) Inner")
    'SortMergeJoin'
    """
    return re.split(r"[( ]", title, maxsplit=1)[0]


def _fields(body: str) -> dict[str, str]:
    """The lines of a section: `Arguments: hashpartitioning(user#1, 8)` and so on."""
    lines = (line.partition(":") for line in body.splitlines())
    return {re.sub(r" \[\d+\]$", "", name.strip()): value.strip() for name, _, value in lines}


def _text(name: str, fields: dict[str, str]) -> str:
    """A node as it describes itself on one line."""
    if "Join type" in fields:
        return (
            f"{name} {fields.get('Left keys', '[]')}, {fields.get('Right keys', '[]')}, {fields['Join type']}"
        )
    if "Arguments" in fields:
        return f"{name} {fields['Arguments']}"
    return " ".join([name, *(f"{field}: {value}" for field, value in fields.items())])
