"""The command line: diagnose, plan, run a job, watch it, list planners, reproduce the papers, check the machine.

Results go to standard output, and with --json nothing else does; progress and errors go to standard error. A
user's mistake is one line and exit code 2.
"""

from __future__ import annotations

import inspect
import re
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

import unskew
from unskew.commands.bench import bench
from unskew.commands.console import Step, check_target, plain_errors, print_json, progress
from unskew.commands.doctor import doctor
from unskew.commands.event_log import check_alone, diagnose_event_log
from unskew.commands.options import ConfOption, spark_settings
from unskew.commands.run import run
from unskew.commands.watch import watch
from unskew.core.diagnosis import check_cores
from unskew.core.histogram import DEFAULT_BUCKETS
from unskew.core.planners import NAMES, planner
from unskew.core.routing import check_slots
from unskew.report.labels import inert

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from unskew.spark.measure import Sample

app = typer.Typer(
    name="unskew",
    help="Measured, explicit key placement for skewed Spark jobs.",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
)
app.command()(doctor)
app.add_typer(bench, name="bench")
app.command()(run)


class Format(StrEnum):
    """How the data is stored."""

    PARQUET = "parquet"
    CSV = "csv"
    JSON = "json"


PathArgument = Annotated[
    str | None, typer.Argument(metavar="PATH", help="A Parquet, CSV or JSON file or folder.")
]
KeyOption = Annotated[
    list[str] | None,
    typer.Option("--key", metavar="COLUMN", help="A key column; repeat it for a composite key."),
]
TableOption = Annotated[str | None, typer.Option("--table", help="A table of the catalog instead of PATH.")]
FormatOption = Annotated[
    Format | None, typer.Option("--format", help="Format of PATH  [default: by its extension]")
]
WeightOption = Annotated[
    str | None,
    typer.Option("--weight", help="A column with the cost of a record  [default: each weighs 1]"),
]
SampleOption = Annotated[
    str | None,
    typer.Option(
        "--sample",
        metavar="auto|SHARE|ROWS",
        help="Look at a part: auto, a share (0.1) or a number of rows  [default: all]",
    ),
]
MasterOption = Annotated[
    str, typer.Option("--master", help="Where Spark runs, as for spark-submit; sc://… for Spark Connect.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]


@app.callback()
def main(
    version: Annotated[  # its callback does the work
        bool,
        typer.Option(
            "--version", is_eager=True, callback=lambda asked: _version(asked), help="Print the version."
        ),
    ] = False,
) -> None:
    """Measured, explicit key placement for skewed Spark jobs."""


@app.command()
def diagnose(
    context: typer.Context,
    path: PathArgument = None,
    key: KeyOption = None,
    table: TableOption = None,
    slots: Annotated[
        int | None, typer.Option(help="Number of slots (partitions)  [default: 3 a core]")
    ] = None,
    cores: Annotated[int | None, typer.Option(help="Cores that work on them  [default: one a slot]")] = None,
    weight: WeightOption = None,
    sample: SampleOption = None,
    buckets: Annotated[int, typer.Option(help="Hash buckets of the histogram.")] = DEFAULT_BUCKETS,
    then: Annotated[
        list[str] | None,
        typer.Option(
            "--then", metavar="COLUMN", help="A key to group by next: what placing both together gains."
        ),
    ] = None,
    form: FormatOption = None,
    as_json: JsonOption = False,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="OUT.html", help="Write a page with pictures, too.")
    ] = None,
    master: MasterOption = "local[*]",
    conf: ConfOption = None,
    event_log: Annotated[
        Path | None,
        typer.Option(
            "--event-log",
            metavar="LOG",
            help="Instead of data: which stages of an application were skewed, by its event log.",
        ),
    ] = None,
) -> None:
    """How skewed a key is, what that costs, and what each planner would do about it."""
    if event_log is not None:
        with plain_errors():
            check_alone(context)
            diagnose_event_log(event_log, html, as_json=as_json)
        return
    with plain_errors(), progress() as step:
        keys, part = _key(key), _sample(sample)
        check_cores(cores)
        _check_slots(slots, buckets)
        _check_source(path, table, master)
        if html is not None:
            check_target(html, "--html")
        df = _data(path, table, form, master, conf, step)

        def judging(what: str) -> None:
            if what == "measuring":
                step(f"counting records by {', '.join(keys)}")
            else:
                step("comparing planners", f": {what}")

        found = unskew.diagnose(
            df,
            keys,
            slots=slots,
            cores=cores,
            weight=weight,
            sample=part,
            buckets=buckets,
            then=then or None,
            progress=judging,
        )
        page = None
        if html is not None:
            step(f"writing {html}")
            page = unskew.write_report(found, html, source=table or str(path))
    if as_json:
        print_json(found.to_dict())
        return
    from unskew.report.terminal import print_diagnosis

    console = Console()
    print_diagnosis(found, console)
    if page is not None:
        console.print(Text(f"Report: {inert(str(page))}"), soft_wrap=True)


