"""Write what the docs list of every stream aggregate from the registry: `make docs-aggregates`.

Each page has one generated part, between two comments; the rest of the page is written by hand.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

from unskew.streaming.operators.aggregates import AGGREGATES
from unskew.streaming.operators.aggregation import Aggregate

DOCS = Path(__file__).parents[1] / "docs"

_PART = re.compile(r"(<!-- begin aggregates: [^\n]*? -->).*?(<!-- end aggregates -->)", re.S)


def table() -> str:
    """One row per aggregate: how it is called, and the first line of its docstring."""
    rows = [f"| `{_call(aggregate)}` | {_summary(aggregate)} |" for aggregate in AGGREGATES.values()]
    return "\n".join(["\n\n| aggregate | result |", "|---|---|", *rows, "\n"])


def settings() -> str:
    """The aggregates as a job file names them, with what each takes besides its column, in one line."""
    return ", ".join(f"`{name}`{_remark(aggregate)}" for name, aggregate in AGGREGATES.items())


PAGES: dict[Path, Callable[[], str]] = {DOCS / "streaming.md": table, DOCS / "run.md": settings}


def rendered(page: Path) -> str:
    """The page with its generated part as the registry has it now."""
    text, parts = _PART.subn(lambda part: part[1] + PAGES[page]() + part[2], page.read_text("utf-8"))
    if parts != 1:
        raise ValueError(
            f"{page} has {parts} generated parts: "
            "mark one with the comments 'begin aggregates: …' and 'end aggregates'"
        )
    return text


def _call(aggregate: type[Aggregate]) -> str:
    """The aggregate as Python calls it, with its options and their defaults."""
    column = "column" if aggregate.needs_column else "column=None"
    options = [f"{name}={default!r}" for name, default in _options(aggregate).items()]
    return f"{aggregate.name}({', '.join([column, *options])})"


def _summary(aggregate: type[Aggregate]) -> str:
    """The first line of its docstring, which is its own: that of its base class says nothing about it."""
    docstring = aggregate.__dict__.get("__doc__")
    if not docstring:
        raise ValueError(f"{aggregate.__qualname__} has no docstring: its first line goes into the docs")
    return str(docstring.splitlines()[0].removesuffix("."))


def _remark(aggregate: type[Aggregate]) -> str:
    remarks = [f"with `{name}`" for name in _options(aggregate)]
    if not aggregate.in_batch:
        remarks.append("in a stream only")
    return f" ({', '.join(remarks)})" if remarks else ""


def _options(aggregate: type[Aggregate]) -> dict[str, object]:
    """What it takes besides its column, with the defaults."""
    return {option.name: option.default for option in fields(aggregate) if option.name != "column"}


if __name__ == "__main__":
    for path in PAGES:
        path.write_text(rendered(path), "utf-8")
        print(path)
