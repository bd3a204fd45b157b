"""`unskew watch`: a streaming query live on a page or in a terminal, or exported as one file."""

from __future__ import annotations

import contextlib
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

from unskew.cli.console import plain_errors
from unskew.report.text import inert

if TYPE_CHECKING:
    from unskew.report.watch.journal import JournalReader


@plain_errors()
def watch(
    checkpoint: Annotated[
        str, typer.Argument(metavar="CHECKPOINT", help="The checkpoint of a query, running or stopped.")
    ],
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Local port of the page; 0 picks a free one.")
    ] = 0,
    browser: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in a browser.")] = True,
    operator: Annotated[
        int, typer.Option(min=0, metavar="N", help="Which of several chained operators; the first is 0.")
    ] = 0,
    tui: Annotated[bool, typer.Option("--tui", help="Show it in this terminal instead.")] = False,
    export: Annotated[
        Path | None,
        typer.Option(
            "--export", metavar="FILE.html", help="Write the page with all its figures to a file, and exit."
        ),
    ] = None,
) -> None:
    """Watch a live query: loads, imbalance, batch times, migrations, heavy keys, and every decision with its reason."""
    from unskew.report.watch.journal import JournalReader

    if tui and export is not None:
        raise ValueError("choose one of --tui and --export")
    reader = JournalReader(checkpoint, operator)
    with contextlib.suppress(KeyboardInterrupt):  # Ctrl-C is how to stop watching
        if export is not None:
            _export(reader, export)
        elif tui:
            from unskew.report.watch.terminal import watch_in_terminal

            watch_in_terminal(reader, Console())
        else:
            _serve(reader, port, browser)


def _export(reader: JournalReader, path: Path) -> None:
    from unskew.report.page import write
    from unskew.report.watch.page import exported_page

    write(path, exported_page(reader))
    Console().print(Text(f"Page: {inert(str(path))}"), soft_wrap=True)


def _serve(reader: JournalReader, port: int, browser: bool) -> None:
    from unskew.report.watch.server import WatchServer

    with WatchServer(reader, port) as server:
        Console().print(Text(f"Watching on {server.address} (press Ctrl-C to stop)"), soft_wrap=True)
        if browser:
            webbrowser.open(server.address)
        server.serve_forever()
