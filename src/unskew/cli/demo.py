"""`unskew demo`: a skewed job and a live stream on this machine, plain and with unskew."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from unskew.cli.console import check_target, plain_errors
from unskew.demo.clicks import Clicks
from unskew.demo.crawl import Crawl
from unskew.report.text import inert

OutOption = Annotated[Path, typer.Option("--out", metavar="FILE.html", help="Where to write the page.")]


def demo(
    out: OutOption = Path("unskew-demo.html"),
    pages: Annotated[int, typer.Option(min=1, help="How many pages the job fetches.")] = Crawl.pages,
    wait: Annotated[
        float, typer.Option(min=0, help="Seconds that a page takes; a record of the stream takes a third.")
    ] = Crawl.wait,
    cores: Annotated[
        int,
        typer.Option(
            min=1, help="How many tasks Spark runs at once; they wait, so more than this machine has."
        ),
    ] = Crawl.cores,
    batches: Annotated[
        int, typer.Option(min=3, help="Batches of the stream; state starts to move in the second one.")
    ] = Clicks.batches,
) -> None:
    """Run a skewed job and a live stream on local Spark, plain and with unskew, and write a page that compares them."""
    with plain_errors():
        check_target(out, "--out", creates_folder=True)
        from unskew.demo.acts import run

        console = Console()
        page = run(
            Crawl(pages=pages, wait=wait, cores=cores), Clicks(batches=batches, wait=wait / 3), out, console
        )
        console.print(Text(inert(str(page))), soft_wrap=True)
