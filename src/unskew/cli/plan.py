"""`unskew plan`: measure a key, plan for it, save the plan."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

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
from unskew.cli.options import ConfOption, JsonOption
from unskew.core.addresses import local_path
from unskew.core.histogram import DEFAULT_BUCKETS
from unskew.core.planners import planner_named


def plan(
    path: PathArgument = None,
    key: KeyOption = None,
    out: Annotated[str | None, typer.Option("--out", metavar="FILE", help="Where to save the plan.")] = None,
    table: TableOption = None,
    slots: Annotated[
        int | None,
        typer.Option(help="Number of slots  [default: those of --previous, else 3 per core]"),
    ] = None,
    planner_name: Annotated[
        str, typer.Option("--planner", help="One of the names that `unskew planners` lists.")
    ] = "auto",
    previous: Annotated[
        str | None,
        typer.Option(
            "--previous", metavar="FILE", help="The plan in force, to change as little as possible."
        ),
    ] = None,
    weight: WeightOption = None,
    sample: SampleOption = "auto",
    buckets: Annotated[
        int | None,
        typer.Option(help=f"Hash buckets  [default: those of --previous, else {DEFAULT_BUCKETS}]"),
    ] = None,
    form: FormatOption = None,
    as_json: JsonOption = False,
    master: MasterOption = "local[*]",
    conf: ConfOption = None,
) -> None:
    """Measure a key, make a plan for it and save it, for use with `unskew.load` or `plan=`."""
    with plain_errors(), progress() as step:
        keys, part = key_names(key), parse_sample(sample)
        planner_named(planner_name)
        if out is None:
            raise ValueError("no file to save the plan to: pass --out FILE")
        check_target(out, "--out")
        is_local = previous is not None and local_path(previous) is not None
        before = unskew.Plan.load(previous) if is_local and previous else None
        if before is not None and slots is None:
            slots = before.slots
        check_sizes(slots, _buckets(before) if buckets is None else buckets)
        check_source(path, table, master)
        df = data_frame(path, table, form, master, conf, step)
        if previous is not None and not is_local:
            before = unskew.Plan.load(previous)  # some file systems are reached only through Spark
        if before is not None:
            from unskew.spark.keys import key_columns

            before.check(key_columns(df, keys).type)
            slots = before.slots if slots is None else slots
        buckets = _buckets(before) if buckets is None else buckets
        if slots is None:
            from unskew.spark.parallelism import default_slots

            slots = default_slots(df.sparkSession)
        step(f"counting records by {', '.join(keys)}")
        measured = unskew.measure(df, keys, buckets=buckets, weight=weight, sample=part)
        step(f"planning with {planner_name}")
        new_plan = unskew.plan(measured, slots, planner_name, before)
        new_plan.save(out)
    from unskew.report.terminal import plan_figures, print_plan

    if as_json:
        print_json({**plan_figures(new_plan), "file": str(out)})
    else:
        print_plan(new_plan, str(out), Console())


def _buckets(before: unskew.Plan | None) -> int:
    return DEFAULT_BUCKETS if before is None else before.histogram.buckets
