"""`unskew diagnose --event-log`, `--app` and `--history`: need neither Spark nor a key."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import typer
from rich.console import Console
from rich.text import Text

from unskew.cli.console import check_target, print_json, progress
from unskew.eventlog.findings import LogDiagnosis, diagnose_log, diagnose_rest
from unskew.report.text import inert

_ALLOWED = {
    "event_log": ("event_log", "html", "as_json"),
    "app": ("app", "app_id", "html", "as_json"),
    "history": ("history", "app_id", "html", "as_json"),
}
_READ = {
    "event_log": "only the log is read",
    "app": "only Spark's web interface is read",
    "history": "only the History Server is read",
}

Read = Callable[[Callable[[str], None]], LogDiagnosis]
"""Reads a finished or running application, and reports what it is doing."""


def diagnose_run(
    context: typer.Context,
    *,
    event_log: Path | None,
    app: str | None,
    history: str | None,
    app_id: str | None,
    html: str | None,
    as_json: bool,
) -> bool:
    """Diagnose an application that has run or runs, if one of these options names it; False if none does."""
    given = {"event_log": event_log, "app": app, "history": history}
    chosen = [name for name, value in given.items() if value is not None]
    if not chosen:
        if app_id is not None:
            raise ValueError("--app-id needs --history, or --app: where is the application?")
        return False
    _check_options(context, chosen[0])
    if event_log is not None:
        log = event_log
        _diagnose(
            lambda step: diagnose_log(log, progress=lambda file: step(f"reading {file}")),
            str(log),
            html,
            as_json,
        )
        return True
    address = str(app if app is not None else history)
    _diagnose(lambda step: diagnose_rest(address, app_id, progress=step), address, html, as_json)
    return True


def _check_options(context: typer.Context, chosen: str) -> None:
    """Refuse options about data, because only the log or Spark's web interface is read."""
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        is_set = source is not None and source.name == "COMMANDLINE"
        if is_set and parameter.name not in _ALLOWED[chosen]:
            option = f"--{chosen.replace('_', '-')}"
            raise ValueError(f"{parameter.opts[0]} does not go with {option}: {_READ[chosen]}; leave it out")


def _diagnose(read: Read, source: str, html: str | None, as_json: bool) -> None:
    """Read the application, and print or write its diagnosis."""
    with progress() as step:
        if html is not None:
            check_target(html, "--html", creates_folder=True)
        diagnosis = read(step)
        if html is not None:
            from unskew.report.event_log_page import write_log_report

            step(f"writing {html}")
            write_log_report(diagnosis, html, source=source)
    if as_json:
        print_json(diagnosis.to_dict())
        return
    from unskew.report.event_log_terminal import print_log_diagnosis

    console = Console()
    print_log_diagnosis(diagnosis, console)
    if html is not None:
        console.print(Text(f"Report: {inert(str(html))}"), soft_wrap=True)