@app.command("plan")
def make_plan(
    path: PathArgument = None,
    key: KeyOption = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Where the plan goes.")] = None,
    table: TableOption = None,
    slots: Annotated[
        int | None,
        typer.Option(help="Number of slots  [default: those of --previous, else 3 a core]"),
    ] = None,
    planner_name: Annotated[
        str, typer.Option("--planner", help="One of those that `unskew planners` lists.")
    ] = "auto",
    previous: Annotated[
        Path | None,
        typer.Option(
            "--previous", metavar="FILE", help="The plan in force, to change as little as possible."
        ),
    ] = None,
    weight: WeightOption = None,
    sample: SampleOption = None,
    buckets: Annotated[
        int | None,
        typer.Option(help=f"Hash buckets  [default: those of --previous, else {DEFAULT_BUCKETS}]"),
    ] = None,
    form: FormatOption = None,
    as_json: JsonOption = False,
    master: MasterOption = "local[*]",
    conf: ConfOption = None,
) -> None:
    """Measure a key, make a plan for it and save it: `unskew.load` and `plan=` take it from there."""
    with plain_errors(), progress() as step:
        keys, part = _key(key), _sample(sample)
        planner(planner_name)
        if out is None:
            raise ValueError("say where the plan goes: --out FILE")
        check_target(out, "--out")
        before = None if previous is None else unskew.load(previous)
        if before is not None:
            buckets = before.histogram.buckets if buckets is None else buckets
            slots = before.slots if slots is None else slots
        buckets = DEFAULT_BUCKETS if buckets is None else buckets
        _check_slots(slots, buckets)
        _check_source(path, table, master)
        df = _data(path, table, form, master, conf, step)
        if before is not None:
            from unskew.spark.keys import key_columns

            before.check(key_columns(df, keys).type)
        if slots is None:
            from unskew.spark.planned import default_slots

            slots = default_slots(df)
        step(f"counting records by {', '.join(keys)}")
        measured = unskew.measure(df, keys, buckets=buckets, weight=weight, sample=part)
        step(f"planning with {planner_name}")
        made = unskew.plan(measured, slots, planner_name, before)
        made.save(out)
    from unskew.report.terminal import plan_figures, print_plan

    if as_json:
        print_json({**plan_figures(made), "file": str(out)})
    else:
        print_plan(made, str(out), Console())


@app.command()
def planners() -> None:
    """List the planners and the papers they come from."""
    table = Table(box=SIMPLE_HEAD)
    table.add_column("planner", no_wrap=True, style="bold")
    table.add_column("what it does", ratio=3)
    table.add_column("paper", ratio=2, style="dim")
    for name in NAMES:
        table.add_row(Text(name), Text(_summary(name)), Text(_paper(name)))
    Console().print(table)


def _key(names: list[str] | None) -> list[str]:
    if not names:
        raise ValueError("name the key: --key COLUMN, once for each column")
    return names


def _check_slots(slots: int | None, buckets: int) -> None:
    if buckets < 1:
        raise ValueError(f"--buckets {buckets}: there is at least 1 bucket")
    check_slots(1 if slots is None else slots, buckets)


def _check_source(path: str | None, table: str | None, master: str) -> None:
    if (path is None) == (table is None):
        raise ValueError("give either a PATH or --table NAME")
    if path is not None and master.startswith("local"):
        from unskew.spark.reading import check_path

        check_path(path)


def _data(
    path: str | None, table: str | None, form: Format | None, master: str, conf: list[str] | None, step: Step
) -> DataFrame:
    from unskew.spark.reading import guess_format, read
    from unskew.spark.session import quiet_session

    settings = spark_settings(conf)
    chosen = None
    if path is not None:
        chosen = guess_format(path) if form is None else form.value
    step("starting Spark")
    spark = quiet_session(master, settings)
    step(f"reading {table or path}")
    if table is not None:
        return spark.table(table)
    assert path is not None  # _check_source has seen to it
    return read(spark, path, chosen)


def _sample(text: str | None) -> Sample:
    if text is None:
        return None
    if text == "auto":
        return "auto"
    try:
        return int(text) if re.fullmatch(r"\d+", text) else float(text)
    except ValueError:
        raise ValueError(f"--sample {text}: write auto, a share such as 0.1, or a number of rows") from None


def _summary(name: str) -> str:
    doc = inspect.getmodule(planner(name)).__doc__ or ""
    return doc.strip().splitlines()[0]


def _paper(name: str) -> str:
    """The citation in the planner's docstring; empty for what is no paper's."""
    text = inspect.getdoc(planner(name)) or ""
    flat = [" ".join(paragraph.split()) for paragraph in text.split("\n\n")]
    for paragraph in flat:
        found = re.search(r"Papers?: (.+)$", paragraph) or re.match(
            r"([A-Z]\w+(?: et al\.)?(?:, \"| \d{4}).+)$", paragraph
        )
        if found:
            return found[1].rstrip(".")
    return ""


def _version(asked: bool) -> None:
    if asked:
        print(f"unskew {unskew.__version__}")
        raise typer.Exit


app.command()(plain_errors()(watch))

if __name__ == "__main__":
    app()
