"""`unskew planners`: every planner, what it does and where it comes from."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from unskew.core.planners import PLANNERS


def planners() -> None:
    """List the planners and the papers they come from."""
    table = Table(box=SIMPLE_HEAD)
    table.add_column("planner", no_wrap=True, style="bold")
    table.add_column("what it does", ratio=3)
    table.add_column("paper", ratio=2, style="dim")
    for planner in PLANNERS.values():
        table.add_row(Text(planner.name), Text(planner.summary.replace("`", "")), Text(planner.paper))
    Console().print(table)
