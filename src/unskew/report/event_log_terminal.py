"""The diagnosis of an event log in a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from unskew.eventlog.findings import Finding, LogDiagnosis
from unskew.report.event_log_page import STAGES, key_figures, stage_rows, title, where
from unskew.report.terminal import panels, table_of
from unskew.report.text import inert


def print_log(diagnosis: LogDiagnosis, console: Console) -> None:
    """Headline, key figures, the worst stages, and what to do about each."""
    console.print()
    console.print(Text(title(diagnosis), "bold"))
    console.print(Text(diagnosis.headline))
    console.print(panels(key_figures(diagnosis)))
    if not diagnosis.findings:
        return
    styles = {found.stage.label: "bold yellow" for found in diagnosis.findings if found.advice.fixable}
    caption = "Longest, mean and median are times of tasks; records and bytes those of the longest one, over the mean."
    columns = [column for column in STAGES if column.field not in ("fixable", "length")]
    console.print(table_of("Uneven stages", columns, stage_rows(diagnosis), caption=caption, styles=styles))
    for found in diagnosis.findings:
        _print_advice(found, console)


def _print_advice(found: Finding, console: Console) -> None:
    verdict = "unskew could help" if found.advice.fixable else "not for unskew"
    style = "bold yellow" if found.advice.fixable else "bold"
    cost = f"{found.cause}, up to {found.saved:.1f} s of {found.stage.length:.1f} s; {verdict}"
    console.print(Text(f"Stage {found.stage.label}: {cost}", style))
    console.print(Padding(Text(f"{where(found)}\n→ {inert(found.advice.text)}"), (0, 0, 1, 2)))
