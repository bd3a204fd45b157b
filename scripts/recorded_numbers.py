"""Write the measured numbers of the docs from the committed records: `make docs-numbers`.

A number that was measured is marked where it stands, with the record and the way to the figure in it:

    <!-- stream.json > bars > stream: unskew / native aggregation, as .2f -->0.67<!-- end of number -->

The way goes through the keys of the record; in a list, through the `name` of its items. A bar, which is what most
benchmarks have, stands for its figure `measured`. What follows `as` is a format of Python, with `%` for percent.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))

MARK = re.compile(
    r"<!-- (?P<way>[\w./-]+\.json > [^\n]+?), as (?P<form>[^\s,]+) -->(?P<number>[^<\n]*)<!-- end of number -->"
)


def rendered(page: Path) -> str:
    """The page with its numbers as the records have them."""
    return MARK.sub(_written, page.read_text("utf-8"))


def _written(mark: re.Match[str]) -> str:
    number = written(mark["way"], mark["form"])
    return f"<!-- {mark['way']}, as {mark['form']} -->{number}<!-- end of number -->"


def written(way: str, form: str) -> str:
    """A figure of a record as text.

    >>> written("batch.json > machine > cores", ".0f")
    '2'
    """
    text = format(figure(way), form)
    return f"{text[:-1]} %" if text.endswith("%") else text


def figure(way: str) -> float:
    """The figure at the end of a way through a record."""
    file, *keys = way.split(" > ")
    value: Any = record(file)
    for key in keys:
        value = _step(value, key, way)
    if isinstance(value, dict) and "measured" in value:
        value = value["measured"]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{way}: ends at {type(value).__name__}, not at a number: name the figure")
    return float(value)


def _step(value: Any, key: str, way: str) -> Any:
    if isinstance(value, list):
        value = {item["name"]: item for item in value if isinstance(item, dict) and "name" in item}
    if not isinstance(value, dict) or key not in value:
        raise ValueError(f"{way}: the record has no {key!r} there")
    return value[key]


@cache
def record(file: str) -> Any:
    """A record by its name under benchmarks/results."""
    path = RESULTS / file
    if not path.is_file():
        raise ValueError(f"{file}: there is no such record in benchmarks/results")
    return json.loads(path.read_text("utf-8"))


def main() -> None:
    """Rewrite the pages whose numbers have changed."""
    for page in PAGES:
        text = rendered(page)
        if text != page.read_text("utf-8"):
            page.write_text(text, "utf-8")
            print(f"{page.relative_to(ROOT)}: numbers written from the records")


if __name__ == "__main__":
    main()
