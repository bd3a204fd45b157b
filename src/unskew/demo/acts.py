"""The two acts of the demo, one after the other, and the page about them."""

from __future__ import annotations

import platform
from pathlib import Path

from rich.console import Console

from unskew.demo import clicks, crawl
from unskew.report.page import render, write

_LEAD = (
    "The same work done twice on this machine: by plain Spark, which places keys by their hash, and with unskew, which "
    "measures the keys and then places them. Both give the same results."
)


def run(job: crawl.Crawl, stream: clicks.Clicks, out: Path, console: Console) -> Path:
    """Run both acts on local Spark, print what unskew gains in each, and write the page."""
    with console.status("starting Spark") as status:
        batch = crawl.run(job, status.update)
    console.print(batch.diagnosis.advice)
    console.print(
        f"The same crawl on local Spark: plain [bold]{batch.plain.seconds:.1f} s[/], unskew "
        f"[bold]{batch.unskewed.seconds:.1f} s[/] including measuring and planning: {batch.speedup:.2f} × as fast.\n"
    )
    with console.status("streaming") as status:
        live = clicks.run(crawl.session(job.cores), stream, status.update)
    hashed, moving = live.median(clicks.HASHED), live.median(clicks.MOVING)
    console.print(
        f"A live stream with drifting hot keys: [bold]{hashed:.1f} s[/] per batch hashed, [bold]{moving:.1f} s[/] "
        f"with state that moves: {hashed / moving:.2f} × the throughput.\n"
    )
    from unskew import __version__

    footer = f"unskew {__version__}, Python {platform.python_version()}"
    sections = [crawl.section(batch), clicks.section(live)]
    write(out, render("Skewed keys on Spark, before and after", _LEAD, sections, footer))
    return out
