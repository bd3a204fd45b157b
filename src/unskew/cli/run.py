"""`unskew run`: a job file, checked and run."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from unskew.cli.console import Step, plain_errors, progress
from unskew.cli.options import ConfOption, spark_settings
from unskew.jobs.job import Job, read_job
from unskew.jobs.outline import outline
from unskew.report.text import inert

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LOG_EVERY, SCREEN_EVERY = 10.0, 1.0
"""Seconds between two progress lines of a stream: in a log they pile up, on a screen each replaces the last."""


def run(
    file: Annotated[Path, typer.Argument(metavar="JOB.toml", help="The job: see docs/run.md.")],
    check: Annotated[
        bool, typer.Option("--check", help="Print what will run, or what is wrong with it; run nothing.")
    ] = False,
    measure: Annotated[
        bool,
        typer.Option("--measure", help="With --check: measure the key of a batch job and print the plan."),
    ] = False,
    master: Annotated[
        str | None, typer.Option("--master", help="Where Spark runs  [default: the job's, else local[*]]")
    ] = None,
    conf: ConfOption = None,
) -> None:
    """Run a batch job or a stream that a TOML file describes.

    SIGINT (Ctrl-C) and SIGTERM stop it cleanly; a stream resumes from its checkpoint when it is run again. Exit codes:
    0 done, 2 a mistake or a failure, 130 stopped by SIGINT, 143 stopped by SIGTERM.
    """
    with plain_errors(), progress() as step:
        job = read_job(file)
        if measure and not (check and not job.is_stream):
            raise ValueError(
                "--measure goes with --check of a batch job: add --check, or leave --measure out"
            )
        settings = {**{name: str(value) for name, value in job.spark.conf.items()}, **spark_settings(conf)}
        df = _records(job, master or job.spark.master or "local[*]", settings, step)
        if check:
            rows = [*outline(job), _checked_by_spark(job, df, measure, step)]
        else:
            summary, exit_code = (_run_stream if job.is_stream else _run_batch)(job, df, step)
    if check:
        _print_outline(f"{file} is in order", rows)
        return
    Console(stderr=True).print(Text(f"unskew: {inert(summary)}"), soft_wrap=True)
    raise typer.Exit(exit_code)


def _records(job: Job, master: str, settings: dict[str, str], step: Step) -> DataFrame:
    from unskew.jobs.build import check_functions
    from unskew.jobs.code import carry_code
    from unskew.jobs.source import read_records
    from unskew.spark.session import quiet_session

    check_functions(job)
    carry_code(job.folder)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    step("starting Spark")
    return read_records(job, quiet_session(master, settings))


def _checked_by_spark(job: Job, df: DataFrame, measure: bool, step: Step) -> tuple[str, str]:
    """The row of the outline that needs Spark: the columns of the output or input, or the measured plan."""
    from unskew.jobs.build import check, groups, stateful_stream

    step("checking the operators")
    if job.is_stream:
        stream = stateful_stream(job, df)
        check(job, stream)
        return "result", stream.schema.simpleString()
    grouped = groups(job, df)
    if not measure:
        return "columns", df.schema.simpleString()
    step("measuring")
    return "measured", _plan_summary(grouped)


def _print_outline(title: str, rows: Sequence[tuple[str, str]]) -> None:
    table = Table(box=SIMPLE_HEAD, show_header=False, title=Text(inert(title)), title_justify="left")
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(name, Text(inert(value)))
    Console().print(table)


def _run_stream(job: Job, df: DataFrame, step: Step) -> tuple[str, int]:
    from unskew.jobs.build import start, stateful_stream
    from unskew.jobs.errors import unwrap_failures
    from unskew.jobs.run import follow, stop_signals

    ready = stateful_stream(job, df)
    with stop_signals() as stop, unwrap_failures():
        step("starting the query")
        every = SCREEN_EVERY if sys.stderr.isatty() else LOG_EVERY
        line = follow(start(job, ready), len(job.operator), stop, step, every)
    return f"{stop}, {line}", stop.exit_code


def _run_batch(job: Job, df: DataFrame, step: Step) -> tuple[str, int]:
    from unskew.jobs.build import groups, result
    from unskew.jobs.errors import unwrap_failures
    from unskew.jobs.run import finish, stop_signals
    from unskew.jobs.sink import build_sink

    grouped, sink = groups(job, df), build_sink(job)

    def work() -> None:
        step("planning")
        rows = result(job, grouped)
        step("running")
        sink(rows, 0)

    with stop_signals() as stop, unwrap_failures():
        finished = finish(work, df.sparkSession.interruptAll, stop)
    plan = f", {_plan_summary(grouped)}" if finished and job.operator[0].apply is not None else ""
    return f"{stop}{plan}", stop.exit_code


def _plan_summary(grouped: Any) -> str:
    return "hashing is as good as any table" if grouped.plan is None else repr(grouped.plan)
