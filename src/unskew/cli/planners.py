"""`unskew planners`: every planner, what it does and where it comes from."""

from __future__ import annotations

import inspect
import re

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from unskew.core.planners import NAMES, planner


def planners() -> None:
    """List the planners and the papers they come from."""
    table = Table(box=SIMPLE_HEAD)
    table.add_column("planner", no_wrap=True, style="bold")
    table.add_column("what it does", ratio=3)
    table.add_column("paper", ratio=2, style="dim")
    for name in NAMES:
        table.add_row(Text(name), Text(_summary(name)), Text(_paper(name)))
    Console().print(table)


def _summary(name: str) -> str:
    doc = inspect.getmodule(planner(name)).__doc__ or ""
    return doc.strip().splitlines()[0]


def _paper(name: str) -> str:
    """The citation in the planner's docstring; empty for what is no paper's."""
    text = inspect.getdoc(planner(name)) or ""
    flat = [" ".join(paragraph.split()) for paragraph in text.split("\n\n")]
    for paragraph in flat:
        found = re.search(r"Papers?: (.+)$", paragraph) or re.match(
            r"([A-Z]\w+(?: et al\.)?(?:, \"| \d{4}).+)$", paragraph
        )
        if found:
            return found[1].rstrip(".")
    return ""
