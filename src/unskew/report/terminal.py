"""Diagnoses and plans in a terminal.

Keys come from the data. They are printed as `Text`, in which rich interprets no markup, after everything that is
not printable has been escaped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import fill
from types import MappingProxyType
from typing import Any

from rich.box import ROUNDED, SIMPLE_HEAD
from rich.columns import Columns
from rich.console import Console, JustifyMethod
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from unskew.core.diagnosis import Diagnosis
from unskew.core.plan import Plan
from unskew.report.diagnosis_page import (
    BASELINE,
    HEAVY,
    OURS,
    PAIRS,
    PLANNERS,
    diagnosis_figures,
    diagnosis_title,
    heavy_rows,
    pair_rows,
    planner_rows,
)
from unskew.report.page import Card, Column, Row
from unskew.report.text import inert

_BAR = 20
"""Characters of the longest bar."""

_FOLDED = ("key", "note", "cause", "reason")
"""Columns whose text wraps if the terminal is narrow."""


def print_diagnosis(diagnosis: Diagnosis, console: Console) -> None:
    """Print headline, key figures, planners and heavy keys."""
    console.print()
    console.print(Text(diagnosis_title(diagnosis), "bold"))
    console.print(Text(diagnosis.advice))
    console.print(panels(diagnosis_figures(diagnosis)))
    if not diagnosis.histogram.total:
        return
    console.print(
        table_of(
            f"Planners, {diagnosis.slots} slots on {diagnosis.cores} cores",
            PLANNERS,
            planner_rows(diagnosis),
            caption="Fullest slot: max/mean load. Time: 1 is even work. Straggler: above 2 × mean.",
            styles={OURS: "bold yellow", BASELINE: "cyan"},
        )
    )
    console.print(_heavy(diagnosis, console))
    if diagnosis.then is not None:
        console.print(Text(inert(diagnosis.then.advice)))
        console.print(table_of("Pairs of keys", PAIRS, pair_rows(diagnosis.then), caption=""))


def print_plan(plan: Plan, path: str, console: Console) -> None:
    """Print what a plan does, and where it was saved."""
    table = Table(box=SIMPLE_HEAD, show_header=False, title="Plan", title_justify="left")
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    for name, value in plan_figures(plan).items():
        if value not in (None, ""):
            table.add_row(name.replace("_", " "), Text(inert(_figure(name, value))))
    table.add_row("file", Text(inert(path)))
    console.print(table)


def plan_figures(plan: Plan) -> dict[str, Any]:
    """The figures of a plan, for JSON and for the terminal."""
    migration = plan.migration
    return {
        "planner": plan.planner,
        "reason": plan.reason,
        "key": list(plan.histogram.key_names),
        "records": plan.histogram.records,
        "slots": plan.slots,
        "version": plan.table.version,
        "heavy_rows": len(plan.table.hashes),
        "imbalance": plan.imbalance,
        "bound": plan.bound,
        "moved_entries": None if migration is None else len(migration),
        "moved_state": None if migration is None else migration.state_share,
    }


def _figure(name: str, value: Any) -> str:
    match name, value:
        case "key", list():
            return ", ".join(value)
        case "records", _:
            return f"{value:,.0f}"
        case "moved_state", _:
            return f"{value:.2%} of all state"
        case "imbalance", _:
            return f"{value:.3f} (fullest slot, × mean)"
        case _, float():
            return f"{value:.3f}"
    return str(value)


def panels(cards: Sequence[Card]) -> Columns:
    """Key figures side by side."""
    boxes = []
    for card in cards:
        style = "bold yellow" if card.strong else "bold"
        body = Text.assemble((card.value, style), "\n", (card.note, "dim"))
        boxes.append(
            Panel(body, title=Text(card.label), title_align="left", box=ROUNDED, width=38, border_style="dim")
        )
    return Columns(boxes)


def _heavy(diagnosis: Diagnosis, console: Console) -> Table:
    rows = heavy_rows(diagnosis)
    most = max((row["share"] for row in rows), default=0.0) or 1.0
    block = "█" if console.encoding.lower().startswith("utf") else "#"
    bars = [
        Text(block * max(1, round(_BAR * row["share"] / most)), "red" if row["slots"] > 1 else "cyan")
        for row in rows
    ]
    too_heavy = any(row["slots"] > 1 for row in rows)
    caption = (
        "Red: more than one slot's worth, so it limits the job wherever it is placed." if too_heavy else ""
    )
    return table_of("Heavy keys", HEAVY, rows, bars=bars, caption=caption)


def table_of(
    heading: str,
    columns: Sequence[Column],
    rows: Sequence[Row],
    *,
    caption: str = "",
    styles: Mapping[str, str] = MappingProxyType({}),
    bars: Sequence[Text] = (),
) -> Table:
    """The rows under the columns; `styles` by the first cell, `bars` in a last column without a heading."""
    table = Table(
        title=heading, caption=caption, box=SIMPLE_HEAD, title_justify="left", caption_justify="left"
    )
    table.title_style, table.caption_style = "bold", "dim"
    for column in columns:
        numeric = any(isinstance(row[column.field], int | float) for row in rows)
        narrow = max(8, *map(len, column.title.split()))
        side: JustifyMethod = "right" if numeric else "left"
        folds = column.field in _FOLDED
        table.add_column(fill(column.title, narrow), justify=side, no_wrap=not folds, overflow="fold")
    if bars:
        table.add_column("", no_wrap=True)
    for i, row in enumerate(rows):
        cells = [Text(inert(column.show(row))) for column in columns]
        table.add_row(*cells, *bars[i : i + 1], style=styles.get(str(row[columns[0].field])))
    return table
