"""`unskew diagnose --event-log`: no Spark is started, and no key is needed."""

from __future__ import annotations

from pathlib import Path

import typer
from rich.console import Console
from rich.text import Text

from unskew.cli.console import check_target, print_json, progress
from unskew.eventlog.findings import diagnose_log
from unskew.report.text import inert

_TOGETHER = ("event_log", "html", "as_json")


def check_alone(context: typer.Context) -> None:
    """Refuse what is about data, for a log is read without any."""
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        given = source is not None and source.name == "COMMANDLINE"
        if given and parameter.name not in _TOGETHER:
            raise ValueError(f"{parameter.opts[0]} does not go with --event-log: the log is all that is read")


def diagnose_event_log(log: Path, html: Path | None, *, as_json: bool) -> None:
    """Read the log and show what it says."""
    with progress() as step:
        if html is not None:
            check_target(html, "--html")
        found = diagnose_log(log, progress=lambda file: step(f"reading {file}"))
        if html is not None:
            from unskew.report.event_log_page import write_log_report

            step(f"writing {html}")
            write_log_report(found, html, source=str(log))
    if as_json:
        print_json(found.to_dict())
        return
    from unskew.report.event_log_terminal import print_log

    console = Console()
    print_log(found, console)
    if html is not None:
        console.print(Text(f"Report: {inert(str(html))}"), soft_wrap=True)
