"""Write what the docs list of every planner from the planners' declarations: `make docs-planners`.

Each page has one generated part, between two comments; the rest of the page is written by hand.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from unskew.core.planners import PLANNERS

DOCS = Path(__file__).parents[1] / "docs"

_PART = re.compile(r"(<!-- begin planners: [^\n]* -->\n).*?(<!-- end planners -->)", re.S)


def table() -> str:
    """One row per planner: what it does, what it promises about movement, its paper."""
    rows = [
        f"| `{planner.name}` | {planner.summary} | {planner.movement} | {planner.paper} |"
        for planner in PLANNERS.values()
    ]
    return "\n".join(["| name | what it does | what moves | paper |", "|---|---|---|---|", *rows])


def reference() -> str:
    """One entry per planner, which mkdocstrings fills from the docstrings of its module."""
    entries = [
        f"::: {planner.plan.__module__}\n    options:\n      members: [plan]" for planner in PLANNERS.values()
    ]
    return "\n\n".join(entries)


PAGES: dict[Path, Callable[[], str]] = {DOCS / "planners.md": table, DOCS / "planner-reference.md": reference}


def rendered(page: Path) -> str:
    """The page with its generated part as the registry has it now."""
    text, parts = _PART.subn(lambda part: f"{part[1]}\n{PAGES[page]()}\n\n{part[2]}", page.read_text("utf-8"))
    if parts != 1:
        raise ValueError(
            f"{page} has {parts} generated parts: "
            "mark one with the comments 'begin planners: …' and 'end planners'"
        )
    return text


if __name__ == "__main__":
    for path in PAGES:
        path.write_text(rendered(path), "utf-8")
        print(path)
