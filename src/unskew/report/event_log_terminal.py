"""The diagnosis of an event log in a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from unskew.eventlog.findings import Finding, LogDiagnosis
from unskew.report.event_log_page import STAGES, log_figures, log_title, stage_rows, where
from unskew.report.terminal import panels, table_of
from unskew.report.text import inert


def print_log_diagnosis(diagnosis: LogDiagnosis, console: Console) -> None:
    """Headline, key figures, the worst stages, and what to do about each."""
    console.print()
    console.print(Text(log_title(diagnosis), "bold"))
    console.print(Text(diagnosis.headline))
    console.print(panels(log_figures(diagnosis)))
    if not diagnosis.findings:
        return
    styles = {f.stage.label: "bold yellow" for f in diagnosis.findings if f.advice.fixable}
    caption = "Longest, mean and median are task times; records and bytes are those of the longest task, over the mean."
    columns = [column for column in STAGES if column.field not in ("fixable", "length")]
    console.print(table_of("Uneven stages", columns, stage_rows(diagnosis), caption=caption, styles=styles))
    for finding in diagnosis.findings:
        _print_advice(finding, console)


def _print_advice(finding: Finding, console: Console) -> None:
    verdict = "unskew could help" if finding.advice.fixable else "not for unskew"
    style = "bold yellow" if finding.advice.fixable else "bold"
    cost = f"{finding.cause}, up to {finding.saved:.1f} s of {finding.stage.length:.1f} s; {verdict}"
    console.print(Text(f"Stage {finding.stage.label}: {cost}", style))
    console.print(Padding(Text(f"{where(finding)}\n→ {inert(finding.advice.text)}"), (0, 0, 1, 2)))
