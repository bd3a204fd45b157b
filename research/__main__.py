"""`python -m research`: list the figures of the papers, compute them, report on them, and compare the planners."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars
from rich.table import Table
from rich.text import Text

from unskew.cli.console import plain_errors

if TYPE_CHECKING:
    from research.papers.experiment import Benchmarked, Experiment, Omitted
    from research.papers.running import Progress

# Each command imports the papers itself, so that `--help` does not wait for them.

app = typer.Typer(
    name="python -m research",
    help="Reproduce the figures and tables of the papers, and compare the planners.",
    no_args_is_help=True,
    add_completion=False,
)

OutOption = Annotated[Path, typer.Option("--out", metavar="DIR", help="The folder of the results.")]
OUT = Path("out/papers")
BENCHMARKS = Path("benchmarks/results")


@app.command("list")
def list_all() -> None:
    """List every figure and table of every paper, and say why some are not computed."""
    from research.papers.registry import PAPERS

    console = Console()
    for paper in PAPERS:
        table = Table(title=f"{paper.authors}: {paper.title}", title_justify="left", box=SIMPLE_HEAD)
        table.add_column("figure", no_wrap=True, style="bold")
        table.add_column("what it shows", ratio=3)
        table.add_column("", ratio=2, style="dim")
        for entry in paper.entries:
            table.add_row(Text(entry.name), Text(entry.title), Text(_note(entry)))
        console.print(table)


@app.command()
def run(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="Figures or papers: gedik-3, dkg, …", show_default="all"),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Use smaller parameters: minutes, not hours.")
    ] = False,
    out: OutOption = OUT,
    again: Annotated[bool, typer.Option("--again", help="Compute again what is already saved.")] = False,
) -> None:
    """Compute figures and save each as soon as it is done; continue where a stopped run ended."""
    with plain_errors():
        from research.papers.experiment import judge
        from research.papers.registry import choose
        from research.papers.running import run_all

        chosen = choose(names or [])
        with _progress(len(chosen)) as progress:
            records = run_all(chosen, out, quick=quick, again=again, progress=progress)
        console = Console()
        for experiment, record in zip(chosen, records, strict=True):
            judgement = judge(experiment, record)
            held, claims = sum(fact.holds is True for _, fact in judgement.facts), len(judgement.facts)
            line = f"{experiment.name:16} {judgement.verdict.value:16} {held} of {claims} claims hold"
            console.print(Text(line), soft_wrap=True)


@app.command()
def report(
    out: OutOption = OUT,
    docs: Annotated[
        Path | None,
        typer.Option(
            "--docs",
            metavar="FILE.md",
            help="The Markdown page.",
            show_default="reproduction.md in the folder",
        ),
    ] = None,
    benchmarks: Annotated[
        Path, typer.Option(metavar="DIR", help="The folder with results of benchmarks on several hosts.")
    ] = BENCHMARKS,
) -> None:
    """Write what the papers say beside what was measured, as a Markdown page and as an HTML page."""
    with plain_errors():
        from research.papers.registry import PAPERS
        from research.papers.reproduction import gather, write_html, write_markdown

        page, html = docs or out / "reproduction.md", out / "reproduction.html"
        if page.suffix != ".md":
            raise ValueError(
                f"--docs {page}: the page is written as Markdown: choose a name that ends in .md"
            )
        papers = gather(PAPERS, out, benchmarks)
        write_markdown(papers, page)
        write_html(papers, html)
        console = Console()
        for path in (page, html):
            console.print(Text(str(path)), soft_wrap=True)


def _note(entry: Experiment | Benchmarked | Omitted) -> str:
    """Why a figure is not computed, or what computing it requires."""
    from research.papers.experiment import Experiment, Omitted

    if isinstance(entry, Omitted):
        return entry.why
    if isinstance(entry, Experiment):
        return "needs Spark" if entry.needs_spark else ""
    return f"measured by `{entry.command}`"


@contextmanager
def _progress(experiments: int) -> Iterator[Progress]:
    """Progress on standard error: two bars, for all figures and for the current one; without a terminal, lines."""
    console = Console(stderr=True)
    if not console.is_terminal:

        def print_once(name: str, done: int, points: int, /) -> None:  # noqa: ARG001
            if name not in printed:
                printed.append(name)
                console.print(Text(f"research: {name} …"), soft_wrap=True)

        printed: list[str] = []
        yield print_once
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Bars(*columns, console=console, transient=True) as bars:
        total = bars.add_task("all", total=experiments)
        current = bars.add_task("")
        started: dict[str, None] = {}

        def show(name: str, done: int, points: int, /) -> None:
            started[name] = None
            bars.update(total, completed=len(started) - 1)
            bars.update(current, description=name, completed=done, total=points)

        yield show


@app.command()
def compare(
    out: Annotated[Path, typer.Option("--out", metavar="FILE.html", help="The HTML page.")] = Path(
        "out/planners.html"
    ),
    picture: Annotated[
        Path | None, typer.Option("--picture", metavar="FILE.svg", help="Also write the README's picture.")
    ] = None,
    windows: Annotated[int, typer.Option(min=2, help="Number of windows.")] = 20,
    keys: Annotated[int, typer.Option(min=1, help="Number of distinct keys.")] = 100_000,
    draws: Annotated[int, typer.Option(min=1, help="Records per window.")] = 1_000_000,
    slots: Annotated[int, typer.Option(min=1, help="Number of slots.")] = 20,
    exponent: Annotated[float, typer.Option(help="Exponent of Zipf's law.")] = 1.0,
    seed: Annotated[int, typer.Option(help="Seed of the stream and of the planners.")] = 0,
) -> None:
    """Run every planner on one drifting stream; print a ranking and write an HTML page."""
    with plain_errors():
        from research.comparison import (
            Setting,
            make_page,
            make_picture,
            print_ranking,
            simulate_with_progress,
        )
        from unskew.report.page import write

        console = Console()
        results = simulate_with_progress(Setting(windows, keys, draws, slots, exponent, seed), console)
        print_ranking(results, console)
        if picture is not None:
            picture.parent.mkdir(parents=True, exist_ok=True)
            picture.write_text(make_picture(results), encoding="utf-8")
        console.print(Text(str(write(out, make_page(results)))), soft_wrap=True)


if __name__ == "__main__":
    app()
