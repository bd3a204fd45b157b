"""`unskew diagnose --event-log`: needs neither Spark nor a key."""

from __future__ import annotations

from pathlib import Path

import typer
from rich.console import Console
from rich.text import Text

from unskew.cli.console import check_target, print_json, progress
from unskew.eventlog.findings import diagnose_log
from unskew.report.text import inert

_ALLOWED = ("event_log", "html", "as_json")


def check_options(context: typer.Context) -> None:
    """Refuse options about data, because only the log is read."""
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        is_set = source is not None and source.name == "COMMANDLINE"
        if is_set and parameter.name not in _ALLOWED:
            raise ValueError(f"{parameter.opts[0]} does not go with --event-log: only the log is read")


def diagnose_event_log(log: Path, html: str | None, *, as_json: bool) -> None:
    """Read the log, and print or write its diagnosis."""
    with progress() as step:
        if html is not None:
            check_target(html, "--html", creates_folder=True)
        diagnosis = diagnose_log(log, progress=lambda file: step(f"reading {file}"))
        if html is not None:
            from unskew.report.event_log_page import write_log_report

            step(f"writing {html}")
            write_log_report(diagnosis, html, source=str(log))
    if as_json:
        print_json(diagnosis.to_dict())
        return
    from unskew.report.event_log_terminal import print_log_diagnosis

    console = Console()
    print_log_diagnosis(diagnosis, console)
    if html is not None:
        console.print(Text(f"Report: {inert(str(html))}"), soft_wrap=True)
