"""`unskew doctor`: is this machine fit for unskew, and if not, what to do."""

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
from unskew.cli.machine import Check, Status, checks
from unskew.report.text import inert

if TYPE_CHECKING:
    import pandas as pd

_STYLES = {Status.OK: "green", Status.WARNING: "yellow", Status.PROBLEM: "bold red"}


def doctor(
    no_spark: Annotated[bool, typer.Option("--no-spark", help="Do not try a small Spark job.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
) -> None:
    """Check Python, Java, Spark, memory and disk, and try a small job; exit code 1 if there is a problem."""
    with progress() as step:
        step("looking at this machine")
        found = list(checks(os.environ))
        if not no_spark and not _problems(found):
            step("trying a Spark job")
            found.append(_try_spark())
    if as_json:
        print_json({"checks": [asdict(check) for check in found], "problems": len(_problems(found))})
    else:
        _print(found, Console())
    if _problems(found):
        raise typer.Exit(1)


def _problems(found: Sequence[Check]) -> list[Check]:
    return [check for check in found if check.status is Status.PROBLEM]


def _try_spark() -> Check:
    """One job with a shuffle and Python workers, which is what unskew needs."""
    from unskew.spark.session import quiet_session

    def smallest(rows: pd.DataFrame) -> pd.DataFrame:
        return rows.head(1)

    began = time.monotonic()
    try:
        spark = quiet_session("local[2]", {"spark.sql.shuffle.partitions": "2"})
        spark.range(100).selectExpr("id % 5 as k").groupBy("k").applyInPandas(smallest, "k long").collect()
    except Exception as error:  # noqa: BLE001  # whatever it is, it is what the user came to hear
        return Check(
            "Spark job", Status.PROBLEM, first_line(error), "mend this first: every Spark job would fail so"
        )
    return Check("Spark job", Status.OK, f"Spark {spark.version} ran one in {time.monotonic() - began:.1f} s")


def _print(found: Sequence[Check], console: Console) -> None:
    for check in found:
        status = (f"{check.status:<8}", _STYLES[check.status])
        console.print(Text.assemble(status, f" {check.name}: {inert(check.found)}"), soft_wrap=True)
        if check.advice:
            console.print(Text(f"         → {inert(check.advice)}"), soft_wrap=True)
    many = len(_problems(found))
    console.print(
        Text(f"\n{many} problem{'s' * (many != 1)}." if many else "\nEverything that unskew needs is here.")
    )
