"""`make demo`: a skewed job and a live stream on local Spark, plain and unskewed; then all planners compared.

The first two acts run for real, twice each. The third needs no Spark: windows are generated and the planners run
on their histograms. The picture in the README comes from the third:

    .venv/bin/python -m unskew.report.demo --picture docs/images/demo.svg
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from unskew.report import crawl, live
from unskew.report.comparison import (
    OURS,
    RANKING,
    RUNS,
    Results,
    Setting,
    make_page,
    make_picture,
    ranking,
    simulate,
)
from unskew.report.page import write


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the demo; the last line printed is the path of the page."""
    options = _options(arguments)
    setting = Setting(
        options.windows, options.keys, options.draws, options.slots, options.exponent, options.seed
    )
    console = Console()
    acts = (
        []
        if options.no_spark
        else [crawl.section(_crawl(options, console)), live.section(_live(options, console))]
    )
    results = _simulate(setting, console)
    print_table(results, console)
    if options.picture is not None:
        options.picture.parent.mkdir(parents=True, exist_ok=True)
        options.picture.write_text(make_picture(results), encoding="utf-8")
    print(write(options.out, make_page(results, acts)))


def print_table(results: Results, console: Console) -> None:
    """The ranking in the terminal, keel highlighted."""
    setting = results.setting
    table = Table(
        title=f"{setting.windows} windows of {setting.draws:,} records, {setting.slots} slots",
        caption="Most even first. max/mean: the fullest slot. Bound: the least for whole keys.\n"
        "On arrival: ÷ bound, one window later. State moved: share of all, a window.",
    )
    for column in RANKING:
        table.add_column(column.title, justify="left" if column.form == "{}" else "right", no_wrap=True)
    for row in ranking(results):
        ours = row["planner"] == OURS
        table.add_row(
            *(column.show(row) for column in RANKING), style="bold black on yellow" if ours else None
        )
    console.print(table)


def _crawl(options: argparse.Namespace, console: Console) -> crawl.Outcome:
    size = crawl.Crawl(pages=options.pages, wait=options.wait)
    with console.status("starting Spark") as status:
        found = crawl.run(size, status.update)
    console.print(found.diagnosis.advice)
    console.print(
        f"The same crawl on local Spark: plain [bold]{found.plain.seconds:.1f} s[/], unskew "
        f"[bold]{found.unskewed.seconds:.1f} s[/] with measuring and planning: {found.speedup:.2f} times as fast.\n"
    )
    return found


def _live(options: argparse.Namespace, console: Console) -> live.Outcome:
    with console.status("streaming") as status:
        found = live.run(
            crawl.session(crawl.Crawl.cores), live.Clicks(batches=options.batches), status.update
        )
    before, after = found.median(live.HASHED), found.median(live.MOVING)
    console.print(
        f"A live stream with drifting hot keys: [bold]{before:.1f} s[/] a batch hashed, [bold]{after:.1f} s[/] with "
        f"state that moves: {before / after:.2f} times the throughput.\n"
    )
    return found


def _simulate(setting: Setting, console: Console) -> Results:
    look = (TextColumn("{task.description:24}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*look, console=console, transient=True) as progress:
        task = progress.add_task("drawing the stream", total=RUNS)
        return simulate(setting, lambda done, what: progress.update(task, completed=done, description=what))


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    default = Setting()
    parser = argparse.ArgumentParser(
        prog="python -m unskew.report.demo", description="Compare the planners on a drifting, skewed stream."
    )
    add = parser.add_argument
    add("--out", type=Path, default=Path("out/demo.html"), help="where the page goes (default: %(default)s)")
    add("--picture", type=Path, help="write an SVG picture of the result, too")
    add("--no-spark", action="store_true", help="leave out the job on Spark")
    add("--pages", type=int, default=crawl.Crawl.pages, help="pages of the job (default: %(default)s)")
    add("--wait", type=float, default=crawl.Crawl.wait, help="seconds a page waits (default: %(default)s)")
    add(
        "--batches",
        type=int,
        default=live.Clicks.batches,
        help="of the stream, at least 3 (default: %(default)s)",
    )
    add("--windows", type=int, default=default.windows, help="at least 2 (default: %(default)s)")
    add("--keys", type=int, default=default.keys, help="distinct keys (default: %(default)s)")
    add("--draws", type=int, default=default.draws, help="records a window (default: %(default)s)")
    add("--slots", type=int, default=default.slots, help="N (default: %(default)s)")
    add("--exponent", type=float, default=default.exponent, help="of Zipf's law (default: %(default)s)")
    add(
        "--seed", type=int, default=default.seed, help="of the stream and the planners (default: %(default)s)"
    )
    options = parser.parse_args(arguments)
    if options.batches < 3:
        parser.error(
            f"--batches is {options.batches}, but state moves from the second batch on: give 3 or more"
        )
    if options.windows < 2:
        parser.error(
            f"--windows is {options.windows}, but state moves from the second window on: give 2 or more"
        )
    return options


if __name__ == "__main__":
    main()
