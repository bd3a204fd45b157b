"""`unskew doctor`: whether this machine has what unskew needs, and what to do if not."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

from unskew.cli.console import first_line, print_json, progress
from unskew.cli.machine import Check, Status, check_machine
from unskew.cli.options import JsonOption
from unskew.report.text import counted, inert

if TYPE_CHECKING:
    import pandas as pd

_STYLES = {Status.OK: "green", Status.WARNING: "yellow", Status.PROBLEM: "bold red"}


def doctor(
    no_spark: Annotated[bool, typer.Option("--no-spark", help="Skip the small Spark job.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Check Python, Java, Spark, memory and disk, and try a small job; exit code 1 if there is a problem."""
    with progress() as step:
        step("checking this machine")
        checks = list(check_machine(os.environ))
        if not no_spark and not _problems(checks):
            step("trying a Spark job")
            checks += _check_spark()
    if as_json:
        print_json({"checks": [asdict(check) for check in checks], "problems": len(_problems(checks))})
    else:
        _print(checks, Console())
    if _problems(checks):
        raise typer.Exit(1)


def _problems(checks: Sequence[Check]) -> list[Check]:
    return [check for check in checks if check.status is Status.PROBLEM]


def _check_spark() -> list[Check]:
    """Run a job with a shuffle and Python workers, which is what unskew needs, and read the settings that matter."""
    from unskew.spark.session import quiet_session
    from unskew.spark.settings import setting
    from unskew.spark.versions.support import support

    def first_row(rows: pd.DataFrame) -> pd.DataFrame:
        return rows.head(1)

    started = time.monotonic()
    try:
        spark = quiet_session("local[2]", {"spark.sql.shuffle.partitions": "2"})
        spark.range(100).selectExpr("id % 5 as k").groupBy("k").applyInPandas(first_row, "k long").collect()
    except Exception as error:  # noqa: BLE001  # any failure is what the user wants to know about
        advice = "fix this first: every Spark job will fail this way"
        return [Check("Spark job", Status.PROBLEM, first_line(error), advice)]
    seconds = time.monotonic() - started
    job = Check("Spark job", Status.OK, f"Spark {spark.version} ran one in {seconds:.1f} s")
    checks = [job, Check("Spark version", Status.OK, support(spark))]
    name = "spark.sql.requireAllClusterKeysForDistribution"
    if setting(spark, name) != "true":
        return checks
    advice = f"set {name} to false: with it Spark shuffles placed rows again, so unskew leaves every job to plain Spark"
    return [*checks, Check("Spark settings", Status.WARNING, f"{name} is true", advice)]


def _print(checks: Sequence[Check], console: Console) -> None:
    for check in checks:
        status = (f"{check.status:<8}", _STYLES[check.status])
        console.print(Text.assemble(status, f" {check.name}: {inert(check.detail)}"), soft_wrap=True)
        if check.advice:
            console.print(Text(f"         → {inert(check.advice)}"), soft_wrap=True)
    problems = len(_problems(checks))
    summary = f"{counted(problems, 'problem')}." if problems else "This machine has all that unskew needs."
    console.print(Text(f"\n{summary}"))
