"""`unskew demo`: a skewed join, a skewed function and a live stream on this machine, plain, tuned and with unskew."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from unskew.cli.console import check_target, plain_errors
from unskew.demo.clicks import Clicks
from unskew.demo.crawl import Crawl
from unskew.demo.orders import Orders
from unskew.report.text import inert

OutOption = Annotated[Path, typer.Option("--out", metavar="FILE.html", help="Where to write the page.")]


def demo(
    out: OutOption = Path("unskew-demo.html"),
    scale: Annotated[
        float, typer.Option(min=0, help="How long a row waits, in times of the usual; 0 only tries it out.")
    ] = 1.0,
    cores: Annotated[
        int,
        typer.Option(
            min=1, help="How many tasks Spark runs at once; they wait, so more than this machine has."
        ),
    ] = Orders.cores,
    batches: Annotated[
        int, typer.Option(min=3, help="Batches of the stream; state starts to move in the second one.")
    ] = Clicks.batches,
) -> None:
    """Run a skewed join, a skewed function and a live stream on local Spark, and write a page that compares them."""
    with plain_errors():
        check_target(out, "--out", creates_folder=True)
        from unskew.demo.acts import run

        # Java inherits standard output as long as it starts; the progress bar keeps a way of its own to the terminal
        with os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8") as terminal:
            console = Console(file=terminal)
            page, log = run(
                Orders(wait=scale * Orders.wait, cores=cores),
                Crawl(wait=scale * Crawl.wait, cores=cores),
                Clicks(batches=batches, wait=scale * Clicks.wait, slots=max(2, cores // 2)),
                out,
                console,
            )
            console.print(Text(f"What Spark printed: {inert(str(log))}"), soft_wrap=True)
            console.print(Text(inert(str(page))), soft_wrap=True)
