"""The three acts of the demo, one after the other, and the page about them."""

from __future__ import annotations

import platform
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from unskew.demo import clicks, crawl, orders, session
from unskew.demo.runs import Outcome
from unskew.report.page import render, write

_LEAD = (
    "The same work on this machine: by Spark as it comes, by Spark as an expert tunes it, and with unskew, which "
    "measures the keys and then places them. All give the same results."
)

Step = Callable[[str], None]


def run(
    join: orders.Orders, job: crawl.Crawl, stream: clicks.Clicks, out: Path, console: Console
) -> tuple[Path, Path]:
    """Run the acts on local Spark, print what each took, and write the page; returns it, and the log of Spark."""
    with tempfile.NamedTemporaryFile(prefix="unskew-demo-", suffix=".log", delete=False) as file:
        log = Path(file.name)
    with _act(console, "Starting Spark", 1) as step:
        step("Java and Python workers")
        spark = session.start(join.cores, log)
    try:
        with _act(console, "Act 1 of 3", 3) as step:
            joined = orders.run(spark, join, step)
        _show(joined, 1, console)
        with _act(console, "Act 2 of 3", 3) as step:
            crawled = crawl.run(spark, job, step)
        _show(crawled, 2, console)
        with _act(console, "Act 3 of 3", 2) as step:
            live = clicks.run(spark, stream, step)
        _show_stream(live, console)
    finally:
        spark.stop()
    from unskew import __version__

    footer = f"unskew {__version__}, Python {platform.python_version()}"
    sections = [joined.section(), crawled.section(), clicks.section(live)]
    write(out, render("Skewed keys on Spark, before and after", _LEAD, sections, footer))
    return out, log


@contextmanager
def _act(console: Console, title: str, steps: int) -> Iterator[Step]:
    """A progress bar that counts steps, in a terminal; it disappears with the act."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[step]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(title, total=steps, step="")
        begun = 0

        def step(name: str) -> None:
            nonlocal begun
            bar.update(task, completed=begun, step=name)
            begun += 1

        yield step


def _show(outcome: Outcome, number: int, console: Console) -> None:
    """One line per run, each task a bar, and what they say together."""
    console.print(Text(f"{number}. {outcome.title}", "bold"))
    longest = max(run.seconds for run in outcome.runs)
    for run in outcome.runs:
        width = max(1, round(24 * run.seconds / longest))
        tasks = f"{len(run.tasks)} task{'s' * (len(run.tasks) != 1)} {run.strip}"
        _print_run(console, run.name, width, run.seconds, tasks, strong=run is outcome.runs[-1])
    console.print(Text(f"   {outcome.verdict}.\n"), soft_wrap=True)


def _show_stream(live: clicks.Outcome, console: Console) -> None:
    console.print(Text("3. A live stream whose hot keys change", "bold"))
    longest = live.median(clicks.HASHED)
    for run, name in ((clicks.HASHED, "hashed, as Spark does"), (clicks.MOVING, "unskew, state moves")):
        width = max(1, round(24 * live.median(run) / longest))
        _print_run(
            console, name, width, live.median(run), f"batches {live.strip(run)}", strong=run == clicks.MOVING
        )
    told = (
        f"   unskew has {live.gain:.1f} × the throughput; the state of {live.moved:,} keys moved while the query ran.",
        "   There is no tuned way: Spark ties the state of a key to its hash, so it can be neither salted nor moved.",
        "",
    )
    console.print(Text("\n".join(told)), soft_wrap=True)


def _print_run(console: Console, name: str, width: int, seconds: float, tasks: str, *, strong: bool) -> None:
    style = "bold green" if strong else ""
    line = Text(f"   {name:<22}", style)
    line.append("━" * width, style or "red")
    line.append(" " * (25 - width) + f"{seconds:5.1f} s   {tasks}")
    console.print(line, soft_wrap=True)
