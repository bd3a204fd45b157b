"""`unskew diagnose`: how skewed a key is, or which stages of an application were."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

import unskew
from unskew.cli.console import check_target, plain_errors, print_json, progress
from unskew.cli.data import (
    FormatOption,
    KeyOption,
    MasterOption,
    PathArgument,
    SampleOption,
    TableOption,
    WeightOption,
    check_sizes,
    check_source,
    data_frame,
    key_names,
    parse_sample,
)
from unskew.cli.event_log import diagnose_run
from unskew.cli.options import ConfOption, JsonOption
from unskew.core.diagnosis import check_cores
from unskew.core.histogram import DEFAULT_BUCKETS
from unskew.report.text import inert


def diagnose(
    context: typer.Context,
    path: PathArgument = None,
    key: KeyOption = None,
    table: TableOption = None,
    slots: Annotated[
        int | None, typer.Option(help="Number of slots (partitions)  [default: 3 per core]")
    ] = None,
    cores: Annotated[
        int | None, typer.Option(help="Cores that work on them  [default: one per slot]")
    ] = None,
    weight: WeightOption = None,
    sample: SampleOption = "auto",
    buckets: Annotated[int, typer.Option(help="Hash buckets of the histogram.")] = DEFAULT_BUCKETS,
    then: Annotated[
        list[str] | None,
        typer.Option(
            "--then",
            metavar="COLUMN",
            help="A key to group by next: report what placing both together gains.",
        ),
    ] = None,
    form: FormatOption = None,
    as_json: JsonOption = False,
    html: Annotated[
        str | None, typer.Option("--html", metavar="OUT.html", help="Also write a page with charts.")
    ] = None,
    master: MasterOption = "local[*]",
    conf: ConfOption = None,
    event_log: Annotated[
        Path | None,
        typer.Option(
            "--event-log",
            metavar="LOG",
            help="Instead of data: find the skewed stages of an application in its event log.",
        ),
    ] = None,
    app: Annotated[
        str | None,
        typer.Option(
            "--app",
            metavar="ADDRESS",
            help="Instead of data: ask the web interface of a running driver, such as http://localhost:4040.",
        ),
    ] = None,
    history: Annotated[
        str | None,
        typer.Option(
            "--history", metavar="ADDRESS", help="The same from a History Server, such as http://host:18080."
        ),
    ] = None,
    app_id: Annotated[
        str | None, typer.Option("--app-id", metavar="ID", help="Which application of the History Server.")
    ] = None,
) -> None:
    """Report how skewed a key is, what that costs, and what each planner would do about it."""
    with plain_errors():
        if diagnose_run(
            context, event_log=event_log, app=app, history=history, app_id=app_id, html=html, as_json=as_json
        ):
            return
    with plain_errors(), progress() as step:
        keys, part = key_names(key), parse_sample(sample)
        check_cores(cores)
        check_sizes(slots, buckets)
        check_source(path, table, master)
        if html is not None:
            check_target(html, "--html", creates_folder=True)
        df = data_frame(path, table, form, master, conf, step)

        def report_progress(task: str) -> None:
            if task == "measuring":
                step(f"counting records by {', '.join(keys)}")
            else:
                step("comparing planners", f": {task}")

        diagnosis = unskew.diagnose(
            df,
            keys,
            slots=slots,
            cores=cores,
            weight=weight,
            sample=part,
            buckets=buckets,
            then=then or None,
            progress=report_progress,
        )
        page = None
        if html is not None:
            step(f"writing {html}")
            page = unskew.write_report(diagnosis, html, source=table or str(path))
    if as_json:
        print_json(diagnosis.to_dict())
        return
    from unskew.report.terminal import print_diagnosis

    console = Console()
    print_diagnosis(diagnosis, console)
    if page is not None:
        console.print(Text(f"Report: {inert(str(page))}"), soft_wrap=True)
